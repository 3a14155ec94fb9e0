//! The pool of cluster addresses and node ports, and how a Service takes from it.
//!
//! Taking is all or nothing: when one request cannot be met, everything taken for the same Service goes back and the
//! object is left alone. Addresses that the stored Service holds already are never asked for again. Automatic choices
//! start in the upper part of a range and leave the lower part to people who pick their own, as Kubernetes does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde_json::Value;

use super::{
    Network, cluster_ips, is_headless, needs_cluster_ip, needs_health_check, node_ports, parsed_ips,
    uses_node_ports, wants_node_ports,
};
use crate::invalid::{FieldError, Problem};
use crate::rules::field;

const IN_USE: &str = "provided IP is already allocated";
const PORT_IN_USE: &str = "provided port is already allocated";

/// What is taken: cluster addresses and ports of the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    network: Network,
    ips: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
}

impl Addresses {
    /// A pool from which nothing is taken.
    pub(crate) fn new(network: Network) -> Self {
        Self { network, ips: BTreeSet::new(), ports: BTreeSet::new() }
    }

    #[cfg(test)]
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Takes what a stored Service holds, without asking: a pool made from stored Services equals the live one.
    pub(crate) fn adopt(&mut self, service: &Value) {
        self.ips.extend(held_ips(service));
        self.ports.extend(held_ports(service));
    }

    fn take_ip(&mut self, ip: IpAddr) -> Result<(), String> {
        let Some(cidr) = self.network.service_cidrs.iter().find(|cidr| cidr.contains(&ip)) else {
            return Err("the provided network does not match the current range".to_owned());
        };
        if usable(*cidr).is_none_or(|range| range.offset_of(ip).is_none()) {
            return Err(format!(
                "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {cidr}"
            ));
        }
        if self.ips.insert(ip) { Ok(()) } else { Err(IN_USE.to_owned()) }
    }

    /// Any free address of a network; the first one belongs to the `kubernetes` Service.
    fn pick_ip(&mut self, cidr: IpNet, pick: &mut dyn FnMut(u64) -> u64) -> Option<IpAddr> {
        let range = usable(cidr)?;
        let reserved = (range.count / 16).clamp(16, 256);
        let split = if range.count > 16 { reserved } else { 1 };
        let ip = choose(1, split, range.count, self.ips.len(), pick, |offset| {
            let ip = range.at(offset);
            (!self.ips.contains(&ip)).then_some(ip)
        })?;
        self.ips.insert(ip);
        Some(ip)
    }

    fn take_port(&mut self, port: i64) -> Result<u16, String> {
        let range = &self.network.node_ports;
        let Some(number) = u16::try_from(port).ok().filter(|port| range.contains(port)) else {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            ));
        };
        if self.ports.insert(number) { Ok(number) } else { Err(PORT_IN_USE.to_owned()) }
    }

    fn pick_port(&mut self, pick: &mut dyn FnMut(u64) -> u64) -> Option<u16> {
        let start = *self.network.node_ports.start();
        let count = self.network.node_ports.len() as u64;
        let split = if count > 16 { (count / 32).clamp(16, 128) } else { 0 };
        let port = choose(0, split, count, self.ports.len(), pick, |offset| {
            let port = start.checked_add(u16::try_from(offset).ok()?)?;
            (!self.ports.contains(&port)).then_some(port)
        })?;
        self.ports.insert(port);
        Some(port)
    }
}

/// Takes what `new` needs beyond what `old` holds and returns what it no longer needs.
///
/// `pick(n)` chooses a number below `n`. On failure neither the pool nor `new` has changed. Reasons that are nobody's
/// mistake, such as a range that is full, have the problem [`Problem::Internal`].
pub(crate) fn allocate(
    pool: &mut Addresses,
    old: Option<&Value>,
    new: &mut Value,
    pick: &mut dyn FnMut(u64) -> u64,
) -> Result<(), Vec<FieldError>> {
    let mut order =
        Order { pool: &mut *pool, old, service: new.clone(), pick, ips: Vec::new(), ports: Vec::new() };
    match order.fill() {
        Ok(()) => {
            let Order { service, .. } = order;
            give_up(pool, old, &service);
            *new = service;
            Ok(())
        }
        Err(error) => {
            order.cancel();
            Err(vec![error])
        }
    }
}

/// Returns everything that a deleted Service held.
pub(crate) fn release(pool: &mut Addresses, service: &Value) {
    for ip in held_ips(service) {
        pool.ips.remove(&ip);
    }
    for port in held_ports(service) {
        pool.ports.remove(&port);
    }
}

/// One write's dealings with the pool.
struct Order<'a> {
    pool: &'a mut Addresses,
    old: Option<&'a Value>,
    service: Value,
    pick: &'a mut dyn FnMut(u64) -> u64,
    ips: Vec<IpAddr>,
    ports: Vec<u16>,
}

