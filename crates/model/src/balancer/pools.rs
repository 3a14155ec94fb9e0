//! AddressPools as one set of ranges: checked, without overlaps, in the order they are used.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tombolo_api::condition::Desired;
use tombolo_api::service::IpFamily;
use tombolo_api::tombolo::{
    AddressPool, AddressPoolSpec, AddressRange, BadAddress, PoolCondition, PoolReason,
};

type Labels = BTreeMap<String, String>;

/// A pool that addresses are handed out from.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub name: String,
    pub spec: AddressPoolSpec,
    pub ranges: Vec<AddressRange>,
}

impl Pool {
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    pub(super) fn has(&self, family: IpFamily) -> bool {
        self.ranges.iter().any(|range| range.family() == family)
    }
}

/// What became of an AddressPool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolVerdict {
    Accepted,
    /// Some entry is no range.
    Bad(BadAddress),
    /// An older pool has some of the same addresses: which pool, which range of it, which of this one.
    Overlapping(String, AddressRange, AddressRange),
}

impl PoolVerdict {
    /// What the pool's condition says.
    pub fn condition(&self, generation: Option<i64>) -> Desired {
        let (reason, message) = match self {
            PoolVerdict::Accepted => {
                (PoolReason::Accepted, "addresses are handed out from this pool".to_owned())
            }
            PoolVerdict::Bad(why) => (PoolReason::InvalidAddresses, why.to_string()),
            PoolVerdict::Overlapping(other, theirs, ours) => {
                (PoolReason::Overlapping, format!("{ours} overlaps with {theirs} of the pool {other}"))
            }
        };
        let accepted = *self == PoolVerdict::Accepted;
        Desired::new(PoolCondition::Accepted, accepted, reason, message).observed(generation)
    }
}

/// All pools that were accepted, those of the highest priority first, then by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pools(Vec<Pool>);

impl Pools {
    /// Reads all pools there are, in any order. Of two that overlap the older one is accepted, or the one with the lesser
    /// name if they are of the same age; a pool that is not accepted is as good as absent.
    pub fn read<'a>(
        objects: impl IntoIterator<Item = &'a AddressPool>,
    ) -> (Pools, Vec<(String, PoolVerdict)>) {
        let mut objects: Vec<&AddressPool> =
            objects.into_iter().filter(|pool| pool.metadata.deletion_timestamp.is_none()).collect();
        objects.sort_by_key(|pool| {
            (pool.metadata.creation_timestamp.as_ref().map(|time| time.0), pool.metadata.name.clone())
        });
        let (mut accepted, mut verdicts): (Vec<Pool>, Vec<_>) = (Vec::new(), Vec::new());
        for object in objects {
            let name = object.metadata.name.clone().unwrap_or_default();
            let verdict = match object.spec.ranges() {
                Err(bad) => PoolVerdict::Bad(bad),
                Ok(ranges) => match overlap(&accepted, &ranges) {
                    Some((other, theirs, ours)) => PoolVerdict::Overlapping(other, theirs, ours),
                    None => {
                        accepted.push(Pool { name: name.clone(), spec: object.spec.clone(), ranges });
                        PoolVerdict::Accepted
                    }
                },
            };
            verdicts.push((name, verdict));
        }
        accepted.sort_by(|a, b| b.spec.priority.cmp(&a.spec.priority).then_with(|| a.name.cmp(&b.name)));
        (Pools(accepted), verdicts)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pool that has an address.
    pub fn of(&self, address: IpAddr) -> Option<&Pool> {
        self.0.iter().find(|pool| pool.contains(address))
    }

    /// The same, if it is for a Service with these labels in a namespace with those.
    pub fn admitting(&self, address: IpAddr, namespace: &Labels, service: &Labels) -> Option<&Pool> {
        self.of(address).filter(|pool| pool.spec.admits(namespace, service))
    }
}

fn overlap(accepted: &[Pool], ranges: &[AddressRange]) -> Option<(String, AddressRange, AddressRange)> {
    accepted.iter().find_map(|pool| {
        let pairs = pool.ranges.iter().flat_map(|theirs| ranges.iter().map(move |ours| (theirs, ours)));
        let found = pairs.into_iter().find(|(theirs, ours)| theirs.overlaps(ours));
        found.map(|(theirs, ours)| (pool.name.clone(), *theirs, *ours))
    })
}
