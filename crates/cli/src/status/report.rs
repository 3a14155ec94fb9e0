//! From what was seen to what is told: clusters, exports, imports, conflicts. Pure.

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::tombolo::Dialect;

use crate::survey::{
    ExportSeen, HubFacts, ImportSeen, MemberFacts, MemberSeen, Survey, Told, count, exports, imported_slices,
    imports,
};

/// Everything that `status` tells, in the order in which it is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) hub: HubRow,
    pub(crate) clusters: Vec<ClusterRow>,
    pub(crate) exports: Vec<ExportRow>,
    pub(crate) imports: Vec<ImportRow>,
    /// Exports that disagree, once more.
    pub(crate) conflicts: Vec<ConflictRow>,
    pub(crate) multi_cluster_services: Vec<SharedRow>,
    /// Contexts that were left out.
    pub(crate) others: Vec<OtherRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HubRow {
    pub(crate) context: String,
    pub(crate) problem: Option<String>,
}

/// What a cluster is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// It was heard in time.
    Live,
    /// It was not.
    Silent,
    /// The hub has never heard it, or cannot be asked.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterRow {
    pub(crate) name: String,
    pub(crate) context: Option<String>,
    pub(crate) state: State,
    /// The condition `Ready` that the hub's own part gives it, where that runs.
    pub(crate) ready: Option<String>,
    /// Seconds since it was heard at the hub.
    pub(crate) heartbeat_age: Option<i64>,
    pub(crate) region: Option<String>,
    pub(crate) agent_version: Option<String>,
    pub(crate) watermark: Option<String>,
    #[serde(rename = "podCIDRs")]
    pub(crate) pod_cidrs: Vec<String>,
    /// How many services it could not import.
    pub(crate) failures: usize,
    /// Why the cluster itself could not be asked.
    pub(crate) problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) edition: Dialect,
    pub(crate) cluster: String,
    pub(crate) valid: String,
    /// Whether all live members have it.
    pub(crate) ready: String,
    pub(crate) conflict: String,
    /// Of the condition that is worst.
    pub(crate) since: Option<Timestamp>,
    pub(crate) message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImportRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) edition: Dialect,
    pub(crate) cluster: String,
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) ips: Vec<String>,
    pub(crate) sources: Vec<String>,
    pub(crate) ready_endpoints: usize,
    pub(crate) endpoints: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConflictRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) edition: Dialect,
    pub(crate) cluster: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SharedRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) types: Vec<String>,
    /// Conditions that are not true, each with its message.
    pub(crate) pending: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OtherRow {
    pub(crate) context: String,
    pub(crate) reason: String,
}

/// What there is to tell.
pub(crate) fn report(survey: &Survey) -> Report {
    let hub = survey.hub.facts.as_ref().ok();
    let mut exports = Vec::new();
    let mut imports = Vec::new();
    for member in &survey.members {
        let Ok(facts) = &member.facts else { continue };
        exports.extend(exports_of(&member.id, facts));
        imports.extend(imports_of(&member.id, facts));
    }
    exports.sort_by(|a, b| key(a).cmp(&key(b)));
    imports.sort_by(|a, b| {
        (&a.namespace, &a.name, a.edition, &a.cluster).cmp(&(&b.namespace, &b.name, b.edition, &b.cluster))
    });
    Report {
        hub: HubRow {
            context: survey.hub.context.clone(),
            problem: survey.hub.facts.as_ref().err().cloned(),
        },
        clusters: survey.members.iter().map(|member| cluster(member, hub, survey.now)).collect(),
        conflicts: survey.members.iter().flat_map(conflicts_of).collect(),
        exports,
        imports,
        multi_cluster_services: hub.into_iter().flat_map(shared).collect(),
        others: survey
            .others
            .iter()
            .map(|(context, reason)| OtherRow { context: context.clone(), reason: reason.clone() })
            .collect(),
    }
}

fn key(row: &ExportRow) -> (&str, &str, Dialect, &str) {
    (&row.namespace, &row.name, row.edition, &row.cluster)
}

