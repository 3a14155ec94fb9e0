//! From flags to clients: which contexts there are, and which of them is the hub.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tombolo_playground::Directory;

use crate::failure::Failure;
use crate::span;

/// Where to look.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reach {
    /// The kubeconfig with a context for the hub and for each member; without it the default one.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the hub.
    #[arg(long, value_name = "NAME", default_value = "hub")]
    hub_context: String,
    /// The contexts of the members; without it all that belong to a cluster the hub knows.
    #[arg(long = "contexts", value_name = "NAME", value_delimiter = ',')]
    contexts: Vec<String>,
    /// How long a cluster may take to answer.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = span::parse)]
    timeout: Duration,
}

/// A context, and the way to its API server.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) context: String,
    /// Or why there is none.
    pub(crate) client: Result<Client, String>,
}

/// All places to look at.
#[derive(Clone)]
pub(crate) struct Places {
    pub(crate) hub: Place,
    /// Who may be members.
    pub(crate) others: Vec<Place>,
    /// Whether the person named them, so that none is left out.
    pub(crate) named: bool,
    pub(crate) timeout: Duration,
    /// The playground that the kubeconfig belongs to, if it does.
    pub(crate) playground: Option<Directory>,
}

impl Reach {
    /// Reads the kubeconfig. No cluster is asked yet.
    pub(crate) async fn places(&self) -> Result<Places, Failure> {
        let kubeconfig = self.read()?;
        let known: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
        let wanted = if self.contexts.is_empty() { known.clone() } else { self.contexts.clone() };
        let unknown = wanted.iter().chain([&self.hub_context]).find(|name| !known.contains(name));
        if let Some(name) = unknown {
            let hint = format!(
                "the kubeconfig has {}; see --kubeconfig, --hub-context and --contexts",
                if known.is_empty() { "no contexts".to_owned() } else { known.join(", ") }
            );
            return Err(Failure::new(format!("there is no context {name:?}")).hint(hint));
        }
        let hub = connect(&kubeconfig, &self.hub_context, self.timeout).await;
        let mut others = Vec::new();
        for name in &wanted {
            others.push(connect(&kubeconfig, name, self.timeout).await);
        }
        let (named, playground) = (!self.contexts.is_empty(), self.playground());
        Ok(Places { hub, others, named, timeout: self.timeout, playground })
    }

    /// A playground keeps its kubeconfig beside what else it tells.
    fn playground(&self) -> Option<Directory> {
        let file = self.kubeconfig.clone().or_else(|| std::env::var_os("KUBECONFIG").map(PathBuf::from))?;
        let directory = Directory::new(file.parent()?);
        (directory.kubeconfig() == file && directory.endpoints().is_ok()).then_some(directory)
    }

    fn read(&self) -> Result<Kubeconfig, Failure> {
        let read = match &self.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        read.map_err(|cause| {
            Failure::new("there is no kubeconfig")
                .because(cause)
                .hint("give --kubeconfig, or set KUBECONFIG; that of a playground is .tombolo/kubeconfig")
        })
    }
}

async fn connect(kubeconfig: &Kubeconfig, context: &str, timeout: Duration) -> Place {
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await;
    let client = config.map_err(|error| error.to_string()).and_then(|mut config| {
        config.connect_timeout = Some(timeout);
        Client::try_from(config).map_err(|error| error.to_string())
    });
    Place { context: context.to_owned(), client }
}
