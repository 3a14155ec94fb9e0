//! Who owns whom, by uid.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

use super::super::catalogue::{GroupKind, Meta};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// What the graph remembers of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) kind: GroupKind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) owners: Vec<OwnerReference>,
    /// What the object waits for before it goes; nothing while it is not being deleted.
    pub(super) going: Option<Vec<String>>,
}

impl Record {
    pub(super) fn of(kind: &GroupKind, object: &Meta) -> Self {
        let going = object.metadata.deletion_timestamp.is_some();
        Self {
            kind: kind.clone(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            owners: object.owner_references().to_vec(),
            going: going.then(|| object.finalizers().to_vec()),
        }
    }

    /// Whether the object is being deleted and waits for `finalizer`.
    pub(super) fn waits_for(&self, finalizer: &str) -> bool {
        self.going.as_ref().is_some_and(|finalizers| finalizers.iter().any(|name| name == finalizer))
    }

    fn needs_attention(&self) -> bool {
        !self.owners.is_empty() || self.waits_for(FOREGROUND) || self.waits_for(ORPHAN)
    }
}

/// All objects. Every change returns the uids of those that should be looked at because of it.
#[derive(Debug, Default)]
pub(super) struct Graph {
    records: BTreeMap<String, Record>,
    dependents: BTreeMap<String, BTreeSet<String>>,
    /// Owners that were seen to go, with their namespace, as long as somebody names them. A uid never comes back, so
    /// this stays true even when their kind has gone with them.
    gone: BTreeMap<String, String>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Record> {
        self.records.get(uid)
    }

    /// The namespace of an owner that is known to have gone.
    pub(super) fn gone_from(&self, uid: &str) -> Option<&str> {
        self.gone.get(uid).map(String::as_str)
    }

    /// The objects that name `uid` as an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = (&str, &Record)> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| Some((uid.as_str(), self.records.get(uid)?)))
    }

    /// The dependents that `uid` has to outlive.
    pub(super) fn blocking(&self, uid: &str) -> Vec<String> {
        let blocks = |record: &Record| blocks(&record.owners, uid);
        self.dependents(uid).filter(|(_, record)| blocks(record)).map(|(uid, _)| uid.to_owned()).collect()
    }

    pub(super) fn put(&mut self, uid: &str, record: Record) -> Vec<String> {
        // Most changes are of what an object says, not of who it belongs to.
        if self.records.get(uid) == Some(&record) {
            return Vec::new();
        }
        // Linked before the old state is unlinked, so that an owner named by both never loses its last dependent.
        for owner in &record.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.to_owned());
        }
        let old = self.records.remove(uid);
        let mut affected = old.as_ref().map(|old| self.waiting_owners(old)).unwrap_or_default();
        for lost in old.iter().flat_map(|old| &old.owners) {
            if !record.owners.iter().any(|owner| owner.uid == lost.uid) {
                self.detach(uid, &lost.uid);
            }
        }
        if record.needs_attention() {
            affected.push(uid.to_owned());
        }
        if record.waits_for(FOREGROUND) {
            affected.extend(self.dependents(uid).map(|(uid, _)| uid.to_owned()));
        }
        self.records.insert(uid.to_owned(), record);
        affected
    }

    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        let Some(old) = self.unlink(uid) else { return Vec::new() };
        let mut affected = self.waiting_owners(&old);
        affected.extend(self.dependents(uid).map(|(uid, _)| uid.to_owned()));
        if self.dependents.contains_key(uid) {
            self.gone.insert(uid.to_owned(), old.namespace);
        }
        affected
    }

    /// Drops what is known of a kind that is not served any more. Its objects may be served again, so none counts as gone.
    pub(super) fn forget(&mut self, kind: &GroupKind) {
        let of_kind = self.records.iter().filter(|(_, record)| record.kind == *kind);
        let uids: Vec<String> = of_kind.map(|(uid, _)| uid.clone()).collect();
        uids.iter().for_each(|uid| drop(self.unlink(uid)));
    }

    /// Takes `present` as all objects of a kind that there are; the others of it are gone.
    pub(super) fn retain(&mut self, kind: &GroupKind, present: &BTreeSet<String>) -> Vec<String> {
        let of_kind = self.records.iter().filter(|(_, record)| record.kind == *kind);
        let gone: Vec<String> =
            of_kind.map(|(uid, _)| uid.clone()).filter(|uid| !present.contains(uid)).collect();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    /// Everything with an owner: for when it has changed which kinds there are.
    pub(super) fn owned(&self) -> Vec<String> {
        self.records
            .iter()
            .filter(|(_, record)| record.needs_attention())
            .map(|(uid, _)| uid.clone())
            .collect()
    }

    fn unlink(&mut self, uid: &str) -> Option<Record> {
        let old = self.records.remove(uid)?;
        for owner in &old.owners {
            self.detach(uid, &owner.uid);
        }
        Some(old)
    }

    fn detach(&mut self, uid: &str, owner: &str) {
        let Some(dependents) = self.dependents.get_mut(owner) else { return };
        dependents.remove(uid);
        if dependents.is_empty() {
            self.dependents.remove(owner);
            self.gone.remove(owner);
        }
    }

    /// The owners that wait for their dependents: one less may be the last.
    fn waiting_owners(&self, record: &Record) -> Vec<String> {
        let waits = |uid: &str| self.records.get(uid).is_some_and(|owner| owner.waits_for(FOREGROUND));
        record.owners.iter().map(|owner| owner.uid.clone()).filter(|uid| waits(uid)).collect()
    }
}