fn cluster(member: &MemberSeen, hub: Option<&HubFacts>, now: Timestamp) -> ClusterRow {
    let beat = hub.and_then(|hub| hub.heartbeat(&member.id));
    let membership = hub.and_then(|hub| hub.membership(&member.id));
    let status = membership.and_then(|membership| membership.status.as_ref());
    let more = status.map_or(0, |status| usize::try_from(status.more_failures).unwrap_or(0));
    ClusterRow {
        name: member.id.clone(),
        context: member.context.clone(),
        state: match beat {
            None => State::Unknown,
            Some(beat) if beat.is_silent(now) => State::Silent,
            Some(_) => State::Live,
        },
        ready: hub.and_then(|hub| readiness(hub, &member.id)),
        heartbeat_age: beat.map(|beat| beat.age(now)),
        region: membership.and_then(|membership| membership.spec.region.clone()),
        agent_version: status.and_then(|status| status.agent_version.clone()),
        watermark: status.and_then(|status| status.watermark.clone()),
        pod_cidrs: membership.map(|membership| membership.spec.pod_cidrs.clone()).unwrap_or_default(),
        failures: status.map_or(0, |status| status.failures.len()) + more,
        problem: member.facts.as_ref().err().cloned(),
    }
}

fn readiness(hub: &HubFacts, id: &str) -> Option<String> {
    let cluster = hub.clusters.iter().find(|cluster| cluster.name_any() == id)?;
    let ready = cluster.status.as_ref()?.conditions.iter().find(|one| one.type_ == "Ready")?;
    Some(ready.status.clone())
}

fn exports_of(cluster: &str, facts: &MemberFacts) -> Vec<ExportRow> {
    exports(facts).iter().map(|export| export_row(cluster, export)).collect()
}

fn export_row(cluster: &str, export: &ExportSeen) -> ExportRow {
    let status = |condition: Option<&Told>| condition.map_or("Unknown", |one| one.status.as_str()).to_owned();
    let (valid, ready, conflict) = (export.valid(), export.ready(), export.conflict());
    let bad = [
        valid.filter(|one| one.status != "True"),
        conflict.filter(|one| one.status == "True"),
        ready.filter(|one| one.status != "True"),
    ];
    let worst = bad.into_iter().flatten().next();
    ExportRow {
        namespace: export.namespace.clone(),
        name: export.name.clone(),
        edition: export.edition,
        cluster: cluster.to_owned(),
        valid: status(valid),
        ready: status(ready),
        conflict: conflict.map_or("False", |one| one.status.as_str()).to_owned(),
        since: worst.or(ready).and_then(|one| one.since),
        message: worst.map(|one| one.message.clone()).unwrap_or_default(),
    }
}

fn conflicts_of(member: &MemberSeen) -> Vec<ConflictRow> {
    let Ok(facts) = &member.facts else { return Vec::new() };
    let row = |export: ExportSeen| {
        let conflict = export.conflict().filter(|one| one.status == "True")?.clone();
        Some(ConflictRow {
            namespace: export.namespace,
            name: export.name,
            edition: export.edition,
            cluster: member.id.clone(),
            reason: conflict.reason,
            message: conflict.message,
            since: conflict.since,
        })
    };
    exports(facts).into_iter().filter_map(row).collect()
}

fn imports_of(cluster: &str, facts: &MemberFacts) -> Vec<ImportRow> {
    let row = |import: ImportSeen| {
        let counted = count(imported_slices(facts, &import));
        ImportRow {
            namespace: import.namespace,
            name: import.name,
            edition: import.edition,
            cluster: cluster.to_owned(),
            type_: if import.headless { "Headless" } else { "ClusterSetIP" }.to_owned(),
            ips: import.ips,
            sources: import.sources,
            ready_endpoints: counted.0,
            endpoints: counted.1,
        }
    };
    imports(facts).into_iter().map(row).collect()
}

