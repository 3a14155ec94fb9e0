//! One column of a table.

use serde_json::{Value, json};

/// What stands above a column and what kind of cells are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// The OpenAPI type of the cells: `string`, `integer`, `boolean` or `date`.
    pub(crate) kind: &'static str,
    /// `name` for the column that names the object, otherwise empty.
    pub(crate) format: &'static str,
    pub(crate) description: &'static str,
    /// Zero for columns that are always shown.
    pub(crate) priority: i32,
}

impl Column {
    /// The column that every table begins with.
    pub(crate) const NAME: Self = Self {
        format: "name",
        ..Self::text("Name", "The name of the object, unique among its kind and namespace.")
    };

    /// How long ago the object was created.
    pub(crate) const AGE: Self = Self::text("Age", "The time since the object was created.");

    pub(crate) const fn text(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: "string", format: "", description, priority: 0 }
    }

    pub(crate) const fn number(name: &'static str, description: &'static str) -> Self {
        Self { kind: "integer", ..Self::text(name, description) }
    }

    pub(crate) const fn flag(name: &'static str, description: &'static str) -> Self {
        Self { kind: "boolean", ..Self::text(name, description) }
    }

    pub(crate) const fn date(name: &'static str, description: &'static str) -> Self {
        Self { kind: "date", ..Self::text(name, description) }
    }

    /// The same column, shown on demand only.
    pub(crate) const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    /// This column as an element of a table's `columnDefinitions`.
    pub(crate) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}
