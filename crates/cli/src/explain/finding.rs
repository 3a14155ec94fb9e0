//! What is said about one hop on the way of a service from one cluster to another.

use jiff::Timestamp;
use serde::Serialize;

/// When an object was last written: what it says is so since then at the latest.
pub(super) fn last_written<K: kube::Resource>(object: &K) -> Option<Timestamp> {
    let written = object.meta().managed_fields.iter().flatten();
    let written = written.filter_map(|entry| entry.time.as_ref()).map(|time| time.0);
    written.chain(object.meta().creation_timestamp.as_ref().map(|time| time.0)).max()
}

/// The way of a service, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Hop {
    Service,
    Export,
    Offer,
    Merge,
    /// What a MultiClusterService says, and what is wrong with it.
    Sharing,
    /// The Service, from the hub to the clusters.
    Delivery,
    /// Endpoints, from those who provide to the hub.
    Report,
    Import,
    #[serde(rename = "VIP")]
    Vip,
    Slices,
    #[serde(rename = "DNS")]
    Dns,
    Proxy,
    Endpoints,
}

impl Hop {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Export => "export",
            Self::Offer => "offer",
            Self::Merge => "merge",
            Self::Sharing => "sharing",
            Self::Delivery => "delivery",
            Self::Report => "report",
            Self::Import => "import",
            Self::Vip => "VIP",
            Self::Slices => "slices",
            Self::Dns => "DNS",
            Self::Proxy => "proxy",
            Self::Endpoints => "endpoints",
        }
    }
}

/// How it looks there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum State {
    Fine,
    /// It works, but not as somebody meant it.
    Doubtful,
    /// Nobody could look.
    Unknown,
    Broken,
}

/// One hop in one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) hop: Hop,
    pub(crate) cluster: String,
    pub(crate) state: State,
    pub(crate) what: String,
    /// Since when it is so, as far as anything tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn new(hop: Hop, cluster: &str, state: State, what: impl Into<String>) -> Self {
        Self { hop, cluster: cluster.to_owned(), state, what: what.into(), since: None, advice: None }
    }

    pub(crate) fn fine(hop: Hop, cluster: &str, what: impl Into<String>) -> Self {
        Self::new(hop, cluster, State::Fine, what)
    }

    pub(crate) fn broken(hop: Hop, cluster: &str, what: impl Into<String>) -> Self {
        Self::new(hop, cluster, State::Broken, what)
    }

    pub(crate) fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    pub(crate) fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}
