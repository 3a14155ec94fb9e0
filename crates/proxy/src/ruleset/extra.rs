//! What is made when a Service first needs it: chains that choose among so many slots, sets of who sticks for so long.
//!
//! There are as many as there are different numbers, not as there are Services. They stay until the proxy starts anew: a
//! chain that nobody leads to costs nothing.

use std::time::Duration;

use tombolo_model::routing::Claim;
use tombolo_nft::{Batch, Expression, Family, Register, Rule, Set, Table, Type};

use super::registers::Registers;
use crate::plan::{Balance, FROM_HERE, Key, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extra {
    Choice { balance: Balance, node_port: bool, from_here: bool },
    Sticky { duration: Duration, node_port: bool },
}

impl Extra {
    /// What an element needs to be there before it.
    pub(crate) fn needed(key: &Key, value: &Value) -> Option<(Family, Self)> {
        let is_node_port = |claim: &Claim| claim.address.is_none();
        match (key, value) {
            (Key::Frontend(claim), Value::Balance(balance)) => {
                let node_port = is_node_port(claim);
                Some((family(claim), Extra::Choice { balance: *balance, node_port, from_here: false }))
            }
            (Key::FromHere(claim), Value::Balance(balance)) => {
                let node_port = is_node_port(claim);
                Some((family(claim), Extra::Choice { balance: *balance, node_port, from_here: true }))
            }
            (Key::Sticky(duration, claim, _), _) => {
                let node_port = is_node_port(claim);
                Some((family(claim), Extra::Sticky { duration: *duration, node_port }))
            }
            _ => None,
        }
    }

    /// One of each kind: their rules, too, tell one version of the proxy from another.
    pub(crate) fn samples() -> impl Iterator<Item = Self> {
        let choices = (0..8).map(|bits| {
            let balance = Balance { slots: 3, sticky: bits & 4 > 0 };
            Extra::Choice { balance, node_port: bits & 1 > 0, from_here: bits & 2 > 0 }
        });
        let sticky = |node_port| Extra::Sticky { duration: Duration::from_secs(60), node_port };
        choices.chain([false, true].map(sticky))
    }

    /// The name of its chain or set.
    pub(crate) fn name(&self) -> String {
        match self {
            Extra::Choice { balance, node_port, from_here } => {
                let kind = match (node_port, balance.sticky) {
                    (false, false) => "lb",
                    (false, true) => "sticky",
                    (true, false) => "np",
                    (true, true) => "np-sticky",
                };
                let here = if *from_here { "-here" } else { "" };
                format!("{kind}{here}-{}", balance.slots)
            }
            Extra::Sticky { duration, node_port } => {
                let kind = if *node_port { "sticky-nodeports" } else { "sticky" };
                format!("{kind}-{}s", duration.as_secs())
            }
        }
    }

    pub(crate) fn add_to(&self, batch: &mut Batch, table: &Table) {
        let r = Registers::of(table.family);
        match self {
            Extra::Choice { balance, node_port, from_here } => {
                let name = self.name();
                batch.add_chain(table, &name, None);
                // The chain may be there already, made by a proxy that ended since.
                batch.flush_chain(table, &name);
                if balance.sticky {
                    batch.add_rule(table, &name, &recall(r));
                }
                batch.add_rule(table, &name, &choose(r, balance.slots, *node_port, *from_here));
            }
            Extra::Sticky { duration, node_port } => {
                batch.add_set(table, &Set::new(self.name(), &sticky_key(r, *node_port)));
                batch.add_rule(table, "record", &record(r, self.name(), *duration, *node_port));
            }
        }
    }

    /// How many rules its chain has.
    pub(crate) fn rules(&self) -> usize {
        match self {
            Extra::Choice { balance, .. } => 1 + usize::from(balance.sticky),
            Extra::Sticky { .. } => 0,
        }
    }
}

pub(crate) fn family(claim: &Claim) -> Family {
    match claim.family {
        tombolo_api::service::IpFamily::V4 => Family::Ip,
        tombolo_api::service::IpFamily::V6 => Family::Ip6,
    }
}

/// `dnat to ip daddr . meta l4proto . th dport . numgen random mod N map @endpoints`
fn choose(r: Registers, slots: u32, node_port: bool, from_here: bool) -> Rule {
    let (key, map) = if node_port { (r.port(), "nodeport-endpoints") } else { (r.frontend(), "endpoints") };
    let last = Register(if node_port { 2 } else { r.width + 2 });
    let offset = if from_here { FROM_HERE } else { 0 };
    let choice = [
        Expression::Random { to: last, modulus: slots, offset },
        Expression::Lookup { map: map.to_owned(), from: Register(0), to: Register(0) },
        r.translate(),
    ];
    Rule::new([&key[..], &choice].concat())
}

/// `dnat to ip saddr . ip daddr . meta l4proto . th dport map @affinity`
fn recall(r: Registers) -> Rule {
    let client = [
        r.source(0),
        r.destination(r.width),
        r.protocol(2 * r.width),
        r.destination_port(2 * r.width + 1),
        Expression::Lookup { map: "affinity".to_owned(), from: Register(0), to: Register(0) },
        r.translate(),
    ];
    Rule::new(client.to_vec())
}

fn sticky_key(r: Registers, node_port: bool) -> Vec<Type> {
    let address = Some(r.address_type()).filter(|_| !node_port);
    address.into_iter().chain([Type::Protocol, Type::Port, r.address_type(), Type::Port]).collect()
}

/// `ct original ip daddr . meta l4proto . ct original proto-dst . ip daddr . th dport @sticky-60s
/// update @affinity { ip saddr . ct original ip daddr . … timeout 60s : ip daddr . th dport }`
fn record(r: Registers, set: String, duration: Duration, node_port: bool) -> Rule {
    let (frontend, next) =
        if node_port { (r.original_port(), 2) } else { (r.original_frontend(), r.width + 2) };
    let backend = [r.destination(next), r.destination_port(next + r.width)];
    let client = [vec![r.source(0)], r.original_frontend_at(r.width)].concat();
    let data = 2 * r.width + 2;
    let target = [r.destination(data), r.destination_port(data + r.width)];
    let update = Expression::Update {
        set: "affinity".to_owned(),
        key: Register(0),
        data: Some(Register(data)),
        timeout: duration,
    };
    let present = Expression::Contains { set, from: Register(0), inverted: false };
    Rule::new([&frontend[..], &backend, &[present], &client, &target, &[update]].concat())
}

/// Chains that are made on demand, by their names.
pub(crate) fn is_choice(chain: &str) -> bool {
    ["lb-", "sticky-", "np-"].iter().any(|kind| chain.starts_with(kind))
}

/// Sets that are made on demand, by their names.
pub(crate) fn is_sticky_set(set: &str) -> bool {
    set.starts_with("sticky-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_tell_all_that_differs() {
        let (choices, sets): (Vec<Extra>, Vec<Extra>) =
            Extra::samples().partition(|extra| matches!(extra, Extra::Choice { .. }));
        let names = |extras: &[Extra]| extras.iter().map(Extra::name).collect::<BTreeSet<String>>();
        let (choices, sets) = (names(&choices), names(&sets));
        assert_eq!((choices.len(), sets.len()), (8, 2));
        assert!(choices.contains("lb-3"), "{choices:?}");
        assert!(choices.iter().all(|name| is_choice(name)) && sets.iter().all(|name| is_sticky_set(name)));
    }

    #[test]
    fn samples_have_rules_to_compare() {
        let table = Table::new(Family::Ip, "t");
        for extra in Extra::samples() {
            let mut batch = Batch::new();
            extra.add_to(&mut batch, &table);
            assert!(batch.len() >= 2, "{}", extra.name());
        }
    }
}
