//! The decision tables, row by row, and what holds for any input.

mod explained;
mod imports;
mod lab;
mod odd;
mod plain;
mod properties;
