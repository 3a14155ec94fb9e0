//! `topologyKeys` as Kubernetes 1.17 to 1.21 had them, for the endpoints of one source cluster.
//!
//! The keys are labels of nodes, walked in order. The first one for which some endpoint has the node's own value wins and
//! the others do not count; `*` takes all that are left. Keys the node does not have are passed over. A list that ends
//! without a match lets nothing through: the keys are a condition, not a wish.

use tombolo_api::service::{HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL};

use super::endpoint::Endpoint;
use super::node::Node;
use crate::offer::ANY_TOPOLOGY;

/// The endpoints that the keys allow on this node, and the key that decided.
pub(super) fn allow<'e, 'a, 'k>(
    keys: &'k [String],
    endpoints: Vec<&'e Endpoint<'a>>,
    node: &Node,
) -> (Vec<&'e Endpoint<'a>>, Option<&'k str>) {
    let Some(last) = keys.last() else { return (endpoints, None) };
    if node.labels.is_empty() {
        let known = if last == ANY_TOPOLOGY { endpoints } else { Vec::new() };
        return (known, Some(last));
    }
    for key in keys {
        if key == ANY_TOPOLOGY {
            return (endpoints, Some(key));
        }
        let Some(ours) = node.topology(key) else { continue };
        let near = |endpoint: &&&Endpoint<'_>| value(endpoint, key) == Some(ours);
        let matching: Vec<&Endpoint<'_>> = endpoints.iter().filter(near).copied().collect();
        if !matching.is_empty() {
            return (matching, Some(key));
        }
    }
    (Vec::new(), None)
}

/// What slices say of an endpoint's node: they never said more than these three.
fn value<'a>(endpoint: &Endpoint<'a>, key: &str) -> Option<&'a str> {
    match key {
        HOSTNAME_LABEL => endpoint.node,
        ZONE_LABEL => endpoint.zone,
        REGION_LABEL => endpoint.region,
        _ => None,
    }
}
