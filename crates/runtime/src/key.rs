//! Which object: its namespace and name.

use std::fmt;

use kube::ResourceExt;

/// Identifies an object of one kind; the namespace is empty for kinds without one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The group of everything in a namespace whose label has this value, for [`Cache::group`](crate::Cache::group).
    pub fn of_label(namespace: impl Into<String>, label: &str, value: &str) -> Self {
        Self::new(namespace, format!("{label}={value}"))
    }

    pub fn of<K: ResourceExt>(object: &K) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}
