//! The voice of a node: answers for addresses on its links, and announces them unasked.
//!
//! Who has just got an address says so several times, because frames get lost and neighbours remember the former owner;
//! after that now and then, because switches forget. The voice knows nothing of Services.

mod frame;
mod groups;
mod links;
mod packet;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::frame::{Heard, Mac, announcements, answer, read};
use self::groups::Groups;
use self::links::{Link, Links};
use self::packet::{PacketSocket, Traffic};
use crate::metrics::Metrics;

/// When a new address is announced, after it was got.
const BURST: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// How often to look for new links.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A node without a voice after so many looks has none: one that broke off is back after the next.
const SILENT_LOOKS: u32 = 2;

/// Whether this process may open packet sockets in the network namespace of the calling thread.
pub fn try_sockets() -> io::Result<()> {
    packet::try_open()
}

/// What the voice is told and tells.
#[derive(Clone)]
pub(crate) struct Speaker {
    pub(crate) links: Vec<String>,
    pub(crate) announce_every: Duration,
    /// What this node answers for.
    pub(crate) mine: watch::Receiver<BTreeSet<IpAddr>>,
    /// Where addresses go that somebody else was heard announcing.
    pub(crate) rivals: mpsc::Sender<IpAddr>,
    /// Whether there is no link to answer on.
    pub(crate) mute: watch::Sender<bool>,
    pub(crate) metrics: Metrics,
}

impl Speaker {
    /// Speaks for ever, on all links there are and will be, in the network namespace of the calling thread.
    pub(crate) async fn run(self) {
        let mut tasks = JoinSet::new();
        let links = match Links::open(self.links.clone()) {
            Ok((links, connection)) => {
                tasks.spawn(connection);
                links
            }
            Err(error) => {
                tracing::error!(%error, "the links of this node cannot be read: it answers for nothing");
                self.mute.send_replace(true);
                return std::future::pending().await;
            }
        };
        let mut voices: BTreeMap<u32, (Link, AbortHandle)> = BTreeMap::new();
        let macs = watch::Sender::new(Arc::new(BTreeSet::new()));
        let working = Arc::new(());
        let mut looks = interval(LOOK_EVERY);
        let mut silent_looks = 0_u32;
        looks.tick().await;
        loop {
            match links.find().await {
                Ok(found) => self.follow(&found, &mut voices, &macs, &working, &mut tasks),
                Err(error) => tracing::warn!(%error, "the links of this node could not be read"),
            }
            while tasks.try_join_next().is_some() {}
            voices.retain(|_, (_, voice)| !voice.is_finished());
            looks.tick().await;
            // Counted a while after the look: a voice is one once it has its sockets.
            let count = Arc::strong_count(&working) - 1;
            self.metrics.note_links(count);
            silent_looks = if count == 0 { silent_looks + 1 } else { 0 };
            self.tell(silent_looks >= SILENT_LOOKS);
        }
    }

    /// Tells the others when there is no voice, or one again.
    fn tell(&self, mute: bool) {
        if self.mute.send_replace(mute) == mute {
            return;
        }
        if mute {
            tracing::warn!(chosen = ?self.links, "this node has no link to answer on: it leaves all addresses to others");
        } else {
            tracing::info!("this node has a link to answer on again");
        }
    }

    /// Speaks on new links, and no more on those that are gone or have another address.
    fn follow(
        &self,
        found: &BTreeMap<u32, Link>,
        voices: &mut BTreeMap<u32, (Link, AbortHandle)>,
        macs: &watch::Sender<Arc<BTreeSet<Mac>>>,
        working: &Arc<()>,
        tasks: &mut JoinSet<()>,
    ) {
        macs.send_replace(Arc::new(found.values().map(|link| link.mac).collect()));
        voices.retain(|index, (link, voice)| {
            let stays = found.get(index) == Some(link);
            if !stays {
                voice.abort();
            }
            stays
        });
        for (index, link) in found {
            if !voices.contains_key(index) {
                tracing::info!(link = link.name, "answering for addresses on this link");
                let voice = Voice {
                    speaker: self.clone(),
                    index: *index,
                    link: link.clone(),
                    macs: macs.subscribe(),
                    working: Arc::downgrade(working),
                };
                voices.insert(*index, (link.clone(), tasks.spawn(voice.run())));
            }
        }
    }
}

/// The voice on one link.
struct Voice {
    speaker: Speaker,
    index: u32,
    link: Link,
    /// Those of all links of this node: what it hears from itself is no rival's.
    macs: watch::Receiver<Arc<BTreeSet<Mac>>>,
    /// Held by every voice that has its sockets, so that they can be counted.
    working: Weak<()>,
}