impl Order<'_> {
    fn fill(&mut self) -> Result<(), FieldError> {
        if needs_cluster_ip(&self.service) && !is_headless(&self.service) && !self.does_without() {
            self.cluster_ips()?;
        }
        if uses_node_ports(&self.service) {
            self.asked_node_ports()?;
            if wants_node_ports(&self.service) {
                self.chosen_node_ports()?;
            }
        }
        if needs_health_check(&self.service) {
            self.health_check_port()?;
        }
        Ok(())
    }

    /// A Service that came into being without an address, through its status, stays without one.
    fn does_without(&self) -> bool {
        self.old.is_some_and(|old| needs_cluster_ip(old) && cluster_ips(old).is_empty())
    }

    fn cancel(self) {
        for ip in self.ips {
            self.pool.ips.remove(&ip);
        }
        for port in self.ports {
            self.pool.ports.remove(&port);
        }
    }

    fn cluster_ips(&mut self) -> Result<(), FieldError> {
        let held: BTreeSet<IpAddr> = self.old.into_iter().flat_map(held_ips).collect();
        let asked: Vec<String> = cluster_ips(&self.service).into_iter().map(str::to_owned).collect();
        let families: Vec<String> =
            field::texts(&self.service, "spec.ipFamilies").into_iter().map(str::to_owned).collect();
        let mut ips = Vec::new();
        for (index, family) in families.iter().enumerate() {
            match asked.get(index).map(String::as_str).unwrap_or_default() {
                "" => ips.push(self.any_ip(family)?.to_string()),
                text => {
                    self.this_ip(text, &asked, &held)?;
                    ips.push(text.to_owned());
                }
            }
        }
        if let Some(first) = ips.first() {
            field::set(&mut self.service, "spec.clusterIP", first.clone());
            field::set(&mut self.service, "spec.clusterIPs", ips);
        }
        Ok(())
    }

    fn this_ip(&mut self, text: &str, asked: &[String], held: &BTreeSet<IpAddr>) -> Result<(), FieldError> {
        let refused = |why: String| {
            let detail = format!("failed to allocate IP {text}: {why}");
            FieldError::invalid("spec.clusterIPs", asked.to_vec(), detail)
        };
        let ip: IpAddr = text.parse().map_err(|_| refused("not an IP address".to_owned()))?;
        if !held.contains(&ip) {
            self.pool.take_ip(ip).map_err(refused)?;
            self.ips.push(ip);
        }
        Ok(())
    }

    fn any_ip(&mut self, family: &str) -> Result<IpAddr, FieldError> {
        let cidr = self.pool.network.cidr(family);
        let ip = cidr.and_then(|cidr| self.pool.pick_ip(cidr, self.pick)).ok_or_else(|| {
            let name = field::text(&self.service, "metadata.name");
            let detail = format!("failed to allocate a serviceIP for Service {name:?}: range is full");
            FieldError::new("spec.clusterIPs", Problem::Internal, detail)
        })?;
        self.ips.push(ip);
        Ok(ip)
    }

    /// Node ports that the client names come first, so that an automatic choice never steals one of them.
    fn asked_node_ports(&mut self) -> Result<(), FieldError> {
        let held: BTreeSet<i64> = self.old.into_iter().flat_map(node_ports).collect();
        let mut taken: BTreeMap<i64, i64> = BTreeMap::new();
        let asked: Vec<(i64, i64)> = field::list(&self.service, "spec.ports")
            .iter()
            .map(|port| (field::number(port, "nodePort"), field::number(port, "port")))
            .collect();
        for (index, (node_port, port)) in asked.into_iter().enumerate() {
            // On update any ports may share a number, on creation only those that share the port, too.
            let shares = taken.get(&node_port).is_some_and(|first| *first == port || self.old.is_some());
            if node_port == 0 || held.contains(&node_port) || shares {
                continue;
            }
            let number = self.pool.take_port(node_port).map_err(|why| {
                FieldError::invalid(format!("spec.ports[{index}].nodePort"), node_port, why)
            })?;
            self.ports.push(number);
            taken.insert(node_port, port);
        }
        Ok(())
    }

    /// On creation one port number offered over several protocols gets one node port.
    fn chosen_node_ports(&mut self) -> Result<(), FieldError> {
        let count = field::list(&self.service, "spec.ports").len();
        for index in 0..count {
            let ports = field::list(&self.service, "spec.ports");
            if field::number(&ports[index], "nodePort") != 0 || !ports[index].is_object() {
                continue;
            }
            let node_port = match self.shared_node_port(index) {
                Some(shared) => shared,
                None => i64::from(self.any_port("spec.ports", "failed to allocate a nodePort")?),
            };
            field::set(&mut field::list_mut(&mut self.service, "spec.ports")[index], "nodePort", node_port);
        }
        Ok(())
    }

    fn shared_node_port(&self, index: usize) -> Option<i64> {
        if self.old.is_some() {
            return None;
        }
        let ports = field::list(&self.service, "spec.ports");
        let is_twin = |other: &&Value| {
            field::number(other, "port") == field::number(&ports[index], "port")
                && field::text(other, "protocol") != field::text(&ports[index], "protocol")
        };
        ports.iter().filter(is_twin).map(|port| field::number(port, "nodePort")).find(|port| *port != 0)
    }

    fn health_check_port(&mut self) -> Result<(), FieldError> {
        let path = "spec.healthCheckNodePort";
        let asked = field::number(&self.service, path);
        let held = self.old.filter(|old| needs_health_check(old)).map(|old| field::number(old, path));
        if asked != 0 && held == Some(asked) {
            return Ok(());
        }
        if asked == 0 {
            let port = self.any_port(path, "failed to allocate a HealthCheck NodePort 0")?;
            field::set(&mut self.service, path, port);
            return Ok(());
        }
        let port = self.pool.take_port(asked).map_err(|why| {
            let detail = format!("failed to allocate requested HealthCheck NodePort {asked}: {why}");
            FieldError::new(path, Problem::Internal, detail)
        })?;
        self.ports.push(port);
        Ok(())
    }

    fn any_port(&mut self, path: &str, what: &str) -> Result<u16, FieldError> {
        let port = self
            .pool
            .pick_port(self.pick)
            .ok_or_else(|| FieldError::new(path, Problem::Internal, format!("{what}: range is full")))?;
        self.ports.push(port);
        Ok(port)
    }
}

