//! A server as a process, with its log.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Doing as _, Error};

/// How much of a log is told when its program ends by itself.
const TAIL: u64 = 4000;

/// A program that runs; dropped, it is killed. It also ends with the thread that started it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it says goes to a file of that name in `folder`.
    pub fn start<S: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
        folder: &Path,
    ) -> Result<Self, Error> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = folder.join(format!("{name}.log"));
        let what = || format!("{} cannot be started", program.display());
        let output = File::create(&log).doing(what())?;
        // setpriv becomes the program; it has the kernel end it with us, which needs code after the fork.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone().doing(what())?)
            .stderr(output)
            .spawn()
            .doing(what())?;
        Ok(Self { name, child, log })
    }

    /// An error if it has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(Error::Ended { program: self.name.clone(), said: self.said() }),
        }
    }

    /// The end of what it said.
    pub fn said(&self) -> String {
        let read = || {
            let mut file = File::open(&self.log)?;
            let length = file.seek(SeekFrom::End(0))?;
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_else(|error| format!("(its log cannot be read: {error})"))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its number, for those who send it signals.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, in the middle of whatever it does, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
