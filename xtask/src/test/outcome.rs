//! What came of tests, read from what `cargo test` prints while a person reads it, too.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;

type Failure = Box<dyn std::error::Error>;

/// What came of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// It passed, but these servers do not let it check all: what it did not.
    PassedBut(String),
    Failed,
    /// It asks for more than a run gives it.
    Ignored,
    /// These servers cannot do what it needs.
    LeftOut(String),
}

/// What came of many, by program and test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes(BTreeMap<(String, String), Verdict>);

impl Outcomes {
    pub(crate) fn set(&mut self, program: &str, test: &str, verdict: Verdict) {
        self.0.insert((program.to_owned(), test.to_owned()), verdict);
    }

    pub(crate) fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn get(&self, program: &str, test: &str) -> Option<&Verdict> {
        self.0.get(&(program.to_owned(), test.to_owned()))
    }

    /// The tests of a program, with what came of them.
    pub(crate) fn of<'a>(&'a self, program: &'a str) -> impl Iterator<Item = (&'a str, &'a Verdict)> {
        let own = self.0.iter().filter(move |((other, _), _)| other == program);
        own.map(|((_, test), verdict)| (test.as_str(), verdict))
    }

    /// Those that could not run, as `program: test (why)`.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let told = |((program, test), verdict): (&(String, String), &Verdict)| match verdict {
            Verdict::LeftOut(why) => Some(format!("{program}: {test} ({why})")),
            _ => None,
        };
        self.0.iter().filter_map(told).collect()
    }

    /// Those that passed and did not check all, as `program: test (what not)`.
    pub(crate) fn relaxed(&self) -> Vec<String> {
        let told = |((program, test), verdict): (&(String, String), &Verdict)| match verdict {
            Verdict::PassedBut(what) => Some(format!("{program}: {test} ({what})")),
            _ => None,
        };
        self.0.iter().filter_map(told).collect()
    }

    pub(crate) fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.0.values().filter(|verdict| is(verdict)).count()
    }

    /// Takes note of tests that ended at once (`left out`) or checked less than elsewhere (`relaxed`), each with its name as
    /// `program::test`, and why; tabs are in between.
    fn note(&mut self, list: &str) {
        for line in list.lines() {
            let mut words = line.splitn(3, '\t');
            let (Some(kind), Some(test), Some(why)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Some((program, test)) = test.split_once("::") else { continue };
            match (kind, self.get(program, test)) {
                ("left out", _) => self.set(program, test, Verdict::LeftOut(why.to_owned())),
                ("relaxed", Some(Verdict::Passed)) => {
                    self.set(program, test, Verdict::PassedBut(why.to_owned()));
                }
                ("relaxed", Some(Verdict::PassedBut(already))) => {
                    let both = format!("{already}; {why}");
                    self.set(program, test, Verdict::PassedBut(both));
                }
                _ => {}
            }
        }
    }

    /// Takes note of a line that `cargo test` prints; `program` is the one that runs.
    fn read(&mut self, program: &mut String, line: &str) {
        if let Some(started) = started(line) {
            *program = started;
        } else if let Some((test, verdict)) = ended(line) {
            self.set(program, test, verdict);
        }
    }
}

/// `Running tests/leader.rs (target/debug/deps/leader-0123456789abcdef)`
fn started(line: &str) -> Option<String> {
    let (_, path) = line.trim_start().strip_prefix("Running ")?.rsplit_once('(')?;
    let file = path.trim_end().trim_end_matches(')').rsplit('/').next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned())
}

/// `test module::name ... ok`
fn ended(line: &str) -> Option<(&str, Verdict)> {
    let (test, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let verdict = match outcome.split([',', ' ']).next()? {
        "ok" => Verdict::Passed,
        "FAILED" => Verdict::Failed,
        "ignored" => Verdict::Ignored,
        _ => return None,
    };
    Some((test.split(" - ").next().unwrap_or(test), verdict))
}

/// Runs `cargo test`, or the tests of one `program`, lets a person read what is said, and reads along. Says whether it ended
/// well. Every line begins with the name of the program, if there is one: others may run at the same time.
pub(crate) fn follow(mut command: Command, program: &str) -> Result<(bool, Outcomes), Failure> {
    let left_out = std::env::temp_dir().join(format!("tombolo-left-out-{}-{program}", std::process::id()));
    let label = if program.is_empty() { String::new() } else { format!("{program} | ") };
    command.env("TOMBOLO_TEST_LEFT_OUT", &left_out);
    // One pipe for both, so that lines come in the order in which they were written.
    let (reader, writer) = std::io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the other end, too; the pipe ends when nobody does.
    drop(command);
    let (mut outcomes, mut program) = (Outcomes::default(), program.to_owned());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        outcomes.read(&mut program, &line);
        writeln!(std::io::stdout(), "{label}{line}")?;
    }
    let list = std::fs::read_to_string(&left_out).unwrap_or_default();
    outcomes.note(&list);
    let _ = std::fs::remove_file(&left_out);
    Ok((child.wait()?.success(), outcomes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_from_what_cargo_prints() {
        let printed = "\
     Running unittests src/main.rs (/target/debug/deps/tombolo-0123)
running 1 test
test plain ... ok
test slow ... ok
     Running tests/hub/main.rs (/target/debug/deps/load_balancers-4567)
test a::b ... FAILED
test c ... ignored, takes SEED
test long has been running for over 60 seconds
test result: FAILED. 0 passed";
        let (mut outcomes, mut program) = (Outcomes::default(), String::new());
        printed.lines().for_each(|line| outcomes.read(&mut program, line));
        outcomes.note("left out\tload_balancers::d::e\tno time\nrelaxed\ttombolo::slow\tnot how soon\n");
        outcomes.note("relaxed\ttombolo::slow\tnot how often\nrelaxed\tload_balancers::a::b\tnot how soon\n");
        let mut expected = Outcomes::default();
        expected.set("load_balancers", "d::e", Verdict::LeftOut("no time".to_owned()));
        expected.set("tombolo", "plain", Verdict::Passed);
        expected.set("tombolo", "slow", Verdict::PassedBut("not how soon; not how often".to_owned()));
        expected.set("load_balancers", "a::b", Verdict::Failed);
        expected.set("load_balancers", "c", Verdict::Ignored);
        assert_eq!(outcomes, expected);
    }
}
