//! The terminal while something is shown on it: a screen of its own, which is given back whatever happens.
//!
//! Where standard output is no terminal, pages follow each other as text.

use std::io::{BufReader, IsTerminal as _, Read as _, stdin, stdout};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use crate::say::say_all;

const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const TO_END_OF_LINE: &str = "\u{1b}[K";
const BELOW: &str = "\u{1b}[J";

pub(super) struct Screen {
    terminal: bool,
    /// How the keyboard was before.
    before: Option<Termios>,
}

impl Screen {
    pub(super) fn open() -> Self {
        let terminal = stdout().is_terminal();
        if terminal {
            say_all(ENTER);
        }
        let before = tcgetattr(stdin()).ok().filter(|_| terminal && stdin().is_terminal());
        if let Some(before) = &before {
            // Keys come one by one, and are not shown.
            let mut keys = before.clone();
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(stdin(), OptionalActions::Now, &keys);
        }
        Self { terminal, before }
    }

    pub(super) fn show(&self, page: &str) {
        if !self.terminal {
            return say_all(format_args!("{page}\n"));
        }
        let lines: Vec<String> = page.lines().map(|line| format!("{line}{TO_END_OF_LINE}")).collect();
        say_all(format_args!("{HOME}{}{BELOW}", lines.join("\r\n")));
    }

    /// Waits for the key that ends it; for ever where there is no keyboard.
    pub(super) async fn quit(&self) {
        if self.before.is_none() {
            return std::future::pending().await;
        }
        let (pressed, mut keys) = mpsc::channel(1);
        // The thread ends with the process: nobody can take a read from a keyboard back.
        std::thread::spawn(move || {
            for key in BufReader::new(stdin().lock()).bytes().map_while(Result::ok) {
                if pressed.blocking_send(key).is_err() {
                    return;
                }
            }
        });
        while let Some(key) = keys.recv().await {
            if matches!(key, b'q' | b'Q' | 3) {
                return;
            }
        }
        std::future::pending().await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
        if self.terminal {
            say_all(LEAVE);
        }
    }
}
