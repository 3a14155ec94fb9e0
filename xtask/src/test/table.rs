//! `docs/compatibility.md`: every end-to-end test on every server it ran on.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::end_to_end::{PROGRAMS, Program};
use super::outcome::{Outcomes, Verdict};

/// One kind of server and what came of the tests there.
pub(crate) struct Column<'a> {
    pub(crate) title: &'a str,
    pub(crate) outcomes: &'a Outcomes,
}

const HEAD: &str = "\
# Compatibility

Every end-to-end test takes its clusters from one place (`tombolo_testkit::Cluster`) and runs on the embedded API server and
on real ones: kube-apiserver, etcd and kube-controller-manager, built by `cargo xtask kube` from their published modules. A
test that a server cannot run says why, and one that passes there without checking all that it checks on the embedded server
says what it leaves out: the time of real servers cannot be paused, so it is not asked how soon, and what should last for ten
minutes is looked at for seconds. `cargo xtask test --on kube --bless` runs them on both and writes this file.
";

/// The page.
pub(crate) fn page(columns: &[Column<'_>]) -> String {
    let mut page = HEAD.to_owned();
    for program in &PROGRAMS {
        let tests: BTreeSet<&str> = columns
            .iter()
            .flat_map(|column| column.outcomes.of(program.target))
            .filter(|(_, verdict)| **verdict != Verdict::Ignored)
            .map(|(test, _)| test)
            .collect();
        let _ = write!(page, "\n## {}\n\n| test |", program.target);
        columns.iter().for_each(|column| page.extend([" ", column.title, " |"]));
        let _ = write!(page, "\n|---|{}\n", "---|".repeat(columns.len()));
        for test in tests {
            let _ = write!(page, "| {} |", sentence(test));
            for column in columns {
                let _ = write!(page, " {} |", cell(program, test, column));
            }
            page.push('\n');
        }
    }
    page
}

/// A test that is on one of two pages only.
pub(crate) fn foreign_row<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    let [one, other] = [one, other].map(tests);
    one.symmetric_difference(&other).next().copied()
}

/// The tests on a page.
fn tests(page: &str) -> BTreeSet<&str> {
    page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next()).collect()
}

/// A test's name is a sentence.
fn sentence(test: &str) -> String {
    let (module, name) = test.rsplit_once("::").unwrap_or(("", test));
    let name = name.replace('_', " ");
    if module.is_empty() { name } else { format!("{}: {name}", module.replace("::", ", ").replace('_', " ")) }
}

fn cell(program: &Program, test: &str, column: &Column<'_>) -> String {
    match column.outcomes.get(program.target, test) {
        Some(Verdict::Passed) => "yes".to_owned(),
        Some(Verdict::PassedBut(what)) => format!("yes, but {what}"),
        Some(Verdict::Failed) => "**no**".to_owned(),
        Some(Verdict::LeftOut(why)) => format!("left out: {why}"),
        Some(Verdict::Ignored) => "–".to_owned(),
        None => match program.embedded.iter().find(|(module, _)| test.starts_with(module)) {
            Some((_, why)) => format!("left out: {why}"),
            None => "not run".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_with_other_results_have_the_same_tests_and_pages_with_another_test_do_not() {
        let page = |rows: &str| format!("# Compatibility\n\n| test | kube |\n|---|---|\n{rows}");
        let old = page("| leases: it works | yes |\n");
        assert_eq!(foreign_row(&old, &page("| leases: it works | yes, but late |\n")), None);
        let new = page("| leases: it works | yes |\n| late | yes |\n");
        assert_eq!(foreign_row(&old, &new), Some("late"));
        assert_eq!(foreign_row(&new, &old), Some("late"));
    }

    #[test]
    fn a_row_says_what_came_of_a_test_on_every_server_and_why_it_was_left_out() {
        let (mut one, mut two) = (Outcomes::default(), Outcomes::default());
        for test in ["leases::it_works", "scale::many", "late"] {
            one.set("services", test, Verdict::Passed);
        }
        two.set("services", "leases::it_works", Verdict::Failed);
        two.set("services", "scale::many", Verdict::LeftOut("too many".to_owned()));
        one.set("services", "soon", Verdict::Passed);
        two.set("services", "soon", Verdict::PassedBut("not whether within 3 s".to_owned()));
        let page =
            page(&[Column { title: "embedded", outcomes: &one }, Column { title: "kube", outcomes: &two }]);
        for row in [
            "| test | embedded | kube |",
            "| leases: it works | yes | **no** |",
            "| scale: many | yes | left out: too many |",
            "| soon | yes | yes, but not whether within 3 s |",
            "| late | yes | not run |",
        ] {
            assert!(page.contains(row), "{row} is not in\n{page}");
        }
    }
}
