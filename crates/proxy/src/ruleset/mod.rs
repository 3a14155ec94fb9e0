//! The rules: what every packet is asked, whatever Services there are.
//!
//! One table per family, which nobody else's rules depend on. The rules never change; Services are elements of the sets and
//! maps they look into ([`encode`]). What depends on numbers that Services bring, a chain per count of slots and a set per
//! duration of affinity, is made on demand ([`Extra`]). Packets carry no marks: what must be known after the translation
//! is asked from the tracked connection.

pub(crate) mod encode;
mod extra;
mod registers;

pub(crate) use self::extra::{Extra, family, is_choice, is_sticky_set};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ipnet::IpNet;
use tombolo_nft::{
    Batch, ChainKind, Comparison, CtKey, DESTINATION_TRANSLATED, Expression, Family, Hook, NEW, Place,
    Rejection, Rule, Set, Table, Type, Verdict,
};

use self::registers::Registers;

/// The name of our tables.
pub(crate) const TABLE: &str = "tombolo-proxy";
/// The name of those that stand in for them while they are made anew.
pub(crate) const STAND_IN: &str = "tombolo-proxy-stand-in";
/// Who sticks to whom, at most; when it is full, new clients just do not stick.
const MOST_AFFINITY: u32 = 262_144;
/// What `fib … type` gives for an address of this host.
const LOCAL: u32 = 2;

/// What the rules depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where the pods of this node have their addresses; empty: not known.
    pub pods: Vec<IpNet>,
    /// The node's addresses that have node ports; empty: all but loopback.
    pub node_port_addresses: Vec<IpNet>,
    /// Connections to cluster IPs lose their source address, too.
    pub masquerade_all: bool,
    /// Where Services have their cluster IPs; what no Service has leads nowhere. Empty: not known.
    pub services: Vec<IpNet>,
}

/// Something a table is made of.
#[derive(Clone, Debug)]
enum Object {
    Chain(&'static str, Option<Hook>),
    Set(Set),
    Rule(&'static str, Rule),
}

/// The rules of one family.
#[derive(Clone, Debug)]
pub(crate) struct Skeleton {
    pub(crate) table: Table,
    objects: Vec<Object>,
}

impl Skeleton {
    pub(crate) fn new(family: Family, settings: &Settings) -> Self {
        let mut builder = Builder { registers: Registers::of(family), objects: Vec::new() };
        builder.sets();
        builder.chains();
        builder.firewall();
        builder.translation(settings);
        builder.filters(settings);
        builder.masquerading(settings);
        Self { table: Table::new(family, TABLE), objects: builder.objects }
    }

    /// Tells these rules from others, those made on demand included, so that a proxy that starts knows whether those that are loaded
    /// are its own.
    pub(crate) fn comment(&self) -> String {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.objects).hash(&mut hasher);
        let mut on_demand = Batch::new();
        Extra::samples().for_each(|extra| extra.add_to(&mut on_demand, &self.table));
        format!("{on_demand:?}").hash(&mut hasher);
        format!("tombolo proxy, rules {:016x}", hasher.finish())
    }

    /// Makes everything in a table; `room` says how many elements a set needs to have room for, if that is known to be
    /// many.
    pub(crate) fn add_to(&self, batch: &mut Batch, table: &Table, room: impl Fn(&str) -> Option<u32>) {
        batch.add_table(table, Some(&self.comment()));
        for object in &self.objects {
            match object {
                Object::Chain(name, hook) => batch.add_chain(table, name, *hook),
                Object::Set(set) if set.interval || set.dynamic.is_some() => batch.add_set(table, set),
                Object::Set(set) => batch.add_set(table, &Set { most: room(&set.name), ..set.clone() }),
                Object::Rule(chain, rule) => batch.add_rule(table, chain, rule),
            }
        }
    }

    /// The chains with the number of their rules; those of [`Extra`] are not among them.
    pub(crate) fn chains(&self) -> std::collections::BTreeMap<String, usize> {
        let mut chains = std::collections::BTreeMap::new();
        for object in &self.objects {
            match object {
                Object::Chain(name, _) => drop(chains.entry((*name).to_owned()).or_insert(0)),
                Object::Rule(chain, _) => *chains.entry((*chain).to_owned()).or_insert(0) += 1,
                Object::Set(_) => {}
            }
        }
        chains
    }

    /// The names of the sets that hold Services; `affinity` holds clients.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().filter_map(|object| match object {
            Object::Set(set) if set.dynamic.is_none() => Some(set.name.as_str()),
            _ => None,
        })
    }
}

