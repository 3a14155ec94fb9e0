//! `tombolo completions SHELL`: what a shell needs to complete subcommands and flags.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::say::say_all;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell; for bash: `source <(tombolo completions bash)`
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "tombolo", &mut script);
    say_all(String::from_utf8_lossy(&script));
}
