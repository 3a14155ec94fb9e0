//! Whoever keeps the real servers of this process and lends them to tests.
//!
//! A thread of its own, because a server ends with the thread that started it, and a test's thread ends with the test.
//! The first to ask makes it start as many as most tests need, all at the same time, with one etcd for all.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use kube::Client;
use tokio::sync::{Notify, mpsc, oneshot};
use tombolo_apiserver::Context;
use tombolo_upstream::{ControlPlane, Etcd, Folder, Place, Programs, Settings};
use tower::service_fn;

use super::BoxError;
use super::wipe::Baseline;

/// A hub and two members.
const USUAL: usize = 3;
/// With so many, one of them is probably given back before another has been started. Whoever has some and needs more must
/// not wait for ever, though.
const PLENTY: usize = 9;
const A_WHILE: Duration = Duration::from_secs(5);
/// What a test that is over has sent may still arrive for so long.
const AFTERMATH: Duration = Duration::from_secs(3);
const REMEDY: &str =
    "build them with `cargo xtask kube` and put the folder it prints on the PATH, or run `cargo xtask test`";

/// A cluster that a test has; dropped, it can be lent to another.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) context: Context,
    number: usize,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = KEEPER.send(Wish::GiveBack(self.number));
    }
}

impl Lent {
    /// The client, as one that keeps the cluster from being lent to another.
    pub(super) fn held_by(self: &Arc<Self>, client: Client) -> Client {
        let held = self.clone();
        let service = service_fn(move |request| {
            let (client, _held) = (client.clone(), held.clone());
            async move { client.send(request).await }
        });
        Client::new(service, "default")
    }

    /// Starts or kills its kube-controller-manager.
    pub(super) fn control(&self, run: bool) {
        asked(|reply| Wish::Control(self.number, run, reply)).expect("kube-controller-manager starts");
    }
}

/// What a cluster has to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// The networks of Services.
    pub(super) networks: Vec<IpNet>,
    /// Whether kube-controller-manager is at work.
    pub(super) controllers: bool,
    /// Whether our kinds are defined.
    pub(super) definitions: bool,
}

enum Wish {
    Lend(Needs, oneshot::Sender<Result<Lent, String>>),
    /// Whether kube-controller-manager shall run.
    Control(usize, bool, oneshot::Sender<Result<(), String>>),
    GiveBack(usize),
}

static KEEPER: LazyLock<mpsc::UnboundedSender<Wish>> = LazyLock::new(|| {
    let (sender, wishes) = mpsc::unbounded_channel();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let tasks = tokio::task::LocalSet::new();
        runtime.expect("a runtime").block_on(tasks.run_until(keep(wishes)));
    };
    std::thread::Builder::new().name("keeper".to_owned()).spawn(body).expect("a thread");
    sender
});

/// A cluster like that, empty. Waits for it without giving way to other tasks.
pub(super) fn lend(needs: Needs) -> Lent {
    asked(|reply| Wish::Lend(needs, reply))
        .unwrap_or_else(|why| panic!("there is no real API server: {why}\n{REMEDY}"))
}

/// What the keeper answers to a wish.
fn asked<T: Send>(wish: impl FnOnce(oneshot::Sender<T>) -> Wish) -> T {
    let (reply, answer) = oneshot::channel();
    let _ = KEEPER.send(wish(reply));
    // The runtime of the test must not notice that its thread waits.
    let wait = || answer.blocking_recv().expect("an answer of the keeper");
    std::thread::scope(|scope| scope.spawn(wait).join()).expect("an answer of the keeper")
}

/// Everything there is.
#[derive(Default)]
struct Stock {
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
    Idle(Rc<Whole>),
    Lent(Rc<Whole>),
}

/// A control plane and what it held before any test.
struct Whole {
    plane: RefCell<ControlPlane>,
    baseline: Baseline,
}

