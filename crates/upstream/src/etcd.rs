//! One etcd; several API servers may share it, each with a prefix of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::{Doing as _, Error, Process};

/// Much longer than a start takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// An etcd that runs. Its data is in the folder it was given and outlives it.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    folder: PathBuf,
    clients: SocketAddr,
    peers: SocketAddr,
    process: Process,
}

impl Etcd {
    /// Starts one that listens on free ports of `address`.
    pub async fn start(program: &Path, folder: &Path, address: IpAddr) -> Result<Self, Error> {
        let (clients, peers) = (free(address).await?, free(address).await?);
        let process = launch(program, folder, clients, peers)?;
        let mut etcd =
            Self { program: program.to_owned(), folder: folder.to_owned(), clients, peers, process };
        etcd.ready().await?;
        Ok(etcd)
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.clients)
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again where it was, with what it had.
    pub async fn revive(&mut self) -> Result<(), Error> {
        self.process.kill();
        self.process = launch(&self.program, &self.folder, self.clients, self.peers)?;
        self.ready().await
    }

    /// It listens only when it can serve.
    async fn ready(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        while TcpStream::connect(self.clients).await.is_err() {
            self.process.check()?;
            late(&self.process, begin, PATIENCE)?;
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

fn launch(program: &Path, folder: &Path, clients: SocketAddr, peers: SocketAddr) -> Result<Process, Error> {
    let (clients, peers) = (format!("http://{clients}"), format!("http://{peers}"));
    let arguments = [
        format!("--data-dir={}", folder.join("data").display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--unsafe-no-fsync".to_owned(),
        "--max-txn-ops=100000".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    Process::start(program, arguments, folder)
}

/// Where servers listen: below the ports that the system gives to whoever connects, who may take one at any moment.
const PORTS: Range<u16> = 10_000..30_000;

/// A port that nobody uses just now, another one each time.
pub(crate) async fn free(address: IpAddr) -> Result<SocketAddr, Error> {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(std::process::id() as u16));
    let mut outcome = Err(io::ErrorKind::AddrInUse.into());
    for _ in PORTS {
        let port = PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % (PORTS.end - PORTS.start);
        outcome = TcpListener::bind((address, port)).await.and_then(|listener| listener.local_addr());
        if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::AddrInUse) {
            break;
        }
    }
    outcome.doing(format!("there is no free port on {address}"))
}

/// An error when `process` has taken longer than `patience`.
pub(crate) fn late(process: &Process, begin: Instant, patience: Duration) -> Result<(), Error> {
    if begin.elapsed() < patience {
        return Ok(());
    }
    let program = process.name().to_owned();
    Err(Error::Late { program, seconds: patience.as_secs(), said: process.said() })
}