/// Whether one of these references keeps the owner `uid` waiting.
pub(super) fn blocks(owners: &[OwnerReference], uid: &str) -> bool {
    owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn record(owners: &[&str], going: Option<&[&str]>) -> Record {
        let owners = owners.iter().map(|uid| {
            from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": true}))
                .unwrap()
        });
        Record {
            kind: GroupKind::new("v1", "ConfigMap"),
            namespace: "a".to_owned(),
            name: "x".to_owned(),
            owners: owners.collect(),
            going: going.map(|finalizers| finalizers.iter().map(|name| (*name).to_owned()).collect()),
        }
    }

    #[test]
    fn a_change_touches_those_it_matters_to() {
        let mut graph = Graph::default();
        assert_eq!(graph.put("owner", record(&[], None)), Vec::<String>::new());
        assert_eq!(graph.put("one", record(&["owner"], None)), ["one"]);
        assert_eq!(graph.put("two", record(&["owner", "other"], None)), ["two"]);
        assert_eq!(graph.put("owner", record(&[], Some(&[FOREGROUND]))), ["owner", "one", "two"]);
        assert_eq!(graph.blocking("owner"), ["one", "two"]);
        assert_eq!(graph.remove("one"), ["owner"]);
        assert_eq!(graph.remove("owner"), ["two"]);
        assert_eq!(graph.blocking("owner"), ["two"]);
        assert_eq!(graph.put("two", record(&["other"], None)), ["two"]);
        assert_eq!(graph.blocking("owner"), Vec::<String>::new());
        assert_eq!(
            graph.put("two", record(&["other"], None)),
            Vec::<String>::new(),
            "it belongs to the same"
        );
    }

    #[test]
    fn an_owner_that_went_is_remembered_while_it_is_named() {
        let mut graph = Graph::default();
        graph.put("owner", record(&[], None));
        graph.put("one", record(&["owner"], None));
        assert_eq!(graph.gone_from("owner"), None);
        graph.remove("owner");
        assert_eq!(graph.gone_from("owner"), Some("a"));
        graph.put("one", record(&["owner"], Some(&[])));
        assert_eq!(graph.gone_from("owner"), Some("a"));
        graph.remove("one");
        assert_eq!(graph.gone_from("owner"), None);
    }

    #[test]
    fn a_kind_that_is_not_served_leaves_no_trace() {
        let mut graph = Graph::default();
        graph.put("owner", record(&[], None));
        graph.put("one", record(&["owner"], None));
        graph.forget(&GroupKind::new("v1", "ConfigMap"));
        assert_eq!((graph.get("owner"), graph.get("one"), graph.gone_from("owner")), (None, None, None));
    }

    #[test]
    fn a_list_without_an_object_is_its_end() {
        let mut graph = Graph::default();
        graph.put("owner", record(&[], None));
        graph.put("one", record(&["owner"], None));
        let kind = GroupKind::new("v1", "ConfigMap");
        assert_eq!(graph.retain(&kind, &BTreeSet::from(["one".to_owned()])), ["one"]);
        assert_eq!(graph.get("owner"), None);
    }
}
