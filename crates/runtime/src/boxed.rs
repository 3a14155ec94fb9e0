//! Futures at the doors of crates.
//!
//! What is generic, and what is behind an `async fn`, is compiled by whoever uses it: every program that starts an agent would
//! compile the whole agent. Put into a box by a function that is not generic, it is compiled once, where it is written.

use std::pin::Pin;

/// A future of which nothing but its outcome is known.
pub type Boxed<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
