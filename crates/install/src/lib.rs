//! How Tombolo is installed in real clusters.
//!
//! One pure source: [`Settings`] and [`Part`]s → [`Manifest`]s. `tombolo install` applies them ([`apply()`]), `deploy/` holds
//! them as files and as a Helm chart ([`deploy_files`]), so the three cannot differ. A member that joins has a place at the
//! hub ([`place()`]) and knows who it is ([`Membership`]); both are values of the same kind, for GitOps as for the command.

mod account;
mod admission;
mod apply;
mod chart;
mod corefile;
mod dashboard;
mod definitions;
mod departure;
mod deploy;
mod guard;
mod inspect;
mod installed;
mod join;
mod leave;
mod manifest;
mod membership;
mod monitor;
mod part;
mod place;
mod pod;
mod precedence;
mod registration;
mod remove;
mod reversal;
mod rights;
mod settings;
mod turn;
mod values_schema;
mod wish;
mod workload;

pub use self::admission::{Findings, examine, examine_alone};
pub use self::apply::{Applied, Error, apply};
pub use self::corefile::{Unfit, blocks, blocks_of_cache, pass_zones_on, reloads, stop_passing_on};
pub use self::definitions::{definitions, kinds};
pub use self::departure::{keeps_from_leaving, keeps_from_leaving_without_hub};
pub use self::deploy::{FOLDERS, deploy_files};
pub use self::inspect::{ClusterSeen, HubSeen, MemberAtHub, Server, inspect_cluster, inspect_hub};
pub use self::installed::{Installed, installed, who_needs};
pub use self::join::{held_token, is_its_token, name_hub, put_token, restart};
pub use self::leave::{Place, forget, stop_agents, take_place};
pub use self::manifest::{Manifest, render};
pub use self::membership::{HUB_SECRET, HubAddress, Membership, properties};
pub use self::part::{Part, manifests, namespace as system_namespace};
pub use self::place::{Introduction, former_rights, is_for_members, member_roles, place};
pub use self::precedence::{Later, later_workloads};
pub use self::remove::{Removed, remove};
pub use self::settings::{ApiServer, Settings};
pub use self::turn::{Turn, TurnError};
pub use self::wish::Wish;
