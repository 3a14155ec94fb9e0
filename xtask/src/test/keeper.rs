//! The keeper of real clusters as a process: programs of tests share its servers, which take many seconds to start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tombolo_upstream::{Folder, Process};

use super::path_with;
use crate::Outcome;
use crate::priority::STEPS;

type Failure = Box<dyn std::error::Error>;

/// Many servers, all of them written in Go, share the processor: they collect garbage more seldom, and each does one thing at a
/// time, which takes a third less to start one and to keep it idle than to let its threads hand work to each other.
pub(crate) const HASTE: [(&str, &str); 2] = [("GOGC", "400"), ("GOMAXPROCS", "1")];

/// How often it is looked whether the keeper listens.
const MOMENT: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    socket: PathBuf,
}

/// Keeps clusters until it is killed.
pub(crate) fn run(args: &Args) -> Outcome {
    Ok(tombolo_testkit::keep_clusters(&args.socket)?)
}

/// A keeper that runs, and all its servers. They end with this value, and with the thread that made it.
pub(crate) struct Keeper {
    process: Process,
    folder: Folder,
}

impl Keeper {
    /// Starts one with the servers in `programs`.
    pub(crate) fn start(programs: &Path) -> Result<Self, Failure> {
        let folder = Folder::new("keeper")?;
        let mut path = OsString::from("PATH=");
        path.push(path_with([programs.to_owned()])?);
        // Building the tests may have put another program in the place of this one.
        let own = format!("/proc/{}/exe", std::process::id()).into();
        let socket = folder.path().join("socket").into_os_string();
        let haste = HASTE.map(|(name, value)| OsString::from(format!("{name}={value}")));
        // Servers are slow to start and to stop; whoever counts on the processor goes first.
        let modestly = ["-n", STEPS, "env"].map(OsString::from).into_iter().chain(haste);
        let arguments = modestly.chain([path, own, "keep".into(), socket]);
        let process = Process::start(Path::new("nice"), arguments, folder.path())?;
        let mut keeper = Self { process, folder };
        while !keeper.socket().exists() {
            keeper.process.check()?;
            std::thread::sleep(MOMENT);
        }
        Ok(keeper)
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}
