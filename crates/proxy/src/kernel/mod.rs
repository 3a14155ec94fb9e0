//! The kernel's tables, made to be what the plan says. No choice is left here: it writes what differs.
//!
//! Every change of what Services want is one transaction, so a packet sees all of it or nothing. What the kernel holds is
//! read only at the start, and when somebody else changed something.

mod loaded;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use tombolo_api::service::IpFamily;
use tombolo_model::routing::{Claim, Protocol};
use tombolo_nft::{Batch, CommitError, Element, Family, Flow, Forgotten, Socket, Table};

use self::loaded::{Groups, Loaded, add, group, wanted, write};
use crate::plan::{Changes, Client, Key, Plan, Value};
use crate::ruleset::encode;
use crate::ruleset::{Extra, STAND_IN, Settings, Skeleton, TABLE};

/// Sets with so many elements at first get a table of fixed size, with room for as many again: growing a table costs more
/// than filling it. When that is full everything is made anew, once.
const MANY: usize = 1024;

const FAMILIES: [Family; 2] = [Family::Ip, Family::Ip6];

/// Packets refused, by family, set and key of the element that counted them.
pub type Refused = HashMap<(Family, &'static str, Vec<u8>), u64>;

/// The tables of one network namespace.
pub struct Kernel {
    socket: Socket,
    skeletons: [Skeleton; 2],
    extras: BTreeSet<(Family, Extra)>,
    generation: Option<u32>,
}

/// How a transaction went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Elements that came, went or changed.
    pub elements: usize,
    pub bytes: usize,
    /// Whether the tables were made anew.
    pub anew: bool,
    /// Whether chains that nobody needs could not be removed.
    pub untidy: bool,
}

impl Kernel {
    /// Of the network namespace behind a file, or of the calling thread's own.
    pub fn open(namespace: Option<&Path>, settings: &Settings) -> io::Result<Self> {
        let socket = namespace.map_or_else(Socket::open, Socket::open_in)?;
        let skeletons = FAMILIES.map(|family| Skeleton::new(family, settings));
        Ok(Self { socket, skeletons, extras: BTreeSet::new(), generation: None })
    }

    /// Makes other rules the wanted ones; the next [`Self::adopt`] brings them.
    pub fn configure(&mut self, settings: &Settings) {
        self.skeletons = FAMILIES.map(|family| Skeleton::new(family, settings));
        self.generation = None;
    }

    /// Takes over what is loaded and writes what differs from the plan. Tables of other rules than ours are replaced.
    pub fn adopt(&mut self, plan: &Plan) -> Result<Written, CommitError> {
        self.remove_stand_in()?;
        let loaded = self.load()?;
        let written = match loaded {
            Some(loaded) => match self.amend(plan, loaded) {
                // What was read may have changed meanwhile, or be odd in a way that only shows now.
                Err(CommitError::Operation { operation, cause }) => {
                    tracing::warn!(%operation, %cause, "what is loaded cannot be amended; it is made anew");
                    self.replace(plan)?
                }
                outcome => outcome?,
            },
            None => self.replace(plan)?,
        };
        self.generation = Some(self.socket.generation()?);
        Ok(written)
    }

    /// Makes both tables anew, with room to grow, for when a set is full ([`CommitError::is_full`]). Clients stick no more.
    pub fn renew(&mut self, plan: &Plan) -> Result<Written, CommitError> {
        let written = self.replace(plan)?;
        self.generation = Some(self.socket.generation()?);
        Ok(written)
    }

    /// Writes changes of the plan, knowing what is loaded.
    pub fn apply(&mut self, changes: &Changes) -> Result<Written, CommitError> {
        let mut batch = Batch::new();
        let needed = changes.added().filter_map(|(key, value)| Extra::needed(key, value));
        let missing = self.missing(needed);
        missing.iter().for_each(|(family, extra)| extra.add_to(&mut batch, &table(*family)));
        let removed = group(changes.removed().map(|(key, _)| encode::key(key)));
        let added = group(changes.added().map(|(key, value)| encode::element(key, value)));
        write(&mut batch, &removed, &added);
        self.commit_counted(&batch)?;
        self.extras.extend(missing);
        Ok(Written { elements: changes.len(), bytes: batch.size(), ..Written::default() })
    }

