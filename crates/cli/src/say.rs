//! Standard output. Whoever does not read on has heard enough, so a pipe that closed is no error.

use std::fmt::Display;
use std::io::Write as _;

/// A line.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Text that has its line ends already.
pub(crate) fn say_all(text: impl Display) {
    let _ = write!(std::io::stdout(), "{text}");
    let _ = std::io::stdout().flush();
}