fn shared(hub: &HubFacts) -> Vec<SharedRow> {
    let row = |object: &MultiClusterService| {
        let conditions = object.status.iter().flat_map(|status| &status.conditions);
        let pending = conditions.filter(|one| one.status != "True");
        SharedRow {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            types: object.spec.types.iter().map(|one| one.to_string()).collect(),
            pending: pending.map(|one| format!("{}: {}", one.type_, one.message)).collect(),
        }
    };
    hub.multi_cluster_services.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;
    use crate::survey::HubSeen;

    fn member(id: &str, facts: MemberFacts) -> MemberSeen {
        MemberSeen { id: id.to_owned(), context: Some(id.to_owned()), facts: Ok(facts) }
    }

    fn survey(hub: HubFacts, members: Vec<MemberSeen>) -> Survey {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let hub = HubSeen { context: "hub".into(), facts: Ok(hub) };
        Survey { now, hub, members, others: Vec::new() }
    }

    fn beat(at: &str) -> k8s_openapi::api::coordination::v1::Lease {
        from_value(json!({"spec": {"renewTime": at, "leaseDurationSeconds": 30}})).unwrap()
    }

    #[test]
    fn a_cluster_is_what_its_heartbeat_says() {
        let heartbeats = [
            ("tombolo-a".to_owned(), beat("2026-01-01T00:00:58.000000Z")),
            ("tombolo-b".to_owned(), beat("2026-01-01T00:00:10.000000Z")),
        ];
        let hub = HubFacts { heartbeats: heartbeats.into(), ..HubFacts::default() };
        let members = ["a", "b", "c"].map(|id| member(id, MemberFacts::default()));
        let told = report(&survey(hub, members.into()));
        let states: Vec<_> = told.clusters.iter().map(|row| (row.state, row.heartbeat_age)).collect();
        assert_eq!(states, [(State::Live, Some(2)), (State::Silent, Some(50)), (State::Unknown, None)]);
    }

    #[test]
    fn the_worst_condition_of_an_export_is_told_and_a_conflict_once_more() {
        let condition = |type_: &str, status: &str, message: &str| {
            json!({"type": type_, "status": status, "reason": "R", "message": message,
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let export = from_value(json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
            "metadata": {"name": "echo", "namespace": "demo"},
            "status": {"conditions": [
                condition("Valid", "True", ""), condition("Ready", "False", "member2 has not"),
                condition("Conflict", "True", "ports differ")]},
        }));
        let facts = MemberFacts { mcs_exports: vec![export.unwrap()], ..MemberFacts::default() };
        let told = report(&survey(HubFacts::default(), vec![member("a", facts)]));
        let row = &told.exports[0];
        assert_eq!(
            (row.valid.as_str(), row.ready.as_str(), row.conflict.as_str()),
            ("True", "False", "True")
        );
        assert_eq!(row.message, "ports differ");
        assert_eq!((told.conflicts.len(), told.conflicts[0].reason.as_str()), (1, "R"));
    }

    #[test]
    fn endpoints_of_an_import_are_counted_over_all_sources() {
        let import = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
            "metadata": {"name": "echo", "namespace": "demo"},
            "spec": {"type": "ClusterSetIP", "ports": [], "ips": ["10.96.0.7"]},
            "status": {"clusters": [{"cluster": "a"}, {"cluster": "b"}]},
        });
        let slice = |namespace: &str, ready: bool| {
            from_value(json!({
                "metadata": {"name": "s", "namespace": namespace,
                             "labels": {"multicluster.kubernetes.io/service-name": "echo"}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": ready}}],
            }))
            .unwrap()
        };
        let facts = MemberFacts {
            mcs_imports: vec![from_value(import).unwrap()],
            slices: vec![slice("demo", true), slice("demo", false), slice("other", true)],
            ..MemberFacts::default()
        };
        let told = report(&survey(HubFacts::default(), vec![member("c", facts)]));
        let row = &told.imports[0];
        assert_eq!((row.ready_endpoints, row.endpoints, row.sources.len()), (1, 2, 2));
    }
}
