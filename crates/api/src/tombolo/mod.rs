//! `tombolo.dev/v1alpha1`: Tombolo's own kinds and words.
//!
//! At the hub a member has one [`Membership`] and one [`ServiceOffer`] per exported Service, in its own namespace. In a
//! member an [`AddressPool`] holds the addresses of load balancers.

mod membership;
mod offer;
mod pool;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use membership::{Failure, Membership, MembershipSpec, MembershipStatus};
pub use offer::{Dialect, OfferType, ServiceOffer, ServiceOfferSpec, ServiceRef, Tier};
pub use pool::{
    AddressPool, AddressPoolSpec, AddressPoolStatus, AddressRange, BadAddress, PoolCondition, PoolReason,
};

/// Prefix of a member's namespace at the hub.
pub const HUB_NAMESPACE_PREFIX: &str = "tombolo-";

/// Name of a member's heartbeat, a Lease in its namespace at the hub.
pub const HEARTBEAT: &str = "heartbeat";

/// Name of a member's [`Membership`], beside it.
pub const STATEMENT: &str = "member";

/// Name of a member's account, in its namespace at the hub.
pub const HUB_ACCOUNT: &str = "agent";

/// Key of the token for the hub in the Secret that a member has it in, and so the name of its file.
pub const TOKEN_KEY: &str = "token";

/// Value of `endpointslice.kubernetes.io/managed-by` on imported slices (KEP-1645 first edition, EndpointSlice).
pub const SLICE_MANAGER: &str = "agent.tombolo.dev";

/// Label of a derived object: its maker. Objects without it are never touched.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";

/// Value of [`MANAGED_BY_LABEL`] on what Tombolo makes.
pub const MANAGER: &str = "tombolo";

/// Label of a slice at the hub: the name of the offer it belongs to, in the same namespace.
pub const OFFER_LABEL: &str = "tombolo.dev/offer";

/// Prefix of the name of a derived Service, which holds an import's address (as in the reference
/// controller of kubernetes-sigs/mcs-api).
pub const DERIVED_SERVICE_PREFIX: &str = "derived-";

/// Finalizer of a ServiceExport: its offer is still to be withdrawn (KEP-1645 first edition, `Initialized`: "has
/// appropriate finalizers set").
pub const EXPORT_FINALIZER: &str = "tombolo.dev/export";

/// Label of a member's namespace at the hub: its id. And of a Cluster there that is a member of ours: Tombolo made it, or a
/// member stated that it is the one. Namespaces and Clusters without it are somebody else's, and left alone.
pub const MEMBER_LABEL: &str = "tombolo.dev/member";

/// Annotation of a member's namespace at the hub: where its pods have their addresses, separated by commas. The member cannot
/// change it, so it counts before what the member states.
pub const POD_CIDRS_ANNOTATION: &str = "tombolo.dev/pod-cidrs";

/// Finalizer of such a Cluster: its Works, its namespace and its statement are still to be removed.
pub const CLUSTER_FINALIZER: &str = "tombolo.dev/cluster";

/// Finalizer of a ServiceImport with native naming: a Service's selector is still to be put back (native naming proposal,
/// Remote-Only Service Discovery).
pub const NATIVE_NAMING_FINALIZER: &str = "tombolo.dev/native-naming";

/// Annotation of a Service whose selector was put aside for `RemoteOnly`: that selector, as JSON (native naming proposal,
/// Remote-Only Service Discovery).
pub const SET_ASIDE_SELECTOR_ANNOTATION: &str = "tombolo.dev/set-aside-selector";

/// Key in the selector of a Service whose selector was put aside, beside the keys it had: no pod has this label, so no pod
/// is selected, and every stock controller sees to it by itself (native naming proposal, Remote-Only Service Discovery).
pub const SET_ASIDE_SELECTOR_KEY: &str = "tombolo.dev/selector-set-aside";

/// Label of a Service or slice made for native naming: the ServiceImport it was made for (native naming proposal, Design Details).
pub const NATIVE_IMPORT_LABEL: &str = "tombolo.dev/native-import";

/// Annotation of a Service that a Work made: the generation of that Work.
pub const WORK_GENERATION_ANNOTATION: &str = "tombolo.dev/work-generation";

/// Annotation of a Service that was there before its Work: it stays when the Work goes.
pub const ADOPTED_ANNOTATION: &str = "tombolo.dev/adopted";

/// Annotation of an object whose Work says that it stays when the Work goes.
pub const PRESERVED_ANNOTATION: &str = "tombolo.dev/preserved";

/// Annotation of a Service: its topology keys, where the server has no such field (KEP-1645 first edition,
/// TopologyKeys).
pub const TOPOLOGY_KEYS_ANNOTATION: &str = "tombolo.dev/topology-keys";

/// Label of a Namespace or Service: a ServiceExport is made for it (KEP-1645 first edition, Exporting Services, "tooling
/// may be built on top of this").
pub const AUTO_EXPORT_LABEL: &str = "tombolo.dev/auto-export";

/// Annotation of an import or an exporting Service: the tiers traffic prefers, nearest first, words of [`Tier`] (KEP-1645
/// first edition, user story Single Service Deployed to Multiple Clusters).
pub const PREFER_ANNOTATION: &str = "tombolo.dev/prefer";

/// Annotation of an imported slice: the region that its source cluster declares (KEP-1645 first edition, TopologyKeys: a
/// proxy compares it with its own).
pub const REGION_ANNOTATION: &str = "tombolo.dev/region";

/// Annotation of a MultiClusterService: with fewer ready local endpoints than this, `LocalFirst` adds remote ones
/// (MultiClusterService proposal, Proposal, LocalFirst).
pub const LOCAL_FIRST_MIN_READY_ANNOTATION: &str = "tombolo.dev/local-first-min-ready";

/// Annotation of a Service: required load balancer features, where the server has no such field (KEP-4631,
/// `Service.Spec.RequiredLoadBalancerFeatures`).
pub const REQUIRED_LOAD_BALANCER_FEATURES_ANNOTATION: &str = "tombolo.dev/required-load-balancer-features";

/// Annotation of a Service: the load balancer addresses it asks for, one per family at most.
pub const LOAD_BALANCER_ADDRESSES_ANNOTATION: &str = "tombolo.dev/load-balancer-addresses";

/// Annotation of a Service: Services with the same value may share a load balancer address.
pub const ADDRESS_SHARING_KEY_ANNOTATION: &str = "tombolo.dev/address-sharing-key";

/// Annotation of a Service that has a load balancer of ours: what of it was seen and is served, so that a provider that
/// starts anew knows what has changed (KEP-4631, "to indicate that it has seen the update"). Also: that it is ours.
pub const LOAD_BALANCER_RECORD_ANNOTATION: &str = "tombolo.dev/load-balancer";

/// Label of a Lease: it is the heartbeat of a node that announces load balancer addresses.
pub const ANNOUNCER_LABEL: &str = "tombolo.dev/announcer";

/// Annotation of such a Lease: the addresses that the node announces.
pub const ANNOUNCED_ANNOTATION: &str = "tombolo.dev/announced";

/// Annotation of such a Lease: the node has no link to answer on, so nothing is left to it.
pub const MUTE_ANNOTATION: &str = "tombolo.dev/mute";

/// Annotation of a Service: the steps at which the load balancer provider shall fail (KEP-4631, Test Plan, e2e tests,
/// "intentionally failing").
pub const FAIL_ANNOTATION: &str = "tombolo.dev/fail";

pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    vec![ServiceOffer::crd(), Membership::crd(), AddressPool::crd()]
}
