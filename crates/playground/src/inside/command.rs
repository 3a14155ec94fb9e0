//! A command of this computer as a container. The first process of a namespace inherits all orphans and gets no signal it
//! has not asked for, which few commands are made for: so that is done here, for them.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

use crate::kubelet::IN_TERMINAL;

/// What a command hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// Somebody may speak to it.
    pub(super) listening: bool,
    /// Its terminal is its standard output.
    pub(super) tty: bool,
}

impl Input {
    fn open(self) -> io::Result<Stdio> {
        Ok(match self {
            Self { tty: true, .. } => io::stdout().as_fd().try_clone_to_owned()?.into(),
            Self { listening: true, .. } => Stdio::inherit(),
            _ => Stdio::null(),
        })
    }
}

pub(super) async fn run(words: &[String], directory: Option<&Path>, input: Input) -> io::Result<ExitCode> {
    let words = if input.tty { [&IN_TERMINAL.map(str::to_owned), words].concat() } else { words.to_vec() };
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (mut terminate, mut ended) = (signal(SignalKind::terminate())?, signal(SignalKind::child())?);
    let mut command = Command::new(program);
    command.args(arguments).stdin(input.open()?).current_dir(directory.unwrap_or(Path::new("/")));
    let child = command.spawn().map_err(|error| io::Error::other(format!("{program}: {error}")))?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    loop {
        if let Some(code) = reap(child)? {
            return Ok(ExitCode::from(code));
        }
        tokio::select! {
            _ = ended.recv() => {}
            _ = terminate.recv() => drop(kill_process(child, Signal::TERM)),
        }
    }
}

/// Collects whoever has ended; the exit code once the child itself is among them.
fn reap(child: Pid) -> io::Result<Option<u8>> {
    let mut code = None;
    while let Some((id, status)) = next_ended()? {
        if id == child {
            code = Some(exit_code(status));
        }
        if code.is_some() {
            break;
        }
    }
    Ok(code)
}

fn next_ended() -> io::Result<Option<(Pid, WaitStatus)>> {
    match wait(WaitOptions::NOHANG) {
        Err(rustix::io::Errno::CHILD) => Ok(None),
        other => Ok(other?),
    }
}

fn exit_code(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}