fn give_up(pool: &mut Addresses, old: Option<&Value>, new: &Value) {
    let Some(old) = old else { return };
    let (ips, ports): (BTreeSet<_>, BTreeSet<_>) = (held_ips(new).collect(), held_ports(new).collect());
    for ip in held_ips(old).filter(|ip| !ips.contains(ip)) {
        pool.ips.remove(&ip);
    }
    for port in held_ports(old).filter(|port| !ports.contains(port)) {
        pool.ports.remove(&port);
    }
}

fn held_ips(service: &Value) -> impl Iterator<Item = IpAddr> {
    parsed_ips(service).filter(|_| needs_cluster_ip(service))
}

fn held_ports(service: &Value) -> impl Iterator<Item = u16> {
    let health = needs_health_check(service).then(|| field::number(service, "spec.healthCheckNodePort"));
    node_ports(service).chain(health).filter_map(|port| u16::try_from(port).ok()).filter(|port| *port != 0)
}

/// The addresses of a network that a Service can have: `count` of them, beginning with `first`.
struct Usable {
    first: u128,
    count: u64,
    is_v4: bool,
}

/// Without the network's own address and, for IPv4, without the broadcast address.
fn usable(cidr: IpNet) -> Option<Usable> {
    let host_bits = u32::from(cidr.max_prefix_len() - cidr.prefix_len());
    let size = 1u128 << host_bits.min(64);
    let is_v4 = cidr.addr().is_ipv4();
    let count = size.checked_sub(if is_v4 { 2 } else { 1 }).filter(|count| *count > 0)?;
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    Some(Usable { first: bits(cidr.network()).wrapping_add(1), count, is_v4 })
}

impl Usable {
    fn at(&self, offset: u64) -> IpAddr {
        let bits = self.first.wrapping_add(u128::from(offset));
        match (self.is_v4, u32::try_from(bits)) {
            (true, Ok(bits)) => IpAddr::V4(Ipv4Addr::from_bits(bits)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }

    fn offset_of(&self, ip: IpAddr) -> Option<u64> {
        let offset = u64::try_from(bits(ip).checked_sub(self.first)?).ok()?;
        (offset < self.count && ip.is_ipv4() == self.is_v4).then_some(offset)
    }
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The first free place after a chosen one: among `split..count`, and when that is full among `start..split`.
///
/// At most `taken` places are taken, so one more look than that finds a free one wherever there is one.
fn choose<T>(
    start: u64,
    split: u64,
    count: u64,
    taken: usize,
    pick: &mut dyn FnMut(u64) -> u64,
    free: impl Fn(u64) -> Option<T>,
) -> Option<T> {
    let split = split.clamp(start, count.max(start));
    for (from, to) in [(split, count), (start, split)] {
        let Some(width) = to.checked_sub(from).filter(|width| *width > 0) else { continue };
        let begin = pick(width) % width;
        let looks = width.min(taken as u64 + 1);
        let found = (0..looks).find_map(|step| free(from + around(begin, step, width)));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// `begin + step` on a ring of `width` places.
fn around(begin: u64, step: u64, width: u64) -> u64 {
    let place = (u128::from(begin) + u128::from(step)) % u128::from(width);
    u64::try_from(place).unwrap_or_default()
}