struct Builder {
    registers: Registers,
    objects: Vec<Object>,
}

impl Builder {
    fn sets(&mut self) {
        let address = self.registers.address_type();
        let frontend = [address, Type::Protocol, Type::Port];
        let slot = [address, Type::Protocol, Type::Port, Type::Mark];
        let port = [Type::Protocol, Type::Port];
        let port_slot = [Type::Protocol, Type::Port, Type::Mark];
        let target = [address, Type::Port];
        let counted = |set: Set| Set { counted: true, ..set };
        let source = [address, Type::Protocol, Type::Port, address];
        let client = [address, address, Type::Protocol, Type::Port];
        let sets = [
            Set::verdicts("services", &frontend),
            Set::verdicts("from-here", &frontend),
            Set::map("endpoints", &slot, &target),
            Set::verdicts("nodeports", &port),
            Set::verdicts("nodeports-from-here", &port),
            Set::map("nodeport-endpoints", &port_slot, &target),
            counted(Set::verdicts("refused", &frontend)),
            counted(Set::verdicts("refused-nodeports", &port)),
            counted(Set::verdicts("guarded", &frontend)),
            Set { interval: true, ..Set::new("allowed", &source) },
            Set::new("masquerade", &frontend),
            Set::new("masquerade-nodeports", &port),
            Set::new("cluster-ips", &[address]),
            Set::new("external", &frontend),
            Set::new("hairpin", &source),
            Set { dynamic: Some(MOST_AFFINITY), ..Set::map("affinity", &client, &target) },
        ];
        self.objects.extend(sets.into_iter().map(Object::Set));
    }

    fn chains(&mut self) {
        let hook = |kind, place, priority| Some(Hook { kind, place, priority });
        let filter = |place, priority| hook(ChainKind::Filter, place, priority);
        let nat = |place, priority| hook(ChainKind::Nat, place, priority);
        let chains = [
            ("reject", None),
            ("firewall", None),
            ("services", None),
            ("nodeports", None),
            ("from-here", None),
            ("nodeports-from-here", None),
            ("refused", None),
            ("unknown-ports", None),
            ("record", None),
            ("not-from-pods", None),
            ("filter-prerouting-early", filter(Place::Prerouting, -110)),
            ("filter-output-early", filter(Place::Output, -110)),
            ("nat-prerouting", nat(Place::Prerouting, -100)),
            ("nat-output", nat(Place::Output, -100)),
            ("nat-input", nat(Place::Input, 100)),
            ("nat-postrouting", nat(Place::Postrouting, 100)),
            ("filter-input", filter(Place::Input, 0)),
            ("filter-forward", filter(Place::Forward, 0)),
            ("filter-output", filter(Place::Output, 0)),
        ];
        self.objects.extend(chains.into_iter().map(|(name, hook)| Object::Chain(name, hook)));
    }

    fn rule(&mut self, chain: &'static str, parts: &[&[Expression]]) {
        self.objects.push(Object::Rule(chain, Rule::new(parts.concat())));
    }

    /// Source ranges see addresses as the client sent them, so they are asked before the translation.
    fn firewall(&mut self) {
        let r = self.registers;
        let outside = r.absent("allowed");
        // ip daddr . meta l4proto . th dport . ip saddr != @allowed  ip daddr . meta l4proto . th dport vmap @guarded
        self.rule(
            "firewall",
            &[&r.frontend_and_source(), &[outside], &r.frontend(), &[r.dispatch("guarded")]],
        );
        for chain in ["filter-prerouting-early", "filter-output-early"] {
            self.rule(chain, &[&r.bit(CtKey::State, NEW), &[jump("firewall")]]);
        }
    }

    fn translation(&mut self, settings: &Settings) {
        let r = self.registers;
        for pods in r.own(&settings.pods) {
            self.rule("nat-prerouting", &[&r.source_in(pods, Comparison::Equal), &[jump("from-here")]]);
        }
        self.rule("nat-prerouting", &[&[jump("services")]]);
        self.rule("nat-output", &[&[jump("from-here")]]);
        self.rule("nat-output", &[&[jump("services")]]);
        for (chain, ports) in [("services", "nodeports"), ("from-here", "nodeports-from-here")] {
            self.rule(chain, &[&r.frontend(), &[r.dispatch(chain)]]);
            self.node_ports(chain, &[], &[goto(ports)], &settings.node_port_addresses);
            self.rule(ports, &[&r.port(), &[r.dispatch(ports)]]);
        }
    }

