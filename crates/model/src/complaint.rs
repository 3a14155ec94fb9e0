//! What was wrong with input that was used as far as it made sense.

use std::fmt;

/// One thing that was wrong: where, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// The field, annotation or object, as its owner would call it.
    pub about: String,
    /// What is wrong with it and what was done instead.
    pub problem: String,
}

impl Complaint {
    pub fn new(about: impl Into<String>, problem: impl Into<String>) -> Self {
        Complaint { about: about.into(), problem: problem.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.problem)
    }
}