impl Voice {
    async fn run(self) {
        let name = self.link.name.clone();
        if let Err(error) = self.speak().await {
            tracing::warn!(%error, link = name, "no answers on this link for a moment");
        }
    }

    async fn speak(mut self) -> io::Result<()> {
        let arp = PacketSocket::open(self.index, Traffic::Arp)?;
        let discovery = PacketSocket::open(self.index, Traffic::NeighbourDiscovery)?;
        let mut groups = Groups::new(self.index);
        let _working = self.working.upgrade();
        let mut schedule = Schedule::default();
        let mut periodic = interval(self.speaker.announce_every);
        periodic.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut first, mut second) = ([0; 128], [0; 256]);
        let mut mine = BTreeSet::new();
        self.speaker.mine.mark_changed();
        loop {
            tokio::select! {
                changed = self.speaker.mine.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let next = self.speaker.mine.borrow_and_update().clone();
                    schedule.follow(&mine, &next);
                    groups.follow(&next);
                    mine = next;
                }
                length = arp.receive(&mut first) => self.hear(&first[..length?], &mine, &arp),
                length = discovery.receive(&mut second) => self.hear(&second[..length?], &mine, &discovery),
                _ = periodic.tick() => mine.iter().for_each(|address| self.announce(*address, &arp, &discovery)),
                due = schedule.next() => due.into_iter().for_each(|address| self.announce(address, &arp, &discovery)),
            }
        }
    }

    fn hear(&self, frame: &[u8], mine: &BTreeSet<IpAddr>, socket: &PacketSocket) {
        match read(frame) {
            Some(Heard::Question(question)) if mine.contains(&question.wanted) => {
                if let Some(frame) = answer(&question, self.link.mac) {
                    self.say(socket, &frame);
                    self.speaker.metrics.count_answer(&self.link.name);
                }
            }
            Some(Heard::Claim { address, mac })
                if mine.contains(&address) && !self.macs.borrow().contains(&mac) =>
            {
                // A rival that repeats itself is one rival.
                let _ = self.speaker.rivals.try_send(address);
            }
            _ => {}
        }
    }

    fn announce(&self, address: IpAddr, arp: &PacketSocket, discovery: &PacketSocket) {
        let socket = if address.is_ipv4() { arp } else { discovery };
        for frame in announcements(address, self.link.mac) {
            self.say(socket, &frame);
        }
        self.speaker.metrics.count_announcement(&self.link.name);
    }

    fn say(&self, socket: &PacketSocket, frame: &[u8]) {
        if let Err(error) = socket.send(frame) {
            tracing::debug!(%error, link = self.link.name, "a frame was not sent");
        }
    }
}

/// Which new addresses are to be announced again, and when.
#[derive(Debug, Default)]
struct Schedule(BTreeMap<IpAddr, (Instant, usize)>);

impl Schedule {
    /// Begins with those that are new and forgets those that are gone.
    fn follow(&mut self, before: &BTreeSet<IpAddr>, after: &BTreeSet<IpAddr>) {
        self.0.retain(|address, _| after.contains(address));
        let now = Instant::now();
        self.0.extend(after.difference(before).map(|address| (*address, (now, 0))));
    }

    /// Waits for the next that are due.
    async fn next(&mut self) -> Vec<IpAddr> {
        let due = |(start, round): &(Instant, usize)| *start + BURST[*round];
        let Some(first) = self.0.values().map(due).min() else { return std::future::pending().await };
        sleep_until(first).await;
        let now = Instant::now();
        let mut announced = Vec::new();
        self.0.retain(|address, state| {
            if due(state) <= now {
                announced.push(*address);
                state.1 += 1;
            }
            state.1 < BURST.len()
        });
        announced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_new_address_is_announced_at_once_and_some_more_times() {
        let mut schedule = Schedule::default();
        let (one, two): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let start = Instant::now();
        schedule.follow(&BTreeSet::new(), &[one].into());
        let mut times = Vec::new();
        for _ in 0..3 {
            assert_eq!(schedule.next().await, [one]);
            times.push(start.elapsed().as_millis());
        }
        assert_eq!(times, [0, 100, 400]);
        // One that is gone is not announced any more; one that stays begins no new burst.
        schedule.follow(&[one].into(), &[two].into());
        for _ in BURST {
            assert_eq!(schedule.next().await, [two]);
        }
        let more = tokio::time::timeout(Duration::from_secs(60), schedule.next()).await;
        assert!(more.is_err());
    }
}
