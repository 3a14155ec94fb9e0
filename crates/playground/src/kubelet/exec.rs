//! A further command in a container, with its streams. Threads carry the bytes: pipes and terminals are just files to them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::sync::{mpsc, oneshot};
use tombolo_apiserver::{ExecOptions, Output, Session};

use super::container::Door;

/// Chunks that may wait on the way; whoever sends more waits, too.
const WAITING: usize = 16;

/// Before a command: makes its terminal the one that controls it.
pub(crate) const IN_TERMINAL: [&str; 3] = ["setsid", "--ctty", "--wait"];

/// The ends of a command's streams that stay here.
struct Ends {
    stdin: Option<File>,
    outputs: Vec<(Output, File)>,
    terminal: Option<Arc<OwnedFd>>,
}

/// Runs a command in a container. What is still in its streams when it ends is told before the end is.
pub(super) fn start(door: Door, options: ExecOptions) -> io::Result<Session> {
    let (ends, prepare, command) = if options.tty { terminal(options)? } else { pipes(options)? };
    let (stdin, typed) = mpsc::channel::<Bytes>(WAITING);
    let (said, output) = mpsc::channel(WAITING);
    let (resize, sizes) = mpsc::channel(WAITING);
    let (tell, ended) = oneshot::channel();
    if let Some(file) = ends.stdin {
        spawn(move || write_all(file, typed))?;
    }
    for (stream, file) in ends.outputs {
        let said = said.clone();
        spawn(move || read_all(file, stream, &said))?;
    }
    if let Some(terminal) = ends.terminal {
        spawn(move || follow_size(&terminal, sizes))?;
    }
    tokio::spawn(async move {
        let ended = door.run(command, prepare).await;
        let _ = tell
            .send(ended.map(|ended| ended.code).map_err(|error| format!("cannot run the command: {error}")));
    });
    Ok(Session { stdin, resize, output, ended })
}

type Prepare = Box<dyn FnOnce(&mut Command) + Send>;

fn pipes(options: ExecOptions) -> io::Result<(Ends, Prepare, Vec<String>)> {
    let (their_in, our_in) = io::pipe()?;
    let (our_out, their_out) = io::pipe()?;
    let (our_err, their_err) = io::pipe()?;
    let stdin = options.stdin.then(|| File::from(OwnedFd::from(our_in)));
    let prepare = move |command: &mut Command| {
        // Without a writer it is at its end at once.
        command.stdin(their_in).stdout(their_out).stderr(their_err);
    };
    let outputs = vec![
        (Output::Stdout, File::from(OwnedFd::from(our_out))),
        (Output::Stderr, File::from(OwnedFd::from(our_err))),
    ];
    Ok((Ends { stdin, outputs, terminal: None }, Box::new(prepare), options.command))
}

/// Both ends of a new terminal: the one that a person would sit at, and the one that a program has.
pub(super) fn open_terminal() -> io::Result<(OwnedFd, File)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let path = ptsname(&ours, Vec::new())?.to_string_lossy().into_owned();
    Ok((ours, File::options().read(true).write(true).open(path)?))
}

/// A terminal of its own. `setsid` makes it the one that controls the command, so that Ctrl-C works.
fn terminal(options: ExecOptions) -> io::Result<(Ends, Prepare, Vec<String>)> {
    let (ours, theirs) = open_terminal()?;
    let copies = (theirs.try_clone()?, theirs.try_clone()?);
    let prepare = move |command: &mut Command| {
        command.stdin(theirs).stdout(copies.0).stderr(copies.1).env("TERM", "xterm");
    };
    let command = IN_TERMINAL.map(str::to_owned).into_iter().chain(options.command);
    let ends = Ends {
        stdin: Some(File::from(ours.try_clone()?)),
        outputs: vec![(Output::Stdout, File::from(ours.try_clone()?))],
        terminal: Some(Arc::new(ours)),
    };
    Ok((ends, Box::new(prepare), command.collect()))
}

fn spawn(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("exec stream".to_owned()).spawn(body).map(drop)
}

fn write_all(mut file: File, mut typed: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = typed.blocking_recv() {
        if file.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// A terminal that nobody has open any more gives an error, which is its end.
fn read_all(mut file: File, stream: Output, said: &mpsc::Sender<(Output, Bytes)>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        if said.blocking_send((stream, Bytes::copy_from_slice(&buffer[..count]))).is_err() {
            return;
        }
    }
}

pub(super) fn follow_size(terminal: &OwnedFd, mut sizes: mpsc::Receiver<(u16, u16)>) {
    while let Some((width, height)) = sizes.blocking_recv() {
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = tcsetwinsize(terminal, size);
    }
}
