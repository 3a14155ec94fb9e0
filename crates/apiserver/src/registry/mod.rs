//! Which resources there are: a table that requests, discovery and OpenAPI all read.
//!
//! A [`Resource`] is one plural in one group version. Built-in ones come from a fixed table, custom ones from the stored
//! CustomResourceDefinitions. A [`Registry`] is immutable; a changed definition makes a new one, so a request sees one
//! consistent table from start to end.

mod builtin;
mod custom;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::schema::{Definition, ScalePaths, Version};
use crate::shape::Shape;
use crate::status::Subject;
use crate::types::TypeRef;

/// One resource in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) traits: Traits,
    /// The name of the collection in the store; versions and views of one resource share it.
    pub(crate) collection: Arc<str>,
    pub(crate) shape: Shape,
    pub(crate) source: Source,
    pub(crate) view: View,
    /// An object of this kind with nothing in it, as a typed server would show it; nothing for custom resources.
    pub(crate) empty: Option<Value>,
    /// The `apiVersion` under which objects are stored.
    pub(crate) stored_api_version: String,
}

/// In which ways a resource differs from the plainest one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    pub(crate) status: bool,
    pub(crate) scale: bool,
    pub(crate) generation: Generation,
    /// A PUT to a name that does not exist creates it.
    pub(crate) upsert: bool,
    /// A PUT must carry a resourceVersion.
    pub(crate) needs_version: bool,
    /// DELETE answers with the object rather than with a Status.
    pub(crate) delete_returns_object: bool,
    /// Nothing is stored: the answer to a create is all there is.
    pub(crate) review: bool,
}

/// What moves `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has none.
    None,
    Spec,
    SpecOrAnnotations,
    /// Anything but metadata, and labels (EndpointSlice).
    ContentOrLabels,
    /// Anything but metadata and, where that is a subresource, status (custom resources).
    Content,
}

/// Where the meaning of a resource comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Builtin(Option<TypeRef>),
    Custom {
        definition: Arc<Definition>,
        version: usize,
        /// What makes it another resource when it changes.
        identity: Arc<Value>,
    },
}

/// How stored objects look in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// As they are stored.
    Stored,
    /// With the `apiVersion` of this version, otherwise the same: they keep the one that was meant to be stored when they
    /// were written.
    Renamed,
    /// `events.k8s.io` over core events.
    Events,
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub(crate) fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject { group: &self.group, plural: &self.plural, name }
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.source, Source::Custom { .. })
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn custom_version(&self) -> Option<&Version> {
        match &self.source {
            Source::Custom { definition, version, .. } => definition.versions.get(*version),
            Source::Builtin(_) => None,
        }
    }

    /// Whether this is what `earlier` was: of a definition that has not changed since. Built-in ones never do.
    pub(crate) fn is_still(&self, earlier: &Self) -> bool {
        match (&self.source, &earlier.source) {
            (Source::Custom { identity: now, .. }, Source::Custom { identity: then, .. }) => now == then,
            (Source::Builtin(_), Source::Builtin(_)) => true,
            _ => false,
        }
    }

    pub(crate) fn scale_paths(&self) -> Option<&ScalePaths> {
        self.custom_version()?.scale.as_ref()
    }

    /// Whether dependents of a deleted object stay when nobody says what is to become of them: so it was before there
    /// were owners, and these versions are that old.
    pub(crate) fn orphans_dependents(&self) -> bool {
        self.is("batch", "jobs") || self.is("", "replicationcontrollers")
    }

    /// What users of a deprecated version are told.
    pub(crate) fn deprecation(&self) -> Option<String> {
        let version = self.custom_version().filter(|version| version.deprecated)?;
        let plain = || format!("{} {} is deprecated", self.api_version(), self.kind);
        Some(version.warning.clone().unwrap_or_else(plain))
    }

    /// The verbs of the resource itself, as discovery lists them.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.traits.review {
            return &["create"];
        }
        if !self.deletes_collections() {
            return &["create", "delete", "get", "list", "patch", "update", "watch"];
        }
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    }

    /// Namespaces go one by one.
    pub(crate) fn deletes_collections(&self) -> bool {
        !self.is("", "namespaces")
    }

    /// Subresources: name, kind and its group version (where it is not this resource's own), verbs.
    pub(crate) fn subresources(&self) -> Vec<Subresource> {
        const READ_WRITE: &[&str] = &["get", "patch", "update"];
        let own = |name, verbs| Subresource { name, kind: None, verbs };
        let other = |name, group, version, kind, verbs| Subresource {
            name,
            kind: Some((group, version, kind)),
            verbs,
        };
        let mut found = Vec::new();
        if self.traits.status {
            found.push(own("status", READ_WRITE));
        }
        if self.traits.scale {
            found.push(other("scale", "autoscaling", "v1", "Scale", READ_WRITE));
        }
        match (self.group.as_str(), self.plural.as_str()) {
            ("", "namespaces") => found.push(own("finalize", &["update"])),
            ("", "pods") => {
                found.push(other("binding", "", "v1", "Binding", &["create"]));
                found.push(other("eviction", "policy", "v1", "Eviction", &["create"]));
            }
            ("", "serviceaccounts") => {
                found.push(other("token", "authentication.k8s.io", "v1", "TokenRequest", &["create"]));
            }
            _ => {}
        }
        found
    }
}

/// A subresource as discovery shows it.
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    pub(crate) kind: Option<(&'static str, &'static str, &'static str)>,
    pub(crate) verbs: &'static [&'static str],
}

/// All resources of a cluster at one moment.
#[derive(Debug)]
pub(crate) struct Registry {
    /// By group, then version, then plural.
    groups: BTreeMap<String, Vec<GroupVersion>>,
}

/// The resources of one version of one group.
#[derive(Debug)]
pub(crate) struct GroupVersion {
    pub(crate) version: String,
    pub(crate) resources: BTreeMap<String, Arc<Resource>>,
}

impl Registry {
    /// The built-in resources and those of `definitions`, which must have been checked before.
    pub(crate) fn new<'a>(definitions: impl IntoIterator<Item = &'a Value>) -> Self {
        let custom = definitions.into_iter().flat_map(custom::resources);
        let mut registry = Self { groups: BTreeMap::new() };
        for resource in builtin::resources().iter().cloned().chain(custom) {
            registry.add(resource);
        }
        for versions in registry.groups.values_mut() {
            versions.sort_by(|a, b| crate::schema::compare_versions(&a.version, &b.version));
        }
        registry
    }

    fn add(&mut self, resource: Arc<Resource>) {
        let versions = self.groups.entry(resource.group.clone()).or_default();
        let found = match versions.iter().position(|known| known.version == resource.version) {
            Some(place) => &mut versions[place],
            None => {
                versions.push(GroupVersion { version: resource.version.clone(), resources: BTreeMap::new() });
                versions.last_mut().expect("pushed above")
            }
        };
        found.resources.insert(resource.plural.clone(), resource);
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.group_version(group, version)?.resources.get(plural)
    }

    pub(crate) fn group_version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        self.groups.get(group)?.iter().find(|known| known.version == version)
    }

    /// The versions of a group, preferred one first.
    pub(crate) fn group(&self, group: &str) -> Option<&[GroupVersion]> {
        self.groups.get(group).map(Vec::as_slice)
    }

    /// All groups in order; the core group, whose name is empty, comes first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &[GroupVersion])> {
        self.groups.iter().map(|(name, versions)| (name.as_str(), versions.as_slice()))
    }

    /// The resource in its preferred version.
    pub(crate) fn preferred(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.groups.get(group)?.iter().find_map(|version| version.resources.get(plural))
    }
}
