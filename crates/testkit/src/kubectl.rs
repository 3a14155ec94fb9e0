//! The real kubectl as a client: a child process in a home of its own.
//!
//! Nothing of the person who runs the tests is read or written: environment, kubeconfig, caches and temporary files are
//! those of a fresh directory that goes away with the last clone. A command that does not end is killed and reported.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Much longer than any command takes; what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// It lives for a moment, a fifth of which it would spend on collecting garbage; one that lives longer has to in the end.
const HASTE: [(&str, &str); 2] = [("GOGC", "off"), ("GOMEMLIMIT", "256MiB")];

/// The oldest kubectl that knows all the commands and flags used here.
const OLDEST: u64 = 31;
const REMEDY: &str = "install the Debian package `kubernetes-client` of Debian 13 or newer, or any other kubectl from \
    1.31 on, or run the test set-up script, which does it";

/// kubectl with its home; clones share it.
#[derive(Clone, Debug)]
pub struct Kubectl {
    home: Arc<Home>,
    before: Vec<String>,
    environment: Vec<(String, String)>,
}

/// A directory that is removed when nobody needs it any more.
#[derive(Debug)]
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Kubectl {
    /// A kubectl that has never spoken to any cluster. Its kubeconfig is the file `kubeconfig` in [`Self::home`].
    ///
    /// Panics with what to install when there is no kubectl: a test that cannot run has failed.
    pub fn new() -> Self {
        // Once per process is enough: the answer is about the machine.
        static USABLE: LazyLock<Result<(), String>> = LazyLock::new(usable);
        if let Err(why) = &*USABLE {
            panic!("{why}, and these tests need the real one: {REMEDY}");
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tombolo-kubectl-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let home = std::env::temp_dir().join(name);
        std::fs::create_dir(&home).expect("a fresh directory for kubectl");
        Self { home: Arc::new(Home(home)), before: Vec::new(), environment: Vec::new() }
    }

    /// Where commands run, so that a manifest is found by its bare name.
    pub fn home(&self) -> &Path {
        &self.home.0
    }

    /// Writes a file into the home.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.home().join(name);
        std::fs::write(&path, content).expect("a file in kubectl's home");
        path
    }

    /// The same home, with `option` before every command, such as `--context=member2`.
    pub fn with(&self, option: &str) -> Self {
        let mut other = self.clone();
        other.before.push(option.to_owned());
        other
    }

    /// The same home, with one more environment variable.
    pub fn env(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.environment.push((name.to_owned(), value.to_owned()));
        other
    }

    /// Runs a command line, such as `get services -o 'jsonpath={.items[*].metadata.name}'`, to its end.
    #[track_caller]
    pub fn run(&self, line: &str) -> Outcome {
        self.feed(line, "")
    }

    /// Runs a command line that reads `input`, such as `apply -f -`.
    #[track_caller]
    pub fn feed(&self, line: &str, input: &str) -> Outcome {
        let mut running = self.launch(line);
        let mut stdin = running.child.stdin.take().expect("a pipe");
        // A command may end without reading; that is for its exit code to say.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        running.finish()
    }

    /// Starts a command line and leaves it running, such as `get services -w`.
    #[track_caller]
    pub fn start(&self, line: &str) -> Running {
        let mut running = self.launch(line);
        drop(running.child.stdin.take());
        running
    }

    /// Starts a command line that watches, such as `wait`, and returns once the server has accepted its watch: changes
    /// from then on are seen.
    #[track_caller]
    pub fn start_watching(&self, line: &str) -> Running {
        let mut running = self.start(&format!("{line} -v=6"));
        running.await_complaint("watch=true");
        running
    }

    #[track_caller]
    fn launch(&self, line: &str) -> Running {
        let mut child = Command::new("kubectl")
            .args(&self.before)
            .args(words(line))
            .current_dir(self.home())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TMPDIR", self.home())
            .env("KUBECACHEDIR", self.home().join("cache"))
            .env("KUBECONFIG", self.home().join("kubeconfig"))
            .env("LC_ALL", "C")
            .envs(HASTE)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let lines = follow(child.stdout.take().expect("a pipe"));
        let complaints = follow(child.stderr.take().expect("a pipe"));
        Running {
            line: line.to_owned(),
            child,
            lines,
            complaints,
            stdout: String::new(),
            stderr: String::new(),
        }
    }
}

impl Default for Kubectl {
    fn default() -> Self {
        Self::new()
    }
}

/// A command that has not ended yet; dropping it kills it.
#[derive(Debug)]
pub struct Running {
    line: String,
    child: Child,
    lines: mpsc::Receiver<String>,
    complaints: mpsc::Receiver<String>,
    stdout: String,
    stderr: String,
}

