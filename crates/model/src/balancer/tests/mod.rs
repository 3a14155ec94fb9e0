//! The tables of the rules, row by row, and what holds for any input.

mod addresses;
mod concern;
mod lab;
mod lifecycle;
mod nodes;
mod pools;
mod verdicts;
