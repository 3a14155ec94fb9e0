//! The process of a container, from the inside.
//!
//! It is this very program, called again: the first process of its process namespace. It hides the computer's `/proc`, name
//! and way to find names behind the pod's, and then is one of the built-in servers, or runs a command and looks after its
//! orphans.

mod command;
mod curl;
mod echo;
mod load;
mod netexec;
mod server;
mod socat;

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

use crate::kubelet::{Launch, Listening, Names, Program};
use crate::unshare::unshare;

/// How long echo goes on after it was told to end: proxies of other clusters take a moment to hear of it.
const ECHO_DRAIN: Duration = Duration::from_secs(1);

/// How the program is called to be a container.
pub const SUBCOMMAND: &str = "inside-container";

/// What else the program is, by the name under which it is called; nothing if it is itself.
pub fn become_tool() -> Option<ExitCode> {
    let mut words = std::env::args();
    let called = words.next()?;
    (called.rsplit('/').next() == Some(curl::NAME)).then(|| curl::run(&words.collect::<Vec<_>>()))
}

/// Puts the tools that this computer may lack where containers find them.
pub(crate) fn provide_tools(directory: &std::path::Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let tool = directory.join(curl::NAME);
    let _ = std::fs::remove_file(&tool);
    std::os::unix::fs::symlink(std::env::current_exe()?, tool)
}

/// Becomes the container that standard input tells about. Must be called before any other thread exists.
pub fn become_container() -> ExitCode {
    match prepare() {
        Ok(launch) => run(launch),
        Err(error) => complain(&format!("the container cannot be prepared: {error}")),
    }
}

#[expect(clippy::print_stderr, reason = "this is the container's log")]
fn complain(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(128)
}

fn prepare() -> io::Result<Launch> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let stdin = io::stdin();
    // Not through the buffer of standard input: what follows is for the container.
    let mut pipe = File::from(stdin.as_fd().try_clone_to_owned()?);
    let launch = Launch::receive(&mut pipe)?;
    // A parent that went before the kernel knew what to do then has closed its end. So has one that has said everything.
    let mut lifeline = [PollFd::new(&stdin, PollFlags::empty())];
    poll(&mut lifeline, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if launch.input != Listening::Once && lifeline[0].revents().contains(PollFlags::HUP) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWUTS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    rustix::system::sethostname(launch.identity.pod.as_bytes())?;
    // Within a user namespace inside a container this may be refused; then `ps` tells too much, and all else works.
    let _ = mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None);
    for (file, place) in launch.names.iter().flat_map(Names::places) {
        mount_bind(file, std::fs::canonicalize(place)?)?;
    }
    Ok(launch)
}

fn run(launch: Launch) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return complain(&format!("there is no runtime: {error}")),
    };
    let directory = launch.working_directory;
    let outcome = runtime.block_on(async {
        match launch.program {
            Program::Echo(arguments) => {
                let drain = seconds(&arguments, "drain", ECHO_DRAIN)?;
                until_told(echo::run(launch.identity, &arguments), drain).await
            }
            Program::Load(arguments) => until_told(load::run(&arguments), Duration::ZERO).await,
            Program::Netexec(arguments) => {
                until_told(netexec::run(launch.identity, &arguments), Duration::ZERO).await
            }
            Program::Socat(arguments) => until_told(socat::run(&arguments), Duration::ZERO).await,
            Program::Idle => until_told(std::future::pending(), Duration::ZERO).await,
            Program::Command(words) => {
                let input = command::Input { listening: launch.input != Listening::No, tty: launch.tty };
                command::run(&words, directory.as_deref(), input).await
            }
        }
    });
    outcome.unwrap_or_else(|error| complain(&error.to_string()))
}

/// Runs a built-in server until it fails or is asked to end; then it goes on for a while, since not everybody has heard yet.
async fn until_told(server: impl Future<Output = io::Result<()>>, drain: Duration) -> io::Result<ExitCode> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let told = async {
        terminate.recv().await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        outcome = server => outcome.map(|()| ExitCode::SUCCESS),
        () = told => Ok(ExitCode::SUCCESS),
    }
}

/// The span that an option gives in seconds, or the usual one.
fn seconds(arguments: &[String], name: &str, usual: Duration) -> io::Result<Duration> {
    let Some(text) = option(arguments, name) else { return Ok(usual) };
    let number = text.parse().ok().and_then(|number| Duration::try_from_secs_f32(number).ok());
    number.ok_or_else(|| io::Error::other(format!("--{name}: {text:?} is no number of seconds")))
}

/// The value of `--NAME VALUE` or `--NAME=VALUE`, the last one given.
fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let flag = format!("--{name}");
    let pairs = arguments.iter().zip(arguments.iter().skip(1).map(Some).chain([None]));
    let values = pairs.filter_map(|(word, next)| match word.strip_prefix(&flag)? {
        "" => next.map(String::as_str),
        rest => rest.strip_prefix('='),
    });
    values.last()
}

/// The port that an option gives, or the usual one.
fn port(arguments: &[String], name: &str, usual: u16) -> io::Result<u16> {
    let Some(text) = option(arguments, name) else { return Ok(usual) };
    text.parse().map_err(|_| io::Error::other(format!("--{name}: {text:?} is no port")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_both_spellings_and_the_last_counts() {
        let cases = [
            ("--http 80", Some("80")),
            ("--http=80", Some("80")),
            ("--http=80 --http 81", Some("81")),
            ("--http", None),
            ("--https=1", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            assert_eq!(option(&words, "http"), expected, "{text}");
        }
        assert_eq!(port(&[], "http", 8080).unwrap(), 8080);
        assert!(port(&["--http=many".to_owned()], "http", 8080).is_err());
    }
}