impl Running {
    /// The next line of standard output, without its end.
    #[track_caller]
    pub fn next_line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.stdout += &line;
                line.trim_end().to_owned()
            }
            Err(cause) => self.give_up(&format!("no further line: {cause}")),
        }
    }

    /// The next line is a table's row with these cells; a cell `*` may be anything.
    #[track_caller]
    pub fn next_is(&mut self, expected: &str) {
        let row = self.next_line();
        if !row_is(&row, expected) {
            self.give_up(&format!("expected the row {expected:?}, not {row:?}"));
        }
    }

    /// Waits for the end by itself.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        while let Some(line) = self.line_before(deadline) {
            self.stdout += &line;
        }
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(cause) => self.give_up(&format!("its end could not be seen: {cause}")),
        };
        self.stderr.extend(self.complaints.iter());
        let [line, stdout, stderr] = [&mut self.line, &mut self.stdout, &mut self.stderr].map(std::mem::take);
        Outcome { line, status, stdout, stderr }
    }

    #[track_caller]
    fn await_complaint(&mut self, part: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.stderr.contains(part) {
            match self.complaints.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.stderr += &line,
                Err(cause) => self.give_up(&format!("it never said {part:?}: {cause}")),
            }
        }
    }

    #[track_caller]
    fn line_before(&mut self, deadline: Instant) -> Option<String> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => self.give_up("it did not end"),
        }
    }

    #[track_caller]
    fn give_up(&mut self, why: &str) -> ! {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stderr.extend(self.complaints.try_iter());
        panic!("kubectl {}: {why}\n--- stdout\n{}--- stderr\n{}---", self.line, self.stdout, self.stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a command ended and what it printed.
#[derive(Debug)]
pub struct Outcome {
    line: String,
    status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// It ended with 0; gives what it printed, without the last line's end.
    #[track_caller]
    pub fn succeeds(&self) -> &str {
        assert_eq!(self.code(), Some(0), "{self}");
        self.stdout.trim_end()
    }

    /// It ended with 0 and printed exactly this, give or take the last line's end.
    #[track_caller]
    pub fn prints(&self, text: &str) {
        assert_eq!(self.succeeds(), text, "{self}");
    }

    /// It ended with 0 and what it printed contains all of these.
    #[track_caller]
    pub fn shows(&self, parts: &[&str]) -> &Self {
        let stdout = self.succeeds();
        for part in parts {
            assert!(stdout.contains(part), "{part:?} is not in the output\n{self}");
        }
        self
    }

    /// It ended with 0 and what it printed contains all of these, however many blanks and line ends separate the words.
    #[track_caller]
    pub fn mentions(&self, parts: &[&str]) -> &Self {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let stdout = words(self.succeeds());
        for part in parts {
            assert!(stdout.contains(&words(part)), "{part:?} is not in the output\n{self}");
        }
        self
    }

    /// It ended with 0 and printed a table whose cells, line by line, are these; a cell `*` may be anything.
    #[track_caller]
    pub fn tabulates(&self, expected: &[&str]) -> &Self {
        let rows: Vec<&str> = self.succeeds().lines().collect();
        assert_eq!(rows.len(), expected.len(), "as many lines as expected\n{self}");
        for (row, expected) in rows.iter().zip(expected) {
            assert!(row_is(row, expected), "expected the row {expected:?}, not {row:?}\n{self}");
        }
        self
    }

    /// It ended with `code` and what it said on standard error contains all of these.
    #[track_caller]
    pub fn fails(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code(), Some(code), "{self}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in the errors\n{self}");
        }
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.succeeds()).unwrap_or_else(|cause| panic!("not JSON: {cause}\n{self}"))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "kubectl {} ended with {}", self.line, self.status)?;
        write!(formatter, "--- stdout\n{}--- stderr\n{}---", self.stdout, self.stderr)
    }
}

/// Whether the cells of a table's row are these, where `*` stands for any cell.
fn row_is(row: &str, expected: &str) -> bool {
    let cells: Vec<&str> = row.split_whitespace().collect();
    let expected: Vec<&str> = expected.split_whitespace().collect();
    cells.len() == expected.len()
        && cells.iter().zip(&expected).all(|(cell, want)| *want == "*" || cell == want)
}

/// The words of a command line: blanks separate them, single quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    assert!(!quoted, "a quote is open in {line:?}");
    words.extend(word);
    words
}

/// Whether there is a kubectl, and new enough.
fn usable() -> Result<(), String> {
    let asked =
        Command::new("kubectl").args(["version", "--client", "-o", "json"]).stdin(Stdio::null()).output();
    let output = asked.map_err(|cause| format!("kubectl cannot be run ({cause})"))?;
    new_enough(&output.stdout)
}

fn new_enough(version: &[u8]) -> Result<(), String> {
    let version: serde_json::Value = serde_json::from_slice(version)
        .map_err(|cause| format!("kubectl does not tell its version ({cause})"))?;
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default().trim_end_matches('+');
    match minor.parse::<u64>() {
        Ok(minor) if minor >= OLDEST => Ok(()),
        _ => Err(format!("the kubectl on PATH is 1.{minor}, which is too old")),
    }
}

/// The lines of a pipe, read by a thread that ends with the pipe.
fn follow(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            if sender.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_a_word_together() {
        let cases: [(&str, &[&str]); 5] = [
            ("get svc", &["get", "svc"]),
            ("  get   svc ", &["get", "svc"]),
            ("patch x -p '{\"a\": 1}'", &["patch", "x", "-p", "{\"a\": 1}"]),
            ("-o jsonpath='{.a} {.b}'", &["-o", "jsonpath={.a} {.b}"]),
            ("label x ''", &["label", "x", ""]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn an_old_or_broken_kubectl_is_not_used() {
        let version = |minor: &str| format!(r#"{{"clientVersion":{{"major":"1","minor":"{minor}"}}}}"#);
        for (minor, usable) in
            [("20", false), ("30", false), ("31", true), ("32+", true), ("37", true), ("", false)]
        {
            assert_eq!(new_enough(version(minor).as_bytes()).is_ok(), usable, "{minor}");
        }
        assert!(new_enough(b"nonsense").is_err());
    }

    #[test]
    fn a_star_stands_for_any_cell_but_not_for_none() {
        assert!(row_is("web   1/1  3s", "web 1/1 *"));
        assert!(!row_is("web   1/1", "web 1/1 *"));
        assert!(!row_is("web   0/1  3s", "web 1/1 *"));
    }
}