    fn missing(&self, needed: impl Iterator<Item = (Family, Extra)>) -> BTreeSet<(Family, Extra)> {
        needed.filter(|extra| !self.extras.contains(extra)).collect()
    }

    /// Whether nobody but this proxy has changed any table since it last wrote.
    pub fn is_undisturbed(&mut self) -> io::Result<bool> {
        let generation = self.socket.generation()?;
        Ok(self.generation == Some(generation))
    }

    /// Makes both tables anew.
    ///
    /// A packet amid rules that are deleted finds their maps empty. So tables with the same content stand in for those
    /// that go: what the rules of one table do not translate, those of the other do.
    fn replace(&mut self, plan: &Plan) -> Result<Written, CommitError> {
        let content = Content::of(plan);
        let stand_in = self.socket.tables()?.iter().any(|(table, _)| table.name == TABLE);
        if stand_in {
            self.socket.commit(&self.made_anew(STAND_IN, &content))?;
            let_packets_pass();
        }
        let batch = self.made_anew(TABLE, &content);
        let outcome = self.socket.commit(&batch);
        if stand_in {
            let_packets_pass();
            self.remove_stand_in()?;
        }
        outcome?;
        let elements = content.elements.values().map(Vec::len).sum();
        self.extras = content.extras;
        Ok(Written { elements, bytes: batch.size(), anew: true, untidy: false })
    }

    /// Tables of a name, whatever was there before.
    fn made_anew(&self, name: &str, content: &Content) -> Batch {
        let mut batch = Batch::new();
        for skeleton in &self.skeletons {
            let table = Table::new(skeleton.table.family, name);
            // Added first, so that there is something to delete.
            batch.add_table(&table, None);
            batch.delete_table(&table);
            skeleton.add_to(&mut batch, &table, |set| room(content.count(table.family, set)));
        }
        content
            .extras
            .iter()
            .for_each(|(family, extra)| extra.add_to(&mut batch, &Table::new(*family, name)));
        add(&mut batch, name, &content.elements);
        batch
    }

    /// Also what a proxy left that ended while it made the tables anew.
    fn remove_stand_in(&mut self) -> Result<(), CommitError> {
        let batch = deletion(&mut self.socket, &[STAND_IN])?;
        self.socket.commit(&batch)
    }

    /// What is loaded, if it is ours and whole.
    fn load(&mut self) -> io::Result<Option<Loaded>> {
        let tables: HashMap<(Family, String), Option<String>> = self
            .socket
            .tables()?
            .into_iter()
            .map(|(table, comment)| ((table.family, table.name), comment))
            .collect();
        let mut loaded = Loaded::default();
        for skeleton in &self.skeletons {
            let comment = tables.get(&(skeleton.table.family, TABLE.to_owned())).cloned().flatten();
            if comment != Some(skeleton.comment()) || !loaded.read(&mut self.socket, skeleton)? {
                return Ok(None);
            }
        }
        Ok(Some(loaded))
    }

    fn amend(&mut self, plan: &Plan, loaded: Loaded) -> Result<Written, CommitError> {
        let needed: BTreeSet<(Family, Extra)> =
            plan.elements().filter_map(|(key, value)| Extra::needed(key, value)).collect();
        let mut batch = Batch::new();
        let missing = needed.iter().filter(|extra| !loaded.has(extra));
        missing.for_each(|(family, extra)| extra.add_to(&mut batch, &table(*family)));
        let (removed, added) = loaded.difference(wanted(plan));
        write(&mut batch, &removed, &added);
        self.socket.commit(&batch)?;
        let untidy = !self.tidy(&loaded, &needed);
        self.extras = needed;
        let count = |groups: &Groups| groups.values().map(Vec::len).sum::<usize>();
        let elements = count(&removed).max(count(&added));
        Ok(Written { elements, bytes: batch.size(), anew: false, untidy })
    }

