//! Whoever asks the keeper of real clusters for one.
//!
//! A cluster is lent for as long as the connection stands over which it was asked for, so it is given back however a test
//! ends. Programs of tests share the keeper that [`KEEPER_SOCKET`] names, with all its servers; one that runs by itself has its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ipnet::IpNet;
use kube::Client;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tombolo_apiserver::Context;
use tombolo_upstream::Folder;
use tower::service_fn;

use super::{BoxError, stock};
use crate::lab;

/// The variable that says where a keeper listens.
pub(crate) const KEEPER_SOCKET: &str = "TOMBOLO_TEST_KEEPER";
/// A hub and two members.
const USUAL: usize = 3;
const REMEDY: &str =
    "build them with `cargo xtask kube` and put the folder it prints on the PATH, or run `cargo xtask test`";

/// What a cluster has to be like: the first line that is said to a keeper. It answers with a [`Context`], or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Needs {
    /// The networks of Services.
    pub(super) networks: Vec<IpNet>,
    /// Whether kube-controller-manager is at work.
    pub(super) controllers: bool,
    /// Whether our kinds are defined.
    pub(super) definitions: bool,
}

/// Any other line: whether kube-controller-manager shall run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Control {
    pub(super) run: bool,
}

/// A cluster that a test has; dropped, it can be lent to another.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) context: Context,
    line: Mutex<Line>,
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
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.ask::<()>(&Control { run }).expect("kube-controller-manager starts");
    }
}

/// A cluster like that, empty. Waits for it without giving way to other tasks.
pub(super) fn lend(needs: &Needs) -> Lent {
    let asked = || {
        let mut line = Line(BufReader::new(UnixStream::connect(&*KEEPER)?));
        let context = line.ask(needs)?;
        Ok(Lent { context, line: Mutex::new(line) })
    };
    asked().unwrap_or_else(|why: BoxError| panic!("there is no real API server: {why}\n{REMEDY}"))
}

/// A connection to the keeper.
#[derive(Debug)]
struct Line(BufReader<UnixStream>);

impl Line {
    fn ask<A: DeserializeOwned>(&mut self, question: &impl Serialize) -> Result<A, BoxError> {
        self.0.get_mut().write_all(format!("{}\n", serde_json::to_string(question)?).as_bytes())?;
        let mut answer = String::new();
        self.0.read_line(&mut answer)?;
        let answer: Result<A, String> = serde_json::from_str(&answer)?;
        Ok(answer?)
    }
}

/// Where the keeper of this program listens.
static KEEPER: LazyLock<PathBuf> = LazyLock::new(|| match std::env::var_os(KEEPER_SOCKET) {
    Some(socket) => socket.into(),
    None => {
        let folder = Folder::new("keeper").expect("a folder");
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let body = move || {
            let _folder = folder;
            keep(listener)
        };
        // A server ends with the thread that started it, and a test's thread ends with the test.
        std::thread::Builder::new().name("keeper".to_owned()).spawn(body).expect("a thread");
        socket
    }
});

/// Keeps real clusters on this thread and lends them to whoever connects at `socket`, for as long as the program lives.
pub fn keep_clusters(socket: &Path) -> std::io::Result<()> {
    keep(UnixListener::bind(socket)?);
    Ok(())
}

fn keep(listener: UnixListener) {
    // A test with namespaces of its own is alone with its keeper, and mostly needs one cluster.
    let at_first = if lab::is_inside() { 1 } else { USUAL };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(tokio::task::LocalSet::new().run_until(stock::serve(listener, at_first)));
}
