//! How a command that failed says so: one line, and what to do about it.

use std::error::Error;
use std::process::ExitCode;

/// What a command exits with that did what was asked, and found something broken.
pub(crate) const BROKEN: u8 = 3;

/// Why a command failed, in the words of the person who ran it.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    hint: Option<String>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, cause: None }
    }

    pub(crate) fn because(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same, with what was going on.
    pub(crate) fn during(self, what: &str) -> Self {
        Self { what: format!("{what}: {}", self.what), ..self }
    }

    /// Tells the person, with the whole chain of causes when `verbose`.
    #[expect(clippy::print_stderr, reason = "this is where errors reach the person")]
    pub(crate) fn report(&self, verbose: bool) -> ExitCode {
        let mut line = format!("error: {}", self.what);
        let mut next: Option<&dyn Error> = self.cause.as_ref().map(|cause| &**cause as &dyn Error);
        let mut depth = 0;
        while let Some(cause) = next.filter(|_| verbose || depth == 0) {
            line += &format!(": {cause}");
            next = cause.source();
            depth += 1;
        }
        eprintln!("{line}");
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
        ExitCode::FAILURE
    }
}