    /// Removes chains that an earlier proxy needed. In a transaction of its own: the kernel notices only after the one
    /// before that no element leads to them (Linux before 6.2). Returns whether that went well.
    fn tidy(&mut self, loaded: &Loaded, needed: &BTreeSet<(Family, Extra)>) -> bool {
        let names: BTreeSet<(Family, String)> =
            needed.iter().map(|(family, extra)| (*family, extra.name())).collect();
        let mut batch = Batch::new();
        for (family, chain) in loaded.choices.iter().filter(|choice| !names.contains(choice)) {
            batch.delete_chain(&table(*family), chain);
        }
        let done = self.socket.commit(&batch);
        if let Err(error) = &done {
            tracing::debug!(%error, "chains that nobody needs stay");
        }
        done.is_ok()
    }

    /// Sends away who sticks to what is gone. Returns how many.
    pub fn unstick(&mut self, gone: &[(Claim, SocketAddr)]) -> Result<usize, CommitError> {
        let gone: HashSet<(Claim, SocketAddr)> = gone.iter().copied().collect();
        let mut count = 0;
        for family in FAMILIES {
            if gone.iter().any(|(claim, _)| crate::ruleset::family(claim) == family) {
                count += self.send_away(family, |client| {
                    let anywhere = Claim { address: None, ..client.frontend };
                    [client.frontend, anywhere].iter().any(|claim| gone.contains(&(*claim, client.target)))
                })?;
            }
        }
        Ok(count)
    }

    fn send_away(&mut self, family: Family, goes: impl Fn(&Client) -> bool) -> Result<usize, CommitError> {
        let loaded = self.socket.elements(&table(family), "affinity")?;
        let stuck = loaded.into_iter().map(|loaded| loaded.element);
        let stuck =
            stuck.filter(|element| encode::client(family, element).is_some_and(|client| goes(&client)));
        // While the map grows, one may be told twice.
        let keys: BTreeSet<Vec<u8>> = stuck.map(|element| element.key).collect();
        let elements: Vec<Element> = keys.into_iter().map(Element::new).collect();
        self.remove_clients(family, &elements)?;
        Ok(elements.len())
    }

