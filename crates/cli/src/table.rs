//! Tables for people: columns as wide as their widest cell, and no line that ends in blanks.

use std::fmt::{self, Display};

use crate::paint::{Paint, Shade};

/// Between columns.
const GAP: usize = 3;

/// A cell, and how it is to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    shade: Shade,
}

impl Cell {
    pub(crate) fn shaded(text: impl Into<String>, shade: Shade) -> Self {
        Self { text: text.into(), shade }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::shaded(text, Shade::Plain)
    }
}

/// A heading and rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    paint: Paint,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(paint: Paint, heading: &[&str]) -> Self {
        let heading = heading.iter().map(|word| Cell::shaded(*word, Shade::Faint)).collect();
        Self { paint, rows: vec![heading] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |cell: Option<&Cell>| cell.map_or(0, |cell| cell.text.chars().count());
        (0..columns)
            .map(|column| self.rows.iter().map(|row| width(row.get(column))).max().unwrap_or(0))
            .collect()
    }
}

impl Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
            for (column, cell) in row.iter().enumerate().take(last + 1) {
                write!(out, "{}", self.paint.shade(&cell.text, cell.shade))?;
                if column < last {
                    let missing = widths[column] - cell.text.chars().count();
                    write!(out, "{:1$}", "", missing + GAP)?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_whatever_is_in_them_and_lines_end_with_text() {
        let mut table = Table::new(Paint::plain(), &["NAME", "STATE", "WHY"]);
        table.row(["é".into(), "live".into(), Cell::default()]);
        table.row(["member12".into(), "".into(), "gone".into()]);
        table.row(["short".into()]);
        let expected = "NAME       STATE   WHY\né          live\nmember12           gone\nshort\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn colours_do_not_move_columns() {
        let mut table = Table::new(Paint::coloured(), &["A", "B"]);
        table.row([Cell::shaded("bad", Shade::Bad), "x".into()]);
        assert!(table.to_string().contains("\u{1b}[31mbad\u{1b}[0m   x\n"), "{table}");
    }
}