    /// What becomes of what is for this node's ports, if `before` is true of it.
    fn node_ports(
        &mut self,
        chain: &'static str,
        before: &[Expression],
        then: &[Expression],
        addresses: &[IpNet],
    ) {
        let r = self.registers;
        let to_here = r.destination_is(LOCAL);
        if addresses.is_empty() {
            let loopback = r.destination_in(r.loopback(), Comparison::NotEqual);
            self.rule(chain, &[before, &to_here, &loopback, then]);
        }
        for addresses in r.own(addresses) {
            let chosen = r.destination_in(addresses, Comparison::Equal);
            self.rule(chain, &[before, &to_here, &chosen, then]);
        }
    }

    /// What is still addressed to a Service after the translation has nowhere to go.
    fn filters(&mut self, settings: &Settings) {
        let r = self.registers;
        let new = r.bit(CtKey::State, NEW);
        self.rule("refused", &[&r.frontend(), &[r.dispatch("refused")]]);
        let to_cluster_ip = [r.destination(0), r.present("cluster-ips")];
        self.rule("unknown-ports", &[&to_cluster_ip, &[goto("reject")]]);
        // An address that no Service has yet may be somebody's in a moment: silence, as kube-proxy keeps.
        for services in r.own(&settings.services) {
            let unused = r.destination_in(services, Comparison::Equal);
            self.rule("unknown-ports", &[&unused, &[verdict(Verdict::Drop)]]);
        }
        for chain in ["filter-input", "filter-forward", "filter-output"] {
            self.rule(chain, &[&new, &[jump("refused")]]);
        }
        let refused = [&r.port()[..], &[r.dispatch("refused-nodeports")]].concat();
        self.node_ports("filter-input", &new, &refused, &settings.node_port_addresses);
        for chain in ["filter-forward", "filter-output"] {
            self.rule(chain, &[&new, &[jump("unknown-ports")]]);
        }
        // A reset is believed at once; on ICMPv6 clients of TCP would wait for a second.
        self.rule("reject", &[&r.is_tcp(), &[Expression::Reject(Rejection::TcpReset)]]);
        self.rule("reject", &[&[Expression::Reject(Rejection::PortUnreachable(r.family))]]);
    }

    /// Runs once per connection, with the first packet, after the translation.
    fn masquerading(&mut self, settings: &Settings) {
        const CHAIN: &str = "nat-postrouting";
        let r = self.registers;
        let is_translated = r.bit(CtKey::Status, DESTINATION_TRANSLATED);
        // A backend in the host's own network is where the way of what comes from elsewhere ends.
        self.rule("nat-input", &[&is_translated, &[jump("record")]]);
        self.rule(CHAIN, &[&r.no_bit(CtKey::Status, DESTINATION_TRANSLATED), &[verdict(Verdict::Return)]]);
        self.rule(CHAIN, &[&[jump("record")]]);
        let masquerade = [Expression::Masquerade];
        // A backend that reaches itself through its Service would see its own address and not answer.
        self.rule(CHAIN, &[&r.pair(), &[r.present("hairpin")], &masquerade]);
        self.rule(CHAIN, &[&r.original_frontend(), &[r.present("masquerade")], &masquerade]);
        let original = r.original_destination(0);
        let external = [r.present("external")];
        self.rule(CHAIN, &[&r.original_frontend(), &external, &r.source_is(LOCAL), &masquerade]);
        let inside = [original.clone(), r.present("cluster-ips")];
        match (settings.masquerade_all, r.own(&settings.pods).next().is_some()) {
            (true, _) => self.rule(CHAIN, &[&inside, &masquerade]),
            (false, true) => self.rule(CHAIN, &[&inside, &[goto("not-from-pods")]]),
            (false, false) => {}
        }
        for pods in r.own(&settings.pods) {
            self.rule("not-from-pods", &[&r.source_in(pods, Comparison::Equal), &[verdict(Verdict::Return)]]);
        }
        self.rule("not-from-pods", &[&masquerade]);
        // A Service may have the number of a node port for a port; its external address may be one of the node.
        let elsewhere = [&[original, r.absent("cluster-ips")], &r.original_frontend()[..]].concat();
        let ports = [r.present("masquerade-nodeports")];
        self.rule(CHAIN, &[&elsewhere, &[r.absent("external")], &r.original_port(), &ports, &masquerade]);
    }
}

fn verdict(verdict: Verdict) -> Expression {
    Expression::Verdict(verdict)
}

fn jump(chain: &str) -> Expression {
    verdict(Verdict::Jump(chain.to_owned()))
}

fn goto(chain: &str) -> Expression {
    verdict(Verdict::Goto(chain.to_owned()))
}
