//! The decision tables, row by row, and what holds for any input.

mod lab;
mod odd;
mod plain;
