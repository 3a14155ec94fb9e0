//! What went wrong, and while doing what.

use std::error::Error as StdError;

/// Why the playground cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }
}

/// Says what was being done when a cause came up.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl ToString) -> Result<T, Error>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl ToString) -> Result<T, Error> {
        self.map_err(|cause| Error { what: what.to_string(), source: Some(cause.into()) })
    }
}
