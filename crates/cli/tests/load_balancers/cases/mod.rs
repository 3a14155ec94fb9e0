//! The load balancer tests of Kubernetes, by their numbers, and those that KEP-4631 asks for beside them.

mod affinity;
mod allowed;
mod extra;
mod local;
mod mutation;
mod rollout;
mod udp;

use std::pin::Pin;

use crate::outcome::Outcome;
use crate::world::World;

type Run = for<'w> fn(&'w World) -> Pin<Box<dyn Future<Output = Outcome> + 'w>>;

/// One test: its name, and what it does.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: Run,
}

macro_rules! cases {
    ($($name:literal => $module:ident :: $function:ident,)+) => {
        &[$(Case { name: $name, run: |world| Box::pin($module::$function(world)) },)+]
    };
}

/// All of them. Where the KEP splits a test in two, the second half has the letter b.
pub(crate) const CASES: &[Case] = cases! {
    "1 type and ports of a TCP service" => mutation::tcp,
    "2 type and ports of a UDP service" => mutation::udp,
    "3 source ranges" => allowed::only_source_ranges,
    "4 affinity with Local" => affinity::sticks_with_local,
    "5 affinity switched with Local" => affinity::switches_with_local,
    "6 affinity with Cluster" => affinity::sticks_with_cluster,
    "7 affinity switched with Cluster" => affinity::switches_with_cluster,
    "8 cleanup finalizer" => mutation::finalizer,
    "9 without node ports" => mutation::without_node_ports,
    "10 UDP backends that change, two nodes" => udp::on_two_nodes,
    "11 UDP backends that change, one node" => udp::on_one_node,
    "12 rolling update with Cluster" => rollout::with_cluster,
    "13 rolling update with Local" => rollout::with_local,
    "14 Local works" => local::works,
    "14b Local keeps the client's address" => local::keeps_the_client_address,
    "15 Local targets only nodes with endpoints" => local::only_nodes_with_endpoints,
    "16 Local targets all nodes with endpoints" => local::all_nodes_with_endpoints,
    "17 Local works from pods" => local::works_from_pods,
    "17b Local keeps the address of pods" => local::keeps_the_pod_address,
    "KEP dual-stack" => extra::dual_stack,
    "KEP several protocols" => extra::several_protocols,
    "KEP foreign class" => extra::foreign_class,
};