async fn keep(mut wishes: mpsc::UnboundedReceiver<Wish>) {
    let stock = Rc::new(Stock::default());
    while let Some(wish) = wishes.recv().await {
        match wish {
            Wish::Lend(needs, reply) => {
                let stock = stock.clone();
                tokio::task::spawn_local(async move {
                    let _ = reply.send(stock.lend(needs).await);
                });
            }
            Wish::Control(number, run, reply) => {
                let _ = reply.send(stock.control(number, run));
            }
            Wish::GiveBack(number) => {
                let stock = stock.clone();
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(AFTERMATH).await;
                    stock.take_back(number);
                });
            }
        }
    }
}

impl Stock {
    fn control(&self, number: usize, run: bool) -> Result<(), String> {
        let planes = self.planes.borrow();
        let State::Lent(whole) = &planes[number].state else { return Ok(()) };
        whole.control(run)
    }

    fn take_back(&self, number: usize) {
        let plane = &mut self.planes.borrow_mut()[number];
        if let State::Lent(whole) = &plane.state {
            plane.state = State::Idle(whole.clone());
        }
        self.changed.notify_waiters();
    }

    async fn lend(self: Rc<Self>, needs: Needs) -> Result<Lent, String> {
        let begin = Instant::now();
        loop {
            if let Some(why) = self.broken.borrow().clone() {
                return Err(why);
            }
            if let Some((number, whole)) = self.pick(&needs) {
                whole.control(true)?;
                whole.baseline.restore().await.map_err(|error| told(error.as_ref()))?;
                let context = whole.plane.borrow().context.clone();
                return Ok(Lent { context, number });
            }
            let changed = self.changed.notified();
            if self.planes.borrow().len() >= PLENTY && begin.elapsed() < A_WHILE {
                let _ = tokio::time::timeout(A_WHILE, changed).await;
                continue;
            }
            self.waiting.borrow_mut().push(needs.clone());
            self.start_some(&needs);
            changed.await;
            let mut waiting = self.waiting.borrow_mut();
            waiting.iter().position(|other| *other == needs).map(|place| waiting.swap_remove(place));
        }
    }

    /// One that nobody has.
    fn pick(&self, needs: &Needs) -> Option<(usize, Rc<Whole>)> {
        let mut planes = self.planes.borrow_mut();
        let mut fitting = planes.iter_mut().enumerate().filter(|(_, plane)| plane.like == *needs);
        fitting.find_map(|(number, plane)| {
            let State::Idle(whole) = &plane.state else { return None };
            let whole = whole.clone();
            plane.state = State::Lent(whole.clone());
            Some((number, whole))
        })
    }

    /// Starts one for everybody who waits; the first time, as many as most tests need.
    fn start_some(self: &Rc<Self>, needs: &Needs) {
        let starting = |plane: &&Plane| plane.like == *needs && matches!(plane.state, State::Starting);
        let starting = self.planes.borrow().iter().filter(starting).count();
        let waiting = self.waiting.borrow().iter().filter(|other| *other == needs).count();
        let count = if self.planes.borrow().is_empty() { USUAL } else { waiting.saturating_sub(starting) };
        for _ in 0..count {
            let number = self.planes.borrow().len();
            self.planes.borrow_mut().push(Plane { like: needs.clone(), state: State::Starting });
            tokio::task::spawn_local(self.clone().begin(number, needs.clone()));
        }
    }

    async fn begin(self: Rc<Self>, number: usize, needs: Needs) {
        match self.start(number, needs).await {
            Ok(whole) => self.planes.borrow_mut()[number].state = State::Idle(Rc::new(whole)),
            Err(error) => *self.broken.borrow_mut() = Some(told(error.as_ref())),
        }
        self.changed.notify_waiters();
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
    fn control(&self, run: bool) -> Result<(), String> {
        let mut plane = self.plane.borrow_mut();
        if !run {
            plane.kill_controllers();
            return Ok(());
        }
        plane.revive_controllers().map_err(|error| told(&error))
    }
}

async fn start_etcd(programs: &Programs) -> Result<(Etcd, Folder), tombolo_upstream::Error> {
    let folder = Folder::new("etcd")?;
    let etcd = Etcd::start(&programs.etcd, folder.path(), IpAddr::V4(Ipv4Addr::LOCALHOST)).await?;
    Ok((etcd, folder))
}

/// An error with its causes.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
