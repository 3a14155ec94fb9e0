//! `tombolo install`: brings parts into a cluster, or prints what that would be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::{Args, ValueEnum};
use kube::Client;
use tombolo_install::{
    ApiServer, Applied, Manifest, Part, Settings, apply, later_workloads, manifests, render,
};

use crate::connect::Way;
use crate::coredns::{self, CoreDns};
use crate::failure::Failure;
use crate::fitting::Fitting;
use crate::say::{say, say_all};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    parts: Parts,
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    choices: Choices,
    /// Let the cluster's CoreDNS pass the zones on; without it, what to add is printed.
    #[arg(long, requires = "dns")]
    configure_coredns: bool,
    #[command(flatten)]
    coredns: CoreDns,
    /// Change nothing; print the objects.
    #[arg(long)]
    dry_run: bool,
    /// How to print them.
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t = Form::Yaml, requires = "dry_run")]
    output: Form,
}

/// What is installed.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Parts {
    /// Where members meet: kinds, rights, and the hub's own part.
    #[arg(long)]
    pub(crate) hub: bool,
    /// The agent of a member.
    #[arg(long)]
    pub(crate) member: bool,
    /// DNS for the zones of the supercluster.
    #[arg(long)]
    pub(crate) dns: bool,
    /// The service proxy, on every node.
    #[arg(long)]
    pub(crate) proxy: bool,
    /// Load balancers, on every node.
    #[arg(long)]
    pub(crate) balancer: bool,
}

/// How it is installed.
#[derive(Debug, Args)]
struct Choices {
    /// Where everything runs.
    #[arg(long, default_value = "tombolo-system")]
    namespace: String,
    /// The container image, made with `cargo xtask image`; without it `tombolo` and the version of this program.
    #[arg(long)]
    image: Option<String>,
    /// How many of each part that is not on every node.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(i32).range(1..=100))]
    replicas: i32,
    /// Listen on addresses of IPv6, too; for clusters whose pods have no other.
    #[arg(long)]
    ipv6: bool,
    /// Add a ServiceMonitor for Prometheus' operator and a dashboard for Grafana.
    #[arg(long)]
    monitoring: bool,
    /// The address of the DNS Service; without it the cluster chooses one.
    #[arg(long, value_name = "ADDRESS")]
    dns_address: Option<IpAddr>,
    /// The API server's own address, for proxies that take kube-proxy's place.
    #[arg(long, value_name = "HOST:PORT", value_parser = api_server)]
    api_server: Option<ApiServer>,
    /// The class of load balancers to serve; without it those that have none.
    #[arg(long, value_name = "CLASS")]
    load_balancer_class: Option<String>,
    #[command(flatten)]
    fitting: Fitting,
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Yaml,
    Json,
}

fn api_server(text: &str) -> Result<ApiServer, String> {
    let bad = || format!("{text:?} is no address: write 192.0.2.7:6443 or [2001:db8::7]:6443");
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    port.parse::<u16>().map_err(|_| bad())?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(ApiServer { host: host.to_owned(), port: port.to_owned() })
}

impl Parts {
    pub(crate) fn chosen(&self) -> Vec<Part> {
        let all = [
            (self.hub, Part::Hub),
            (self.member, Part::Member),
            (self.dns, Part::Dns),
            (self.proxy, Part::Proxy),
            (self.balancer, Part::Balancer),
        ];
        all.into_iter().filter(|(chosen, _)| *chosen).map(|(_, part)| part).collect()
    }
}

impl Choices {
    fn settings(&self, chosen: &[Part]) -> Result<Settings, Failure> {
        let usual = Settings::default();
        let listen: IpAddr = match self.ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let mut settings = Settings {
            namespace: self.namespace.clone(),
            image: self.image.clone().unwrap_or(usual.image),
            replicas: self.replicas,
            listen,
            monitoring: self.monitoring,
            dns_address: self.dns_address.map(|address| address.to_string()),
            api_server: self.api_server.clone(),
            load_balancer_class: self.load_balancer_class.clone(),
            ..usual
        };
        let unfit = |why| Failure::new(format!("nothing was changed: {why}"));
        self.fitting.fit(&mut settings, chosen).map_err(unfit)?;
        Ok(settings)
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let chosen = arguments.parts.chosen();
    let manifests = manifests(&arguments.choices.settings(&chosen)?, &chosen);
    if arguments.dry_run {
        return print(&manifests, arguments.output);
    }
    let client = arguments.way.connect("cluster").await?;
    refuse_to_go_back(&client, &manifests).await?;
    put(&client, &manifests).await?;
    let namespace = &arguments.choices.namespace;
    match (arguments.parts.dns, arguments.configure_coredns) {
        (true, true) => arguments.coredns.configure(&client, namespace).await?,
        (true, false) => coredns::tell(&client, namespace).await?,
        (false, _) => {}
    }
    if arguments.parts.member {
        say("# agents wait until the cluster joins: see `tombolo join --help`");
    }
    Ok(())
}

/// An earlier version never silently takes the place of a later one.
async fn refuse_to_go_back(client: &Client, manifests: &[Manifest]) -> Result<(), Failure> {
    let later = later_workloads(client, manifests).await;
    let later = later.map_err(|cause| Failure::new("the cluster cannot be looked at").because(cause))?;
    if later.is_empty() {
        return Ok(());
    }
    let told: Vec<String> =
        later.iter().map(|one| format!("{} is of version {}", one.object, one.version)).collect();
    let own = env!("CARGO_PKG_VERSION");
    let what = format!("nothing was changed: {}, and this program of version {own}", told.join(", "));
    Err(Failure::new(what)
        .hint("use the later program; to go back on purpose, `tombolo uninstall` these parts first, without --kinds"))
}

/// Prints objects for others to apply.
pub(crate) fn print(manifests: &[Manifest], form: Form) -> Result<(), Failure> {
    let cannot = |cause| Failure::new("the objects cannot be printed").because(cause);
    match form {
        Form::Yaml => say_all(render(manifests).map_err(cannot)?),
        Form::Json => {
            let items: Vec<_> = manifests.iter().map(Manifest::value).collect();
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
            say(format_args!("{list:#}"));
        }
    }
    Ok(())
}

/// Applies objects and says what became of each.
pub(crate) async fn put(client: &Client, manifests: &[Manifest]) -> Result<(), Failure> {
    apply(client, manifests, |manifest, applied| say(line(manifest, &applied)))
        .await
        .map_err(|cause| Failure::new("not everything is there").because(cause).hint(
            "what is missing can be added by running this again; an administrator of the cluster has the rights",
        ))
}

fn line(manifest: &Manifest, applied: &Applied) -> String {
    let place = manifest.namespace().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    let object = format!("{}/{}{place}", manifest.kind().to_lowercase(), manifest.name());
    match applied {
        Applied::Created => format!("{object} created"),
        Applied::Changed => format!("{object} configured"),
        Applied::Unchanged => format!("{object} unchanged"),
        Applied::Kept(why) => format!("{object} kept: {why}"),
        Applied::NoSuchKind => format!("{object} left out: the cluster has no such kind"),
    }
}
