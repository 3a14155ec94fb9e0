//! Field paths as error messages and unknown-field warnings spell them.

/// The path of a field below `parent`; the root is the empty path.
pub(crate) fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// The path of a list element.
pub(crate) fn index(parent: &str, at: usize) -> String {
    format!("{parent}[{at}]")
}

/// The path of a map entry, where the key is data rather than the name of a field.
pub(crate) fn key(parent: &str, name: &str) -> String {
    format!("{parent}[{name}]")
}

/// What the API server prints where an error belongs to no field.
pub(crate) const NOWHERE: &str = "<nil>";

/// The field of a path that may be empty or start with a dot, as schema validation spells the root and its children.
pub(crate) fn field(path: &str) -> String {
    match path.strip_prefix('.').unwrap_or(path) {
        "" => NOWHERE.to_owned(),
        name => name.to_owned(),
    }
}
