//! Leadership: one at a time, a new one when the old one dies, and never two.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tombolo_apiserver::{Options, User};
use tombolo_runtime::Candidate;
use tombolo_testkit::{Cluster, FaultPlan, Faults, Outage, embedded_only, linger};

/// Who started to work, and whether two ever worked at once.
#[derive(Clone)]
struct Office {
    began: mpsc::UnboundedSender<String>,
    working: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

/// Counts someone as working until it is dropped.
struct Shift(Arc<AtomicUsize>);

impl Drop for Shift {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Office {
    fn open() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (began, arrivals) = mpsc::unbounded_channel();
        (Self { began, working: Arc::default(), most: Arc::default() }, arrivals)
    }

    /// A candidate that competes again whenever it loses.
    fn employ(&self, name: &'static str, client: kube::Client) -> JoinHandle<()> {
        let office = self.clone();
        tokio::spawn(async move {
            let candidate = Candidate::new("default", "office", name);
            loop {
                candidate.lead(client.clone(), office.work(name)).await;
            }
        })
    }

    async fn work(&self, name: &str) {
        let working = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        let _shift = Shift(self.working.clone());
        self.most.fetch_max(working, Ordering::SeqCst);
        let _ = self.began.send(name.to_owned());
        std::future::pending::<()>().await;
    }
}

async fn next(arrivals: &mut mpsc::UnboundedReceiver<String>) -> String {
    timeout(Duration::from_secs(120), arrivals.recv())
        .await
        .expect("somebody leads")
        .expect("the office is open")
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_takes_over_when_it_dies() {
    let cluster = Cluster::new(Options::named("test"));
    let (office, mut arrivals) = Office::open();
    let first = office.employ("a", cluster.client());
    assert_eq!(next(&mut arrivals).await, "a");
    let _second = office.employ("b", cluster.client());
    linger(Duration::from_secs(120)).await;
    assert!(arrivals.try_recv().is_err(), "while a lives, b waits");
    first.abort();
    let died = Instant::now();
    assert_eq!(next(&mut arrivals).await, "b");
    let took = died.elapsed().as_secs();
    assert!((10..=20).contains(&took), "the lease had to run out first: {took} s");
    assert_eq!(office.most.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_starts() {
    for outage in [Outage::Refused, Outage::Silent] {
        let cluster = Cluster::new(Options::named("test"));
        let faults = Faults::seeded(1);
        let (office, mut arrivals) = Office::open();
        let first = office.employ("a", faults.client(&cluster, User::admin()));
        assert_eq!(next(&mut arrivals).await, "a");
        let second = office.employ("b", cluster.client());
        sleep(Duration::from_secs(10)).await;
        faults.outage(outage);
        assert_eq!(next(&mut arrivals).await, "b");
        faults.heal();
        linger(Duration::from_secs(120)).await;
        assert!(arrivals.try_recv().is_err(), "b goes on leading after a is back");
        assert_eq!(office.most.load(Ordering::SeqCst), 1, "{outage:?}");
        // The next cluster may be the same one, emptied.
        first.abort();
        second.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_hears_late_of_its_renewal_stops_before_another_starts() {
    embedded_only!("it depends on a tenth of a second");
    let cluster = Cluster::new(Options::named("test"));
    let faults = Faults::seeded(1);
    let (office, mut arrivals) = Office::open();
    let first = office.employ("a", faults.client(&cluster, User::admin()));
    assert_eq!(next(&mut arrivals).await, "a");
    // It renews after two seconds, which b sees after three; it hears of it just before it would give up, and of nothing after.
    faults.plan(FaultPlan { late_answer: Duration::from_millis(7_900), ..FaultPlan::default() });
    sleep(Duration::from_secs(1)).await;
    let second = office.employ("b", cluster.client());
    sleep(Duration::from_secs(9)).await;
    assert!(arrivals.try_recv().is_err(), "a still leads");
    faults.outage(Outage::Silent);
    assert_eq!(next(&mut arrivals).await, "b");
    faults.heal();
    linger(Duration::from_secs(120)).await;
    assert_eq!(office.most.load(Ordering::SeqCst), 1);
    first.abort();
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn whoever_finishes_hands_over_at_once() {
    let cluster = Cluster::new(Options::named("test"));
    Candidate::new("default", "office", "a").lead(cluster.client(), async {}).await;
    let begin = Instant::now();
    Candidate::new("default", "office", "b").lead(cluster.client(), async {}).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "nobody waits for a lease that was given back");
}
