//! An error with all its causes, in one line: what a person can mend is mostly said by the last of them.

use std::error::Error;

/// `it: because of this: because of that`. A cause that the error before it has told already is not told twice.
pub fn with_causes(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_told = cause.to_string();
        if !told.ends_with(&cause_told) {
            told = format!("{told}: {cause_told}");
        }
        next = cause.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// What is said, and why.
    #[derive(Debug)]
    struct Because(&'static str, Option<Box<Because>>);

    impl fmt::Display for Because {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(self.0)
        }
    }

    impl Error for Because {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    fn because(said: &'static str, cause: Because) -> Because {
        Because(said, Some(Box::new(cause)))
    }

    #[test]
    fn every_cause_is_told_once() {
        let refused = Because("invalid peer certificate", None);
        let connecting = because("client error (Connect)", refused);
        let beating = because("the heartbeat was not written: client error (Connect)", connecting);
        let told = with_causes(&beating);
        assert_eq!(told, "the heartbeat was not written: client error (Connect): invalid peer certificate");
    }
}
