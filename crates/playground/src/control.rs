//! How a running playground is asked: one line of JSON each way over a socket in its directory.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tombolo_runtime::with_causes;

use crate::directory::Directory;
use crate::error::{Doing as _, Error};
use crate::inquiry::Inquiry;

const SOCKET: &str = "control.sock";
/// Longer than any request.
const MOST_BYTES: u64 = 4096;
/// Who connects says at once what is wanted.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a playground can be asked.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// End. The connection is closed when nothing is left.
    Stop,
    /// Break something, or make it whole again.
    Fault(Fault),
    /// Find something out. The answer is JSON.
    Inquire(Inquiry),
}

/// What can be broken.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// Cut the link of a member or of the hub.
    Partition(String),
    /// Undo whatever was done to a member, a node (`member/node`) or the hub.
    Heal(String),
    /// End everything on a node, `member/node`, and cut its link.
    KillNode(String),
    /// End the API server of a member or of the hub. Its data stays.
    KillApiserver(String),
    /// Let everything that leaves a member or the hub wait for so many milliseconds.
    Slow(String, u64),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reply {
    Done(String),
    Refused(String),
}

/// Asks the playground of a directory and returns what it said. For [`Request::Stop`]: after its end.
pub fn ask(directory: &Directory, request: &Request) -> Result<String, Error> {
    let cannot = format!("no playground runs in {}", directory.path().display());
    let mut stream = connect(directory).doing(&cannot)?;
    let lost = "the playground did not answer";
    let mut line = serde_json::to_vec(request).doing(lost)?;
    line.push(b'\n');
    stream.write_all(&line).doing(lost)?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    reader.read_line(&mut answer).doing(lost)?;
    let reply: Reply = serde_json::from_str(&answer).doing(lost)?;
    if *request == Request::Stop {
        let _ = reader.read_to_end(&mut Vec::new());
    }
    match reply {
        Reply::Done(said) => Ok(said),
        Reply::Refused(why) => Err(Error::new(why)),
    }
}

fn connect(directory: &Directory) -> io::Result<UnixStream> {
    let (_open, path) = reach(directory)?;
    UnixStream::connect(path)
}

/// The socket by a short path, since the kernel takes no long ones, however deep the directory is.
fn reach(directory: &Directory) -> io::Result<(File, PathBuf)> {
    let open = File::open(directory.path())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())).join(SOCKET);
    Ok((open, path))
}

/// The listening end.
pub(crate) struct Control {
    listener: UnixListener,
    directory: Directory,
}

/// Somebody who asked and waits for the answer.
pub(crate) struct Asker {
    stream: tokio::net::UnixStream,
}

impl Control {
    /// Takes the directory for this process. Refuses when another playground has it.
    pub(crate) fn open(directory: &Directory) -> Result<Self, Error> {
        if connect(directory).is_ok() {
            let path = directory.path().display();
            return Err(Error::new(format!("a playground runs in {path} already")));
        }
        let cannot = format!("cannot listen in {}", directory.path().display());
        let (_open, path) = reach(directory).doing(&cannot)?;
        // What a playground left that was killed.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(path).doing(&cannot)?;
        Ok(Self { listener, directory: directory.clone() })
    }

    /// The next request. Who says nothing sensible is sent away.
    pub(crate) async fn next(&self) -> (Request, Asker) {
        loop {
            match self.listener.accept().await {
                Ok((mut stream, _)) => {
                    if let Ok(Some(request)) = tokio::time::timeout(PATIENCE, read(&mut stream)).await {
                        return (request, Asker { stream });
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a request could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.directory.path().join(SOCKET));
    }
}

async fn read(stream: &mut tokio::net::UnixStream) -> Option<Request> {
    let mut line = String::new();
    tokio::io::BufReader::new(stream.take(MOST_BYTES)).read_line(&mut line).await.ok()?;
    serde_json::from_str(&line).ok()
}

impl Asker {
    /// Answers. The connection stays open until the returned value goes.
    pub(crate) async fn answer(mut self, reply: Result<String, Error>) -> Self {
        let reply = match reply {
            Ok(said) => Reply::Done(said),
            Err(error) => Reply::Refused(with_causes(&error)),
        };
        let mut line = serde_json::to_vec(&reply).unwrap_or_default();
        line.push(b'\n');
        let _ = self.stream.write_all(&line).await;
        self
    }
}
