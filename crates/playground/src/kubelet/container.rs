//! The process of a container, from the outside.
//!
//! It is started by a thread of its own that stands in the pod's network namespace and has left the process namespace, so
//! the child is the first process of a new one: when it goes, all its descendants go. The thread stays until then, because
//! the child asks the kernel to be killed when the thread that made it ends, and so dies with the playground.

use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

use super::exec::open_terminal;
use super::input::Input;
use super::launch::Launch;
use super::log::Log;
use crate::inside::SUBCOMMAND;
use crate::namespace::Namespace;
use crate::unshare::unshare;

/// How long something in a pod may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// A container that was started; dropped, it is killed.
pub(crate) struct Container {
    process: Arc<OwnedFd>,
    ended: watch::Receiver<Option<Ended>>,
    launch: Launch,
    input: Input,
    log: Arc<Log>,
}

/// What a process that was started leaves in our hands.
struct Started {
    process: OwnedFd,
    output: Output,
    input: Input,
}

/// Where a container speaks.
enum Output {
    Pipe(PipeReader),
    Terminal(File),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) at: Timestamp,
}

impl Ended {
    fn now(status: ExitStatus) -> Self {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Self { code, at: Timestamp::now() }
    }
}

impl Container {
    /// Starts a container in a network. What it says goes into `log`; the caller's runtime reads it.
    pub(crate) async fn start(launch: Launch, network: &Namespace, log: Arc<Log>) -> io::Result<Self> {
        let (started, begun) = oneshot::channel();
        let (tell, ended) = watch::channel(None);
        let (network, spec) = (network.clone(), launch.clone());
        let body = move || match spawn(&network, &spec) {
            Ok((mut child, begun)) => {
                let _ = started.send(Ok(begun));
                let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(255 << 8));
                tell.send_replace(Some(Ended::now(status)));
            }
            Err(error) => drop(started.send(Err(error))),
        };
        thread::Builder::new().name("container".to_owned()).spawn(body)?;
        let Started { process, output, input } = begun.await.map_err(io::Error::other)??;
        let heard = log.clone();
        match output {
            Output::Pipe(end) => {
                tokio::spawn(read_output(pipe::Receiver::from_owned_fd(end.into())?, heard));
            }
            Output::Terminal(end) => {
                thread::Builder::new()
                    .name("terminal".to_owned())
                    .spawn(move || read_terminal(end, &heard))?;
            }
        }
        Ok(Self { process: Arc::new(process), ended, launch, input, log })
    }

    /// What can be said to it.
    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    /// What it says.
    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let found = ended.wait_for(Option::is_some).await.ok().and_then(|found| *found);
        found.unwrap_or(Ended { code: 255, at: Timestamp::now() })
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let _ = pidfd_send_signal(&self.process, Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// What runs a further command in the container.
    pub(crate) fn door(&self) -> Door {
        Door { process: self.process.clone(), launch: self.launch.clone() }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The way into a container that runs.
#[derive(Clone)]
pub(crate) struct Door {
    process: Arc<OwnedFd>,
    launch: Launch,
}

impl Door {
    /// Runs a command inside, with the streams that `prepare` gives it, and waits for its end. When nobody waits any more, it
    /// is killed.
    pub(crate) async fn run(
        &self,
        command: Vec<String>,
        prepare: impl FnOnce(&mut Command) + Send + 'static,
    ) -> io::Result<Ended> {
        let (tell, ended) = oneshot::channel();
        let mut errand = Errand { ended, process: Arc::default() };
        let (door, process) = (self.clone(), errand.process.clone());
        let body = move || {
            let begun = |child: &mut Child| {
                let _ = open(child).map(|handle| process.set(handle));
                if tell.is_closed() {
                    let _ = child.kill();
                }
            };
            let ended = door.run_here(&command, prepare, begun);
            let _ = tell.send(ended);
        };
        thread::Builder::new().name("exec".to_owned()).spawn(body)?;
        (&mut errand.ended).await.map_err(io::Error::other)?
    }

    /// A connection to a port of the pod, from within.
    pub(crate) async fn connect(&self, port: u16) -> io::Result<tokio::net::TcpStream> {
        let (tell, connected) = oneshot::channel();
        let process = self.process.clone();
        let body = move || {
            let _ = tell.send(connect_here(&process, port));
        };
        thread::Builder::new().name("port-forward".to_owned()).spawn(body)?;
        let stream = connected.await.map_err(io::Error::other)??;
        stream.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(stream)
    }

    fn run_here(
        &self,
        command: &[String],
        prepare: impl FnOnce(&mut Command),
        begun: impl FnOnce(&mut Child),
    ) -> io::Result<Ended> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        // A thread that shares its working directory with others cannot change its view of the file system.
        unshare(UnshareFlags::FS)?;
        let spaces = ThreadNameSpaceType::NETWORK
            | ThreadNameSpaceType::PROCESS_ID
            | ThreadNameSpaceType::MOUNT
            | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
        move_into_thread_name_spaces(self.process.as_fd(), spaces)?;
        let mut run = Command::new(program);
        run.args(arguments).env_clear().envs(&self.launch.environment);
        if let Some(directory) = &self.launch.working_directory {
            run.current_dir(directory);
        }
        prepare(&mut run);
        let mut child = run.spawn()?;
        begun(&mut child);
        // Whoever holds the other ends of the streams waits for these to be closed.
        drop(run);
        child.wait().map(Ended::now)
    }
}

/// A command that somebody waits for.
struct Errand {
    ended: oneshot::Receiver<io::Result<Ended>>,
    /// Once it has begun.
    process: Arc<OnceLock<OwnedFd>>,
}

impl Drop for Errand {
    fn drop(&mut self) {
        // In this order: a command that begins in between finds that nobody waits for it.
        self.ended.close();
        if let Some(process) = self.process.get() {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// Moves the calling thread into the network of a process and connects there. A socket stays where it was made.
fn connect_here(process: &OwnedFd, port: u16) -> io::Result<TcpStream> {
    move_into_thread_name_spaces(process.as_fd(), ThreadNameSpaceType::NETWORK)?;
    TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), CONNECT)
}

fn spawn(network: &Namespace, launch: &Launch) -> io::Result<(Child, Started)> {
    network.enter()?;
    unshare(UnshareFlags::NEWPID)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tombolo").arg(SUBCOMMAND).env_clear().envs(&launch.environment).stdin(Stdio::piped());
    let (output, terminal) = if launch.tty {
        let (ours, theirs) = open_terminal()?;
        command.stdout(theirs.try_clone()?).stderr(theirs);
        (Output::Terminal(File::from(ours.try_clone()?)), Some(ours))
    } else {
        let (output, end) = io::pipe()?;
        command.stdout(end.try_clone()?).stderr(end);
        (Output::Pipe(output), None)
    };
    let mut child = command.spawn()?;
    let process = open(&child)?;
    let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut pipe = File::from(OwnedFd::from(pipe));
    launch.send(&mut pipe)?;
    Ok((child, Started { process, output, input: Input::new(pipe, terminal, launch.input) }))
}

/// A handle that never means another process.
fn open(child: &Child) -> io::Result<OwnedFd> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_open(id, PidfdFlags::empty())?)
}

/// A terminal that nobody has open any more gives an error, which is its end.
fn read_terminal(mut output: File, log: &Log) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        log.write(&buffer[..count], Timestamp::now());
    }
    log.close(Timestamp::now());
}

async fn read_output(mut output: pipe::Receiver, log: Arc<Log>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = output.read(&mut buffer).await {
        log.write(&buffer[..count], Timestamp::now());
    }
    log.close(Timestamp::now());
}
