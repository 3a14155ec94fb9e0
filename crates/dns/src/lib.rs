//! Authoritative DNS for the supercluster.
//!
//! `zone` holds what is known, one immutable value per service in a table without locks; `message` reads queries and writes
//! replies; `answer` puts the two together; all of that is pure. Around it: `view` keeps the table in step with the member's
//! objects, `server` has the sockets, `forward` asks others for what is not ours, `explain` says why an answer is what it is.

mod answer;
mod changes;
mod config;
mod dns;
mod explain;
mod forward;
mod message;
mod metrics;
mod server;
mod trim;
mod view;
mod zone;

pub use self::answer::{Answerer, Apex, Facts, Kind, Scratch, Settings, Transport, Verdict};
pub use self::config::{Config, Error};
pub use self::dns::Dns;
pub use self::explain::{Explanation, explain, presentation, query, record_type};
pub use self::message::Rcode;
pub use self::metrics::Metrics;
pub use self::server::{Network, Sockets};
pub use self::zone::{
    Addresses, BadName, Endpoints, Host, Name, Port, Ports, Read, Reader, Realm, Service, Zones, key, room,
};
