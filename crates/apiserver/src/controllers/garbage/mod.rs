//! The garbage collector: what has lost its owner goes, too.
//!
//! A graph of all objects, drawn from watches of their metadata, says what to look at. It may lag, so nothing is decided
//! on it alone: the object and the owners that seem to be missing are asked for by name, and a deletion carries the uid of
//! what was seen.

mod collector;
mod graph;
mod observer;
mod verdict;

pub(super) use self::collector::Collector;
