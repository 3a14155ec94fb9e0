//! The real clusters that a keeper has, and who has them just now.
//!
//! One etcd serves all. Where many will ask, the first makes it start as many as most tests need, all at the same time.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tombolo_apiserver::Context;
use tombolo_runtime::with_causes;
use tombolo_upstream::{ControlPlane, Etcd, Folder, Place, Programs, Settings};

use super::BoxError;
use super::keeper::{Control, Needs};
use super::wipe::Baseline;

/// With so many, one of them is probably given back before another has been started. Whoever has some and needs more must
/// not wait for ever, though.
const PLENTY: usize = 12;
const A_WHILE: Duration = Duration::from_secs(20);
/// One that nobody wants for so long is ended: an idle server takes as much of the processor in that time as starting it.
const UNWANTED: Duration = Duration::from_secs(120);
/// What a test that is over has sent may still arrive for so long.
const AFTERMATH: Duration = Duration::from_secs(3);

/// Everything there is.
#[derive(Default)]
struct Stock {
    /// How many the first who asks causes to be started.
    at_first: usize,
    planes: RefCell<Vec<Plane>>,
    broken: RefCell<Option<String>>,
    etcd: tokio::sync::OnceCell<(Etcd, Folder)>,
    changed: Notify,
    /// What those who wait need.
    waiting: RefCell<Vec<Needs>>,
}

struct Plane {
    like: Needs,
    state: State,
}

enum State {
    Starting,
    /// Nobody has had it since then.
    Idle(Rc<Whole>, Instant),
    Lent,
    Ended,
}

/// A control plane and what it held before any test.
struct Whole {
    plane: RefCell<ControlPlane>,
    baseline: Baseline,
}

/// Lends to whoever connects, one cluster per connection; `at_first` are started for the first.
pub(super) async fn serve(listener: std::os::unix::net::UnixListener, at_first: usize) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = UnixListener::from_std(listener).expect("a socket");
    let stock = Rc::new(Stock { at_first, ..Stock::default() });
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let stock = stock.clone();
        // Whoever asks may go away at any time, also in the middle of an answer.
        tokio::task::spawn_local(async move { drop(attend(stock, stream).await) });
    }
}

async fn attend(stock: Rc<Stock>, stream: UnixStream) -> Result<(), BoxError> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let Some(needs) = lines.next_line().await? else { return Ok(()) };
    let needs: Needs = serde_json::from_str(&needs)?;
    let (number, whole) = match stock.lend(&needs).await {
        Ok(lent) => lent,
        Err(why) => return answer(&mut writer, &Err::<Context, _>(why)).await,
    };
    let outcome = serve_one(&whole, &mut lines, &mut writer).await;
    tokio::time::sleep(AFTERMATH).await;
    stock.put_back(number, whole).await;
    outcome
}

/// Until the connection ends, well or not.
async fn serve_one(
    whole: &Whole,
    lines: &mut Lines<BufReader<OwnedReadHalf>>,
    writer: &mut OwnedWriteHalf,
) -> Result<(), BoxError> {
    answer(writer, &whole.prepare().await).await?;
    while let Some(line) = lines.next_line().await? {
        let Control { run } = serde_json::from_str(&line)?;
        answer(writer, &whole.control(run)).await?;
    }
    Ok(())
}

async fn answer<T: Serialize>(
    writer: &mut OwnedWriteHalf,
    answer: &Result<T, String>,
) -> Result<(), BoxError> {
    let line = format!("{}\n", serde_json::to_string(answer)?);
    Ok(writer.write_all(line.as_bytes()).await?)
}

impl Stock {
    fn put(&self, number: usize, state: State) {
        self.planes.borrow_mut()[number].state = state;
        self.changed.notify_waiters();
    }

    /// Lets others have it, and ends it if nobody comes.
    async fn put_back(&self, number: usize, whole: Rc<Whole>) {
        let now = Instant::now();
        self.put(number, State::Idle(whole, now));
        tokio::time::sleep(UNWANTED).await;
        let state = &mut self.planes.borrow_mut()[number].state;
        if matches!(state, State::Idle(_, since) if *since == now) {
            *state = State::Ended;
        }
    }

    /// How many run or are about to.
    fn count(&self) -> usize {
        self.planes.borrow().iter().filter(|plane| !matches!(plane.state, State::Ended)).count()
    }

