//! The Kubernetes kinds Tombolo speaks, and every word it shares with other programs.
//!
//! One module per API group: its kinds as kube-rs custom resources, its labels, annotations, finalizers, condition types
//! and reasons. A word that has a fixed spelling is a constant or an enum here and is spelled nowhere else; its doc line
//! names the clause it comes from.
//!
//! | module | group | kinds |
//! |---|---|---|
//! | [`kep`] | `multicluster.k8s.io` | ServiceExport, ImportedService (KEP-1645, first edition) |
//! | [`mcs`] | `multicluster.x-k8s.io` | ServiceExport, ServiceImport (today's MCS API) |
//! | [`about`] | `about.k8s.io` | ClusterProperty |
//! | [`karmada`] | `networking`, `work` and `cluster.karmada.io` | MultiClusterService, Work, Cluster |
//! | [`tombolo`] | `tombolo.dev` | ServiceOffer, Membership, AddressPool |
//! | [`service`] | core, `discovery.k8s.io` | words on Services and EndpointSlices |
//! | [`loadbalancer`] | core | words of KEP-4631 on Services |
//!
//! [`condition`] sets conditions, [`crd`] makes the manifests in `deploy/crds`. Everything here is a value: no I/O, no
//! clock, no async.

#![expect(clippy::duplicated_attributes, reason = "every `printcolumn` has a `type_`")]
#![expect(unreachable_pub, reason = "derive(KubeSchema) repeats a struct, `pub` and all, inside a function")]

pub mod about;
pub mod condition;
pub mod crd;
pub mod karmada;
pub mod kep;
pub mod loadbalancer;
pub mod mcs;
mod schema;
pub mod service;
pub mod tombolo;
mod vocabulary;

pub use crd::crds;
pub use vocabulary::UnknownWord;
