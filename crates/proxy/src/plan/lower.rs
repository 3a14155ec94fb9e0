//! From what a node does for a Service to the elements that do it.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use tombolo_api::service::IpFamily;
use tombolo_model::routing::{Action, Backend, Claim, FrontendKind, Route};

use super::element::{Balance, Elements, FROM_HERE, Key, Value, Whose};
use super::slots;

/// Adds the elements of one frontend; its slots stay where they are in `before`, as far as possible.
pub(crate) fn lower(route: &Route, before: &Elements, elements: &mut Elements) {
    let claim = route.frontend.claim();
    if let Some(address) = claim.address {
        let is_cluster_ip = route.frontend.kind == FrontendKind::ClusterIp;
        let key = if is_cluster_ip { Key::ClusterIp(address) } else { Key::External(claim) };
        elements.insert(key, Value::Present);
    }
    let mut lowering = Lowering { claim, before, elements };
    match &route.action {
        Action::Balance(balance) => {
            // Who begins here goes there, too, if there is no word of them.
            let whose = Whose { outside: true, here: route.from_this_node.is_none() };
            let value = lowering.balance(&balance.backends, 0, whose);
            lowering.elements.insert(Key::Frontend(claim), value);
        }
        Action::Reject(_) => lowering.refuse(Value::Reject),
        Action::Drop(_) => lowering.refuse(Value::Drop),
    }
    if let Some(action) = &route.from_this_node {
        lowering.begin_here(action);
    }
    if route.masquerade {
        elements.insert(Key::Masquerade(claim), Value::Present);
    }
    guard(claim, route.allowed_sources.as_deref(), elements);
}

struct Lowering<'a> {
    claim: Claim,
    before: &'a Elements,
    elements: &'a mut Elements,
}

impl Lowering<'_> {
    fn refuse(&mut self, how: Value) {
        self.elements.insert(Key::Refused(self.claim), how);
    }

    fn begin_here(&mut self, action: &Action) {
        let value = match action {
            Action::Balance(balance) => {
                self.balance(&balance.backends, FROM_HERE, Whose { outside: false, here: true })
            }
            Action::Reject(_) | Action::Drop(_) => Value::Drop,
        };
        self.elements.insert(Key::FromHere(self.claim), value);
    }

    /// The slots from `offset` on. Backends of another family cannot be reached from here; there are none.
    fn balance(&mut self, backends: &[Backend], offset: u32, whose: Whose) -> Value {
        let is_v4 = self.claim.family == IpFamily::V4;
        let fitting: Vec<Backend> =
            backends.iter().filter(|backend| backend.address.is_ipv4() == is_v4).cloned().collect();
        let targets = slots::place(&self.slots_before(offset), &slots::shares(&fitting));
        for (slot, target) in (offset..).zip(&targets) {
            self.elements.insert(Key::Slot(self.claim, slot), Value::Target(*target));
        }
        for backend in &fitting {
            self.backend(backend, whose);
        }
        let sticky = fitting.iter().any(|backend| backend.sticky.is_some());
        match u32::try_from(targets.len()) {
            Ok(slots) if slots > 0 && slots < FROM_HERE => Value::Balance(Balance { slots, sticky }),
            _ => Value::Drop,
        }
    }

    fn slots_before(&self, offset: u32) -> Vec<SocketAddr> {
        let range = Key::Slot(self.claim, offset)..Key::Slot(self.claim, offset.saturating_add(FROM_HERE));
        let targets = self.before.range(range).map(|(_, value)| match value {
            Value::Target(target) => Some(*target),
            _ => None,
        });
        targets.map_while(|target| target).collect()
    }

    fn backend(&mut self, backend: &Backend, whose: Whose) {
        let target = SocketAddr::new(backend.address, backend.port);
        if backend.local {
            self.elements.insert(Key::Hairpin(self.claim.protocol, target), Value::Present);
        }
        if let Some(duration) = backend.sticky {
            // The kernel counts seconds well; less than one would be nothing.
            let whole = Duration::from_secs(duration.as_secs().max(1));
            let key = Key::Sticky(whole, self.claim, target);
            let known = match self.elements.get(&key) {
                Some(Value::Sticks(known)) => *known,
                _ => Whose::default(),
            };
            self.elements.insert(key, Value::Sticks(known.or(whose)));
        }
    }
}

/// Only ranges of the frontend's own family can let somebody in, each address in one range.
fn guard(claim: Claim, allowed: Option<&[IpNet]>, elements: &mut Elements) {
    let Some(allowed) = allowed else { return };
    let is_v4 = claim.family == IpFamily::V4;
    let own = allowed.iter().filter(|range| range.addr().is_ipv4() == is_v4).copied().collect();
    elements.insert(Key::Guarded(claim), Value::Drop);
    for range in IpNet::aggregate(&own) {
        elements.insert(Key::Allowed(claim, range.trunc()), Value::Present);
    }
}