    async fn lend(self: &Rc<Self>, needs: &Needs) -> Result<(usize, Rc<Whole>), String> {
        let begin = Instant::now();
        loop {
            if let Some(why) = self.broken.borrow().clone() {
                return Err(why);
            }
            if let Some(lent) = self.pick(needs) {
                return Ok(lent);
            }
            let changed = self.changed.notified();
            if self.count() >= PLENTY && begin.elapsed() < A_WHILE {
                let _ = tokio::time::timeout(A_WHILE, changed).await;
                continue;
            }
            self.waiting.borrow_mut().push(needs.clone());
            self.start_some(needs);
            changed.await;
            let mut waiting = self.waiting.borrow_mut();
            waiting.iter().position(|other| other == needs).map(|place| waiting.swap_remove(place));
        }
    }

    /// One that nobody has.
    fn pick(&self, needs: &Needs) -> Option<(usize, Rc<Whole>)> {
        let mut planes = self.planes.borrow_mut();
        let mut fitting = planes.iter_mut().enumerate().filter(|(_, plane)| plane.like == *needs);
        fitting.find_map(|(number, plane)| {
            let State::Idle(whole, _) = &plane.state else { return None };
            let whole = whole.clone();
            plane.state = State::Lent;
            Some((number, whole))
        })
    }

    /// Starts one for everybody who waits; the first time, as many as was said.
    fn start_some(self: &Rc<Self>, needs: &Needs) {
        let starting = |plane: &&Plane| plane.like == *needs && matches!(plane.state, State::Starting);
        let starting = self.planes.borrow().iter().filter(starting).count();
        let waiting = self.waiting.borrow().iter().filter(|other| *other == needs).count();
        let count =
            if self.planes.borrow().is_empty() { self.at_first } else { waiting.saturating_sub(starting) };
        for _ in 0..count {
            let number = self.planes.borrow().len();
            self.planes.borrow_mut().push(Plane { like: needs.clone(), state: State::Starting });
            tokio::task::spawn_local(self.clone().begin(number, needs.clone()));
        }
    }

    async fn begin(self: Rc<Self>, number: usize, needs: Needs) {
        match self.start(number, needs).await {
            Ok(whole) => self.put_back(number, Rc::new(whole)).await,
            Err(error) => {
                *self.broken.borrow_mut() = Some(with_causes(error.as_ref()));
                self.changed.notify_waiters();
            }
        }
    }

    async fn start(&self, number: usize, needs: Needs) -> Result<Whole, BoxError> {
        let mut programs = Programs::find(None)?;
        if programs.controller_manager.is_none() {
            return Err("there is no kube-controller-manager on the PATH".into());
        }
        let (etcd, _) = self.etcd.get_or_try_init(|| start_etcd(&programs)).await?;
        if !needs.controllers {
            programs.controller_manager = None;
        }
        let prefix = format!("/cluster{number}");
        let settings = Settings {
            name: format!("cluster{number}"),
            service_cidrs: needs.networks.clone(),
            place: Place::Loopback,
            etcd: etcd.url(),
            prefix: prefix.clone(),
        };
        let plane = ControlPlane::start(&programs, settings, Folder::new("kube")?).await?;
        let baseline = Baseline::take(&plane, &needs, &etcd.url(), &prefix).await?;
        Ok(Whole { plane: RefCell::new(plane), baseline })
    }
}

impl Whole {
    /// Makes it what it was before any test.
    async fn prepare(&self) -> Result<Context, String> {
        self.control(true)?;
        self.baseline.restore().await.map_err(|error| with_causes(error.as_ref()))?;
        Ok(self.plane.borrow().context.clone())
    }

    fn control(&self, run: bool) -> Result<(), String> {
        let mut plane = self.plane.borrow_mut();
        if !run {
            plane.kill_controllers();
            return Ok(());
        }
        plane.revive_controllers().map_err(|error| with_causes(&error))
    }
}

async fn start_etcd(programs: &Programs) -> Result<(Etcd, Folder), tombolo_upstream::Error> {
    let folder = Folder::new("etcd")?;
    let etcd = Etcd::start(&programs.etcd, folder.path(), IpAddr::V4(Ipv4Addr::LOCALHOST)).await?;
    Ok((etcd, folder))
}
