//! A Kubernetes API server small enough to start in milliseconds.
//!
//! It is for the playground and for tests; production is real Kubernetes. One handler set works on JSON values, a table
//! of resources and small rules per kind, so built-in and custom resources take the same path. A [`Cluster`] is a value:
//! no global state, its clock and randomness are given to it, and any number of clusters live in one process.
//!
//! From the outside in: `serve` (TLS), `http` (requests and answers), `operation` (create, update, patch, delete),
//! `rules`, `schema`, `types` and `patch` (what objects mean), `store` (what is remembered).

mod auth;
mod bootstrap;
mod cluster;
pub mod controllers;
mod core;
mod entropy;
mod event_view;
mod http;
mod identity;
mod invalid;
mod nodes;
mod object;
mod operation;
mod patch;
mod print;
mod registry;
mod rules;
mod schema;
mod selector;
mod serve;
mod shape;
mod status;
mod store;
mod types;

pub use self::auth::{User, fresh_token};
pub use self::cluster::{Cluster, Options};
pub use self::core::Backup;
pub use self::entropy::Entropy;
pub use self::http::Body;
pub use self::nodes::{Connection, ContainerPlace, ExecOptions, LogOptions, Nodes, Output, Session, Since};
pub use self::rules::service::Features;
pub use self::serve::{
    Authority, AuthorityError, Context, ContextError, Issued, NodeServer, Server, kubeconfig,
};
pub use self::status::Status;
pub use self::store::DataError;
pub use tombolo_runtime::Clock;
