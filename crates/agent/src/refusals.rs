//! Saying in an event which objects of other members at the hub are not believed, and why.
//!
//! The event is about the lease of the source in this cluster: its own objects at the hub are not ours to write beside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Error;
use tokio::time::Instant;
use tombolo_model::ClusterId;
use tombolo_model::happening::Happening;
use tombolo_model::origin::{self, Refused};
use tombolo_runtime::{Change, Controller, Key, Next, Queue};

use crate::shared::Shared;

/// What came from a member and may have to be refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suspect {
    Offer(Key),
    Slice(Key),
    /// All offers of a namespace: there may be too many.
    Number(String),
}

/// The controller that looks at suspects.
pub(crate) struct Refusals {
    shared: Arc<Shared>,
    queue: Arc<Queue<Suspect>>,
    /// The members that are known to offer too much.
    flooding: Mutex<BTreeSet<ClusterId>>,
    /// When what was last said of whom.
    said: Mutex<BTreeMap<(ClusterId, &'static str), Instant>>,
}

/// Of each member nothing is said twice within this time: it must not be able to make others write without end.
const SILENCE: Duration = Duration::from_secs(60);

impl Refusals {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let queue: Arc<Queue<Suspect>> = Arc::default();
        let (add, roster) = (queue.clone(), shared.roster.clone());
        shared.offers.listen_to_changes(move |change| {
            let (Change::Put { new: offer, .. } | Change::Gone(offer)) = change;
            if !roster.check_offer(offer) {
                let key = Key::of(*offer);
                add.add(Suspect::Number(key.namespace.clone()));
                add.add(Suspect::Offer(key));
            }
        });
        let (add, members) = (queue.clone(), shared.roster.clone());
        shared.hub_slices.listen_to_changes(move |change| {
            let Change::Put { new: slice, .. } = change else { return };
            let owner = members.owner(slice.metadata.namespace.as_deref().unwrap_or_default());
            if owner.is_some_and(|owner| origin::check_slice(&owner, slice, |_| true).is_err()) {
                add.add(Suspect::Slice(Key::of(*slice)));
            }
        });
        Self { shared: shared.clone(), queue, flooding: Mutex::default(), said: Mutex::default() }
    }

    /// Why a suspect is refused, if it is, and whose it is.
    fn judge(&self, suspect: &Suspect) -> Option<(ClusterId, Refused)> {
        let shared = &self.shared;
        match suspect {
            Suspect::Offer(key) => {
                let owner = shared.roster.owner(&key.namespace)?;
                let refused = origin::check_offer(&owner, &*shared.offers.get(key)?).err()?;
                Some((owner, refused))
            }
            Suspect::Slice(key) => {
                let owner = shared.roster.owner(&key.namespace)?;
                let slice = shared.hub_slices.get(key)?;
                let has_offer =
                    |name: &str| shared.offers.get(&Key::new(key.namespace.clone(), name)).is_some();
                let refused = origin::check_slice(&owner, &slice, has_offer).err()?;
                Some((owner, refused))
            }
            Suspect::Number(namespace) => self.judge_number(namespace),
        }
    }

    /// Whether that was not said of this member a moment ago.
    fn is_news(&self, owner: &ClusterId, refused: &Refused) -> bool {
        let now = Instant::now();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|_, then| now.duration_since(*then) < SILENCE);
        said.insert((owner.clone(), refused.reason.as_str()), now).is_none()
    }

    /// A flood is told when it begins, not with every object of it.
    fn judge_number(&self, namespace: &str) -> Option<(ClusterId, Refused)> {
        let owner = self.shared.roster.owner(namespace)?;
        let mut flooding = self.flooding.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, refused)) = self.shared.roster.excess(&owner) else {
            flooding.remove(&owner);
            return None;
        };
        flooding.insert(owner.clone()).then_some((owner, refused))
    }
}

impl Controller for Refusals {
    type Item = Suspect;

    const NAME: &'static str = "refusals";

    fn queue(&self) -> &Queue<Suspect> {
        &self.queue
    }

    async fn reconcile(&self, suspect: &Suspect) -> Result<Next, Error> {
        let Some((owner, refused)) = self.judge(suspect) else { return Ok(Next::Rest) };
        if !self.is_news(&owner, &refused) {
            return Ok(Next::Rest);
        }
        tracing::warn!(source = %owner, "{refused}");
        if let Some(lease) = self.shared.source_lease(&owner) {
            let happening = Happening::warning(refused.reason.as_str(), refused.to_string());
            self.shared.events.tell(&*lease, &happening).await;
        }
        Ok(Next::Rest)
    }
}
