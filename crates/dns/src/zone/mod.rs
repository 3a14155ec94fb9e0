//! What is answered from: services by name, in a table that readers never wait for.
//!
//! There is one entry per service, not one per record: names above and below it follow from its shape, so that empty
//! non-terminals need no bookkeeping, a name that does not exist costs one lookup, and a change is one exchange of a pointer
//! after which all records of the service are the new ones. Nothing here waits, reads a clock or talks to anyone.

mod name;
mod read;
mod reverse;
mod service;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use papaya::{HashMap, HashSet};

pub use self::name::{BadName, Name};
pub(crate) use self::name::{LONGEST_NAME, Labels, push_label};
pub use self::read::{Read, Reader, room};
use self::reverse::Owner;
pub(crate) use self::reverse::{Asked, Reverse, asked};
pub use self::service::{Addresses, Endpoints, Host, Port, Ports, Service};
pub(crate) use self::service::{has_port, numbers};

/// Where services come from. Names of one realm never appear in the zones of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Realm {
    /// Imports of KEP-1645's first edition.
    Kep,
    /// Imports of today's Multi-Cluster Services API.
    Mcs,
    /// The cluster's own Services.
    Cluster,
}

impl Realm {
    pub const ALL: [Realm; 3] = [Realm::Kep, Realm::Mcs, Realm::Cluster];

    pub const fn as_str(self) -> &'static str {
        match self {
            Realm::Kep => "kep",
            Realm::Mcs => "mcs",
            Realm::Cluster => "cluster",
        }
    }
}

type Key = Arc<[u8]>;

/// The services of one realm.
#[derive(Debug, Default)]
struct View {
    services: HashMap<Key, Service>,
    complete: AtomicBool,
    records: AtomicUsize,
}

/// All services, namespaces and addresses. Shared by everybody who answers; written by one.
#[derive(Debug, Default)]
pub struct Zones {
    views: [View; 3],
    namespaces: HashSet<Box<[u8]>>,
    reverse: Reverse,
    serial: AtomicU32,
}

impl Zones {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn view(&self, realm: Realm) -> &View {
        &self.views[realm as usize]
    }

    /// Puts what is known of a service in the place of what was known before.
    pub fn put(&self, realm: Realm, key: &[u8], service: Option<Service>) {
        let view = self.view(realm);
        let guard = view.services.guard();
        let old = view.services.get_key_value(key, &guard);
        if old.map(|(_, old)| old) == service.as_ref() {
            return;
        }
        let owner = Owner { realm, key: old.map_or_else(|| Key::from(key), |(known, _)| known.clone()) };
        let (before, after) = (addresses(old.map(|(_, old)| old)), addresses(service.as_ref()));
        let removed = old.map_or(0, |(_, old)| old.records());
        let added = service.as_ref().map_or(0, Service::records);
        after
            .iter()
            .filter(|ip| before.binary_search(ip).is_err())
            .for_each(|ip| self.reverse.add(*ip, &owner));
        match service {
            Some(service) => drop(view.services.insert(owner.key.clone(), service, &guard)),
            None => drop(view.services.remove(key, &guard)),
        }
        before
            .iter()
            .filter(|ip| after.binary_search(ip).is_err())
            .for_each(|ip| self.reverse.remove(*ip, &owner));
        view.records.fetch_add(added.wrapping_sub(removed), Ordering::Relaxed);
    }

    /// Runs `f` with what is known of a service.
    pub(crate) fn with<T>(&self, realm: Realm, key: &[u8], f: impl FnOnce(Option<&Service>) -> T) -> T {
        f(self.view(realm).services.pin().get(key))
    }

    /// Every service of a realm. What changes meanwhile may or may not be seen.
    pub(crate) fn each(&self, realm: Realm, mut f: impl FnMut(&[u8], &Service)) {
        self.view(realm).services.pin().iter().for_each(|(key, service)| f(key, service));
    }

    pub fn put_namespace(&self, name: &str, exists: bool) {
        let Some(label) = label(name) else { return };
        if exists {
            self.namespaces.pin().insert(label);
        } else {
            self.namespaces.pin().remove(&label);
        }
    }

    /// Whether there is a namespace of this name, a label in wire form.
    pub(crate) fn has_namespace(&self, label: &[u8]) -> bool {
        self.namespaces.pin().contains(label)
    }

    /// From now on what is not there does not exist.
    pub fn complete(&self, realm: Realm) {
        self.view(realm).complete.store(true, Ordering::Release);
    }

    pub fn is_complete(&self, realm: Realm) -> bool {
        self.view(realm).complete.load(Ordering::Acquire)
    }

    /// A new serial for what has changed: the time, or the next number if that much has changed within a second.
    pub fn advance(&self, seconds: u32) {
        let last = self.serial.load(Ordering::Relaxed);
        self.serial.store(seconds.max(last.wrapping_add(1)), Ordering::Release);
    }

    pub fn serial(&self) -> u32 {
        self.serial.load(Ordering::Acquire)
    }

    pub(crate) fn reverse(&self) -> &Reverse {
        &self.reverse
    }

    /// How many services a realm has.
    pub fn services(&self, realm: Realm) -> usize {
        self.view(realm).services.len()
    }

    /// How many records they have in each zone of the realm.
    pub fn records(&self, realm: Realm) -> usize {
        self.view(realm).records.load(Ordering::Relaxed)
    }
}

/// All addresses of a service, in order.
fn addresses(service: Option<&Service>) -> Vec<IpAddr> {
    let mut all = service.map(Service::addresses).unwrap_or_default();
    all.sort_unstable();
    all
}

/// `<service>.<namespace>` in wire form; `None` if there can be no such name.
pub fn key(namespace: &str, service: &str) -> Option<Vec<u8>> {
    let mut wire = Vec::with_capacity(namespace.len() + service.len() + 2);
    (push_label(&mut wire, service) && push_label(&mut wire, namespace)).then_some(wire)
}

fn label(name: &str) -> Option<Box<[u8]>> {
    let mut wire = Vec::with_capacity(name.len() + 1);
    push_label(&mut wire, name).then(|| wire.into())
}

#[cfg(test)]
mod tests;
