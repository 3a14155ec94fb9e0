//! nftables and connection tracking over netlink.
//!
//! Types for tables, chains, rules, sets and their elements; a [`Batch`] of changes that a [`Socket`] makes happen in one
//! transaction, or not at all, saying which operation was refused; questions about what is loaded; and forgetting tracked
//! connections. It speaks to the kernel directly: no program is started and no C library linked. Everything it makes can
//! be printed by `nft list ruleset`, which is why sets carry types. What rules mean is none of its business.

mod attribute;
mod batch;
mod conntrack;
mod expression;
mod message;
mod object;
mod query;
mod socket;
mod types;

pub use self::batch::{Batch, Operation};
pub use self::conntrack::{Flow, Forgotten};
pub use self::expression::{
    Comparison, CtKey, DESTINATION_TRANSLATED, Expression, Header, MetaKey, NEW, Register, Rejection, Verdict,
};
pub use self::message::Family;
pub use self::object::{ChainKind, Element, Hook, Loaded, Place, Rule, Set, Table, Value, ValueType};
pub use self::socket::{CommitError, Socket, within};
pub use self::types::{Fields, Type};
