//! What is said to a container: through a pipe, or a terminal.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::exec::follow_size;
use super::launch::Listening;
use super::lock;

/// The near end of a container's input.
#[derive(Clone)]
pub(crate) struct Input {
    /// Held even if nobody may speak: the first process notices by it, at its beginning, when its parent goes.
    pipe: Arc<Mutex<Option<File>>>,
    terminal: Option<Arc<OwnedFd>>,
    listening: Listening,
}

impl Input {
    pub(super) fn new(pipe: File, terminal: Option<OwnedFd>, listening: Listening) -> Self {
        Self { pipe: Arc::new(Mutex::new(Some(pipe))), terminal: terminal.map(Arc::new), listening }
    }

    /// Says to the container what is typed, for as long as somebody types. Threads do it: a container that does not listen
    /// makes whoever speaks wait.
    pub(super) fn follow(
        &self,
        typed: mpsc::Receiver<Bytes>,
        sizes: mpsc::Receiver<(u16, u16)>,
    ) -> io::Result<()> {
        if let Some(terminal) = self.terminal.clone() {
            spawn(move || follow_size(&terminal, sizes))?;
        }
        if self.listening == Listening::No {
            return Ok(());
        }
        let input = self.clone();
        spawn(move || input.say(typed))
    }

    fn say(&self, mut typed: mpsc::Receiver<Bytes>) {
        let Ok(Some(mut to)) = self.open() else { return };
        while let Some(bytes) = typed.blocking_recv() {
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        // A terminal stays open: its end is Ctrl-D, which is typed.
        if self.listening == Listening::Once && self.terminal.is_none() {
            lock(&self.pipe).take();
        }
    }

    fn open(&self) -> io::Result<Option<File>> {
        match &self.terminal {
            Some(terminal) => terminal.try_clone().map(|end| Some(File::from(end))),
            None => lock(&self.pipe).as_ref().map(File::try_clone).transpose(),
        }
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("attach stream".to_owned()).spawn(body).map(drop)
}
