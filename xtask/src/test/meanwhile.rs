//! What the processor does while tests wait: it builds the real servers, if they are missing, then runs the simulation with
//! many seeds.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use crate::simulate::{self, Simulation};
use crate::{Outcome, kube};

type Failure = Box<dyn std::error::Error>;

/// Work that goes on beside the tests.
pub(super) struct Meanwhile {
    servers: Receiver<Result<PathBuf, String>>,
    seeds: JoinHandle<Result<(), String>>,
}

impl Meanwhile {
    /// Begins, with what is wanted of both.
    pub(super) fn begin(servers: bool, seeds: bool) -> Self {
        let (built, receiver) = sync_channel(1);
        // Both end with the thread that starts them.
        let seeds = std::thread::spawn(move || {
            if servers {
                let _ = built.send(kube::provide_when_idle().map_err(|failure| failure.to_string()));
            }
            if seeds { simulate().map_err(|failure| failure.to_string()) } else { Ok(()) }
        });
        Self { servers: receiver, seeds }
    }

    /// Waits for the real servers. Returns their folder.
    pub(super) fn servers(&self) -> Result<PathBuf, Failure> {
        Ok(self.servers.recv()??)
    }

    /// Waits for the last seed.
    pub(super) fn finish(self) -> Outcome {
        Ok(self.seeds.join().expect("the thread ends")?)
    }
}

fn simulate() -> Outcome {
    Simulation::begin(&simulate::Args::default(), true)?.finish()
}
