//! Which API servers a run of the tests is about, and what they cannot do.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tombolo_apiserver::Clock;

/// The variable that decides.
const VARIABLE: &str = "TOMBOLO_TEST_APISERVER";
/// The file that collects which tests were left out or checked less, and why.
const LEFT_OUT: &str = "TOMBOLO_TEST_LEFT_OUT";

/// An API server that tests can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Embedded,
    Kube,
}

impl Server {
    /// The one of this run.
    pub fn chosen() -> Self {
        static CHOSEN: LazyLock<Server> = LazyLock::new(|| match std::env::var(VARIABLE).as_deref() {
            Err(_) | Ok("" | "embedded") => Server::Embedded,
            Ok("kube") => Server::Kube,
            Ok(other) => panic!("{VARIABLE} is {other:?}; it can be `embedded` or `kube`"),
        });
        *CHOSEN
    }

    pub fn is_embedded(self) -> bool {
        self == Self::Embedded
    }
}

/// Whether a test has to be left out because this run's servers are not the only ones it can run on, which is told for the
/// end of the run. Called by [`embedded_only!`](crate::embedded_only) and [`real_only!`](crate::real_only).
pub fn left_out(test: &str, only: Server, why: &str) -> bool {
    if Server::chosen() == only {
        return false;
    }
    not_run(test, why);
    true
}

/// Takes note of a test that cannot run here, for the end of the run.
pub fn not_run(test: &str, why: &str) {
    note(&format!("left out\t{test}\t{why}\n"));
}

/// Takes note that this test checks less here than on the embedded server, for the end of the run: what it does not.
pub fn relaxed(what: &str) {
    let test = current_test().unwrap_or_else(|| "a test that runs on a thread of its own".to_owned());
    note(&format!("relaxed\t{test}\t{what}\n"));
}

/// Tells it once.
fn note(line: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if !TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(line.to_owned()) {
        return;
    }
    let file = std::env::var_os(LEFT_OUT).map(|path| {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of what is left out");
    });
    if file.is_none() {
        let _ = write!(std::io::stderr(), "{line}");
    }
}

/// The test that this thread runs, as `program::module::test`: the harness names threads after their tests.
fn current_test() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let program = program.file_name()?.to_str()?;
    let program = program.rsplit_once('-').map_or(program, |(name, _)| name);
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main" && !name.starts_with("tokio"))?;
    Some(format!("{program}::{test}"))
}

/// The test that a function is in, as `program::module::test`, by the path that the compiler gives the function.
pub fn name_of(function: &str) -> String {
    let path = function.replace("::{{closure}}", "");
    path.rsplit_once("::").map_or(path.as_str(), |(test, _)| test).to_owned()
}

/// Ends a test at once on real servers, because of what they cannot do. It is listed at the end of the run.
#[macro_export]
macro_rules! embedded_only {
    ($why:literal) => {{
        fn here() {}
        let test = $crate::name_of(std::any::type_name_of_val(&here));
        if $crate::left_out(&test, $crate::Server::Embedded, $why) {
            return;
        }
    }};
}

/// Ends a test at once on the embedded server, because of what a run with it lacks. It is listed at the end of the run.
#[macro_export]
macro_rules! real_only {
    ($why:literal) => {{
        fn here() {}
        let test = $crate::name_of(std::any::type_name_of_val(&here));
        if $crate::left_out(&test, $crate::Server::Kube, $why) {
            return;
        }
    }};
}

/// Time that is paused goes on, since a real server does not wait for us, but faster than there: what tests and the parts in
/// them wait for are mostly heartbeats and leases of their own.
pub(super) fn let_time_pass() {
    if is_paused() {
        tokio::time::resume();
        tokio::spawn(hasten());
        TIME.set(Some(Clock::starting_at(Clock::wall().now())));
    }
}

thread_local! {
    /// The time of day of the test that this thread runs, if it passes faster than elsewhere.
    static TIME: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// The time of day for parts that work with real servers, the same for all of a test.
pub(super) fn time_of_day() -> Clock {
    TIME.with_borrow(Clone::clone).unwrap_or_else(Clock::wall)
}

/// Within a second of the servers so many pass for tests that would rather have it paused. A lease of 30 s is then as short as
/// a busy machine allows for.
const PACE: u32 = 3;
/// How often time is set forward.
const STEP: Duration = Duration::from_millis(20);

/// Sets time forward again and again; less often where the machine is too busy for it, which is well.
async fn hasten() {
    loop {
        tokio::time::sleep(STEP).await;
        tokio::time::pause();
        // Its first step is all of it; nobody sees time stand still.
        let _ = tokio::time::advance(STEP * (PACE - 1)).now_or_never();
        tokio::time::resume();
    }
}

fn is_paused() -> bool {
    if tokio::runtime::Handle::try_current().is_err() {
        return false;
    }
    let before = tokio::time::Instant::now();
    std::thread::sleep(Duration::from_millis(2));
    tokio::time::Instant::now() == before
}

/// Lets a while pass in which nothing is expected to happen. Where time cannot be paused a short one has to do, which is noted.
pub async fn linger(time: Duration) {
    linger_at_least(time, Duration::from_secs(8)).await;
}

/// The same, where a short one would show nothing: `least` is waited also where time cannot be paused.
pub async fn linger_at_least(time: Duration, least: Duration) {
    if Server::chosen().is_embedded() || time <= least {
        return tokio::time::sleep(time).await;
    }
    relaxed(&format!("looked for {} s, not {} s", least.as_secs(), time.as_secs()));
    tokio::time::sleep(least).await;
}

/// Whether what was waited is within the limit. Only where time is paused can that be told: a real server takes as long as
/// its machine does, so there it is not asked, which is noted.
pub fn timely(waited: Duration, limit: Duration) -> bool {
    if Server::chosen().is_embedded() {
        return waited <= limit;
    }
    how_soon(limit);
    true
}

/// Takes note that it is not asked whether something happens within a limit.
pub(crate) fn how_soon(limit: Duration) {
    relaxed(&format!("not whether within {} s", limit.as_secs()));
}

/// How long to wait for what must happen, if `usual` is enough for an embedded server.
pub fn patience(usual: Duration) -> Duration {
    if Server::chosen().is_embedded() { usual } else { usual.max(Duration::from_secs(300)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_by_its_program_and_its_path() {
        let cases = [
            ("services::leases::a_source::{{closure}}::here", "services::leases::a_source"),
            ("agent::two_agents::here", "agent::two_agents"),
        ];
        for (path, name) in cases {
            assert_eq!(name_of(path), name);
        }
    }

    #[test]
    fn a_thread_knows_its_test() {
        let name = current_test().unwrap();
        assert_eq!(name, "tombolo_testkit::cluster::server::tests::a_thread_knows_its_test");
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_is_paused_is_noticed_and_goes_on_and_faster() {
        assert!(is_paused());
        let_time_pass();
        assert!(!is_paused());
        let_time_pass();
        let (ours, theirs) = (tokio::time::Instant::now(), std::time::Instant::now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let theirs = theirs.elapsed();
        assert!(ours.elapsed() > theirs, "{:?}, {theirs:?}", ours.elapsed());
    }
}