    /// They may go by themselves at any moment, which must not keep the others.
    fn remove_clients(&mut self, family: Family, elements: &[Element]) -> Result<(), CommitError> {
        let mut batch = Batch::new();
        batch.destroy_elements(&table(family), "affinity", elements);
        if self.commit_counted(&batch).is_ok() {
            return Ok(());
        }
        // Kernels before 6.3 cannot; then one at a time.
        for element in elements {
            let mut batch = Batch::new();
            batch.delete_elements(&table(family), "affinity", std::slice::from_ref(element));
            match self.commit_counted(&batch) {
                Err(CommitError::Operation { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Commits, knowing by how much that alone raises the generation.
    fn commit_counted(&mut self, batch: &Batch) -> Result<(), CommitError> {
        self.socket.commit(batch)?;
        if !batch.is_empty() {
            self.generation = self.generation.map(|generation| generation.wrapping_add(1));
        }
        Ok(())
    }

    /// Sends away who sticks to what the plan does not want: a trace of a time whose changes this kernel was not told. `here`:
    /// the addresses of those who are on this node. Returns how many.
    pub fn sweep_affinity(&mut self, plan: &Plan, here: &[IpNet]) -> Result<usize, CommitError> {
        let stickiness = plan.stickiness();
        let mut count = 0;
        for family in FAMILIES {
            count += self.send_away(family, |client| !stickiness.allows(client, here))?;
        }
        Ok(count)
    }

    /// The same for connections of UDP; `services` is where only Services have addresses.
    pub fn sweep_flows(&mut self, plan: &Plan, services: &[IpNet]) -> io::Result<Forgotten> {
        let flows = self.socket.flows(encode::number(Protocol::Udp))?;
        let flows = flows.into_iter().map(|flow| {
            let (address, port) = flow.server;
            let family = if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
            let to = Claim { family, address: flow.address, protocol: Protocol::Udp, port: flow.port };
            (to, SocketAddr::new(address, port))
        });
        self.forget(&plan.gone(flows, services))
    }

    /// Forgets connections to frontends that backends answered which are gone. Returns how many.
    pub fn forget<'a>(
        &mut self,
        gone: impl IntoIterator<Item = &'a (Claim, SocketAddr)>,
    ) -> io::Result<Forgotten> {
        let flows: Vec<Flow> = gone
            .into_iter()
            .map(|(claim, target)| Flow {
                protocol: encode::number(claim.protocol),
                address: claim.address,
                port: claim.port,
                server: (target.ip(), target.port()),
            })
            .collect();
        self.socket.forget(&flows)
    }

    /// How many packets each refusing frontend has refused, in bytes as they are loaded.
    pub fn refused(&mut self) -> io::Result<Refused> {
        let mut counts = HashMap::new();
        for family in FAMILIES {
            for set in ["refused", "refused-nodeports", "guarded"] {
                for loaded in self.socket.elements(&table(family), set)? {
                    counts.insert((family, set, loaded.element.key), loaded.packets.unwrap_or_default());
                }
            }
        }
        Ok(counts)
    }

    /// How many clients stick to something.
    pub fn count_affinity(&mut self) -> io::Result<usize> {
        let counts =
            FAMILIES.map(|family| self.socket.elements(&table(family), "affinity").map(|all| all.len()));
        counts.into_iter().sum()
    }
}

/// Removes our tables from a network namespace. Returns whether there were any.
pub fn clean_up(namespace: Option<&Path>) -> Result<bool, CommitError> {
    let mut socket = namespace.map_or_else(Socket::open, Socket::open_in)?;
    let batch = deletion(&mut socket, &[TABLE, STAND_IN])?;
    socket.commit(&batch)?;
    Ok(!batch.is_empty())
}

/// Of all tables of these names.
fn deletion(socket: &mut Socket, names: &[&str]) -> io::Result<Batch> {
    let mut batch = Batch::new();
    let ours = socket.tables()?.into_iter().filter(|(table, _)| names.contains(&table.name.as_str()));
    ours.for_each(|(table, _)| batch.delete_table(&table));
    Ok(batch)
}

/// Waits until no packet is amid rules that it entered before. That takes microseconds; nothing tells when.
fn let_packets_pass() {
    std::thread::sleep(Duration::from_millis(20));
}

/// What a plan fills tables with.
struct Content {
    elements: Groups,
    extras: BTreeSet<(Family, Extra)>,
}

impl Content {
    fn of(plan: &Plan) -> Self {
        // What several Services want comes several times, which does no harm.
        let elements = group(plan.elements().map(|(key, value)| encode::element(key, value)));
        let extras = plan.elements().filter_map(|(key, value)| Extra::needed(key, value)).collect();
        Self { elements, extras }
    }

    fn count(&self, family: Family, set: &str) -> Option<usize> {
        self.elements.get(&(family, set.to_owned().into())).map(Vec::len)
    }
}

/// The size of a set that begins with so many elements, if that is known to be many.
fn room(count: Option<usize>) -> Option<u32> {
    count.filter(|count| *count >= MANY).and_then(|count| u32::try_from(count.checked_mul(2)?).ok())
}

fn table(family: Family) -> Table {
    Table::new(family, TABLE)
}

/// A refusing frontend as [`Kernel::refused`] tells it.
pub(crate) fn counter_place(claim: &Claim, guarded: bool) -> (Family, &'static str, Vec<u8>) {
    let encoded = if guarded {
        encode::key(&Key::Guarded(*claim))
    } else {
        encode::element(&Key::Refused(*claim), &Value::Drop)
    };
    let set = match (guarded, claim.address.is_some()) {
        (true, _) => "guarded",
        (false, true) => "refused",
        (false, false) => "refused-nodeports",
    };
    (encoded.family, set, encoded.element.key)
}
