//! Colours, where somebody looks at them: on a terminal, unless `NO_COLOR` asks for none.

use std::io::{IsTerminal as _, stdout};

/// What a piece of text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shade {
    #[default]
    Plain,
    Good,
    Doubtful,
    Bad,
    Faint,
    Strong,
}

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    /// As standard output wants it.
    pub(crate) fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(stdout().is_terminal() && !refused)
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self(false)
    }

    #[cfg(test)]
    pub(crate) fn coloured() -> Self {
        Self(true)
    }

    pub(crate) fn shade(self, text: &str, shade: Shade) -> String {
        let code = match shade {
            _ if !self.0 => return text.to_owned(),
            Shade::Plain => return text.to_owned(),
            Shade::Good => 32,
            Shade::Doubtful => 33,
            Shade::Bad => 31,
            Shade::Faint => 2,
            Shade::Strong => 1,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}
