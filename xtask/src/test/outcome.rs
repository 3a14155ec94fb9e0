//! What came of tests, read from what their programs print while a person reads it, too.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;
use std::time::Instant;

use tombolo_upstream::Folder;

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

    /// Those that failed, by program and test.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&str, &str)> {
        let failed = self.0.iter().filter(|(_, verdict)| **verdict == Verdict::Failed);
        failed.map(|((program, test), _)| (program.as_str(), test.as_str()))
    }

    pub(crate) fn has_failures(&self) -> bool {
        self.failed().next().is_some()
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

    /// Takes note of a line that a program of tests prints.
    fn read(&mut self, program: &str, line: &str) {
        if let Some((test, verdict)) = ended(line) {
            self.set(program, test, verdict);
        }
    }
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

/// Runs tests of a `program`, lets a person read what is said, and reads along. Every line begins with the `label`: others run at
/// the same time.
pub(crate) fn follow(mut command: Command, program: &str, label: &str) -> Result<Outcomes, Failure> {
    let begin = Instant::now();
    let folder = Folder::new("tests")?;
    let left_out = folder.path().join("left-out");
    command.env("TOMBOLO_TEST_LEFT_OUT", &left_out);
    // One pipe for both, so that lines come in the order in which they were written.
    let (reader, writer) = std::io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the other end, too; the pipe ends when nobody does.
    drop(command);
    let mut outcomes = Outcomes::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        outcomes.read(program, &line);
        writeln!(std::io::stdout(), "{label} | {line}")?;
    }
    let list = std::fs::read_to_string(&left_out).unwrap_or_default();
    outcomes.note(&list);
    if !child.wait()?.success() && !outcomes.has_failures() {
        outcomes.set(program, "the program itself", Verdict::Failed);
    }
    println!("{label} took {} s", begin.elapsed().as_secs());
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_from_what_programs_print() {
        let printed = "\
running 4 tests
test plain ... ok
test slow ... ok
test a::b ... FAILED
test c ... ignored, takes SEED
test long has been running for over 60 seconds
test result: FAILED. 2 passed";
        let mut outcomes = Outcomes::default();
        printed.lines().for_each(|line| outcomes.read("hub", line));
        outcomes.note("left out\thub::d::e\tno time\nrelaxed\thub::slow\tnot how soon\n");
        outcomes.note("relaxed\thub::slow\tnot how often\nrelaxed\thub::a::b\tnot how soon\n");
        let mut expected = Outcomes::default();
        expected.set("hub", "d::e", Verdict::LeftOut("no time".to_owned()));
        expected.set("hub", "plain", Verdict::Passed);
        expected.set("hub", "slow", Verdict::PassedBut("not how soon; not how often".to_owned()));
        expected.set("hub", "a::b", Verdict::Failed);
        expected.set("hub", "c", Verdict::Ignored);
        assert_eq!(outcomes, expected);
    }
}
