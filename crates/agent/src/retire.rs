//! Leaving: takes back everything that the agents of a cluster made in it.
//!
//! Only for a cluster whose agents have stopped: nobody may make it again meanwhile. What users wrote stays, without our
//! finalizers and without conditions of ours that nobody keeps true any more; what we put aside is given back. Doing it again
//! changes nothing.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch};
use kube::{Api, Client, Error, ResourceExt as _};
use serde_json::{Value, json};
use tombolo_api::karmada::strategy::StrategyCondition;
use tombolo_api::tombolo::{
    EXPORT_FINALIZER, MANAGED_BY_LABEL, MANAGER as OURS, NATIVE_NAMING_FINALIZER, OFFER_LABEL, ServiceRef,
};
use tombolo_api::{kep, mcs};
use tombolo_model::ClusterId;
use tombolo_model::strategy::{Situation, Step, plan};
use tombolo_runtime::{Boxed, Kind, delete, is_absent, is_conflict, unless_gone};

use crate::write::{MANAGER, is_ours, merge_params};

/// The conditions that agents write on imports, on exports of the first edition, and on those of today's.
const OF_IMPORTS: [&str; 2] =
    [StrategyCondition::StrategyApplied.as_str(), mcs::ImportCondition::Ready.as_str()];
const OF_FIRST_EXPORTS: [&str; 3] = [
    kep::ExportCondition::Initialized.as_str(),
    kep::ExportCondition::Exported.as_str(),
    kep::ExportCondition::Conflict.as_str(),
];
const OF_EXPORTS: [&str; 3] = [
    mcs::ExportCondition::Valid.as_str(),
    mcs::ExportCondition::Ready.as_str(),
    mcs::ExportCondition::Conflict.as_str(),
];

/// How many objects of each sort were removed or given back, by what they are called.
pub type Retired = Vec<(&'static str, usize)>;

/// Takes back what agents of `cluster`, behind `member`, made; their own objects are in `namespace`.
pub fn retire<'a>(
    member: &'a Client,
    cluster: &'a ClusterId,
    namespace: &'a str,
) -> Boxed<'a, Result<Retired, Error>> {
    Box::pin(take_back(member, cluster, namespace))
}

async fn take_back(member: &Client, cluster: &ClusterId, namespace: &str) -> Result<Retired, Error> {
    let mut retired = vec![("imported EndpointSlices removed", remove_ours::<EndpointSlice>(member).await?)];
    retired.push(("selectors given back", give_back_selectors(member).await?));
    retired.push(("imports removed", remove_ours::<kep::ImportedService>(member).await?));
    retired.push(("imports removed", remove_ours::<mcs::ServiceImport>(member).await?));
    retired.push(("Services that held addresses removed", remove_ours::<Service>(member).await?));
    release::<mcs::ServiceImport>(member, NATIVE_NAMING_FINALIZER, &OF_IMPORTS).await?;
    let automatic = remove_ours::<kep::ServiceExport>(member).await?;
    retired.push(("automatic exports removed", automatic + remove_ours::<mcs::ServiceExport>(member).await?));
    let exports = release::<kep::ServiceExport>(member, EXPORT_FINALIZER, &OF_FIRST_EXPORTS).await?;
    let exports = exports + release::<mcs::ServiceExport>(member, EXPORT_FINALIZER, &OF_EXPORTS).await?;
    retired.push(("exports let go", exports));
    retired.push(("objects of Works removed", tombolo_works::withdraw(member, cluster).await?));
    retired.push(("leases removed", remove_leases(member, namespace).await?));
    Ok(retired)
}

/// All objects of a kind; none where the kind is not defined.
async fn all<K: Kind>(member: &Client, params: &ListParams) -> Result<Vec<K>, Error> {
    match Api::<K>::all(member.clone()).list(params).await {
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        found => Ok(found?.items),
    }
}

/// What agents of this cluster made in it. The hub may be one of the members: what others publish there is theirs.
fn ours() -> ListParams {
    ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={OURS},!{OFFER_LABEL}"))
}

fn api_of<K: Kind>(member: &Client, object: &K) -> Api<K> {
    Api::namespaced(member.clone(), &object.namespace().unwrap_or_default())
}

async fn remove_ours<K: Kind>(member: &Client) -> Result<usize, Error> {
    let found: Vec<K> = all(member, &ours()).await?;
    for object in &found {
        // What goes must not wait for an agent.
        set_finalizers(member, object, &[EXPORT_FINALIZER, NATIVE_NAMING_FINALIZER]).await?;
        delete(&api_of(member, object), object).await?;
    }
    Ok(found.len())
}

/// Services of users that an import changed become as they were.
async fn give_back_selectors(member: &Client) -> Result<usize, Error> {
    let mut count = 0;
    let services: Vec<Service> = all(member, &ListParams::default()).await?;
    for service in services.iter().filter(|service| !is_ours(*service)) {
        let name =
            ServiceRef { namespace: service.namespace().unwrap_or_default(), name: service.name_any() };
        let step = plan(&Situation {
            service: &name,
            import: None,
            present: Some(service),
            slices: Vec::new(),
            sources: Vec::new(),
            exported: false,
            supported: &[],
        });
        let Step::Change(mut patch) = step.service else { continue };
        patch["metadata"]["resourceVersion"] = json!(service.resource_version());
        let api = api_of(member, service);
        unless_gone(api.patch(&name.name, &merge_params(), &Patch::Merge(&patch)).await)?;
        count += 1;
    }
    Ok(count)
}

/// Lets go of what users wrote: no finalizer of ours, and of the types of conditions that agents write none that nobody keeps
/// true. What other implementations say stays.
async fn release<K: Kind>(member: &Client, finalizer: &str, said: &[&str]) -> Result<usize, Error> {
    let found: Vec<K> = all(member, &ListParams::default()).await?;
    for object in &found {
        set_finalizers(member, object, &[finalizer]).await?;
        take_conditions(&api_of(member, object), object, said).await?;
    }
    Ok(found.len())
}

/// Takes the conditions of agents from an object. Others may write theirs at the same moment: then it is looked at again.
async fn take_conditions<K: Kind>(api: &Api<K>, listed: &K, said: &[&str]) -> Result<(), Error> {
    if rest_of(listed, said)?.is_none() {
        return Ok(());
    }
    let name = listed.name_any();
    while let Some(object) = api.get_opt(&name).await? {
        let Some(rest) = rest_of(&object, said)? else { break };
        match api.patch_status(&name, &merge_params(), &Patch::Merge(&rest)).await {
            Err(error) if is_conflict(&error) => {}
            outcome => return unless_gone(outcome),
        }
    }
    Ok(())
}

/// The patch that leaves the conditions of others as they are in this version of an object; `None` where agents have none.
fn rest_of<K: Kind>(object: &K, said: &[&str]) -> Result<Option<Value>, Error> {
    let shown = serde_json::to_value(object).map_err(Error::SerdeError)?;
    let metadata = json!({"resourceVersion": object.resource_version()});
    let kept = conditions_of_others(&shown, said);
    Ok(kept.map(|kept| json!({"metadata": metadata, "status": {"conditions": kept}})))
}

/// The conditions without those of agents; `None` where agents have none.
fn conditions_of_others(object: &Value, said: &[&str]) -> Option<Vec<Value>> {
    let all = object["status"]["conditions"].as_array()?;
    let is_agents = |condition: &Value| {
        let type_ = condition["type"].as_str().unwrap_or_default();
        said.contains(&type_) && !is_said_by_others_only(object, type_)
    };
    let kept: Vec<Value> = all.iter().filter(|condition| !is_agents(condition)).cloned().collect();
    (kept.len() < all.len()).then_some(kept)
}

/// Whether others have written the condition of a type, and agents have not.
fn is_said_by_others_only(object: &Value, type_: &str) -> bool {
    let item = format!("k:{{\"type\":\"{type_}\"}}");
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut writers = entries
        .filter(|entry| entry["fieldsV1"]["f:status"]["f:conditions"].get(&item).is_some())
        .map(|entry| entry["manager"] == MANAGER)
        .peekable();
    writers.peek().is_some() && !writers.any(|agent| agent)
}

/// Leaves the finalizers but for these.
async fn set_finalizers<K: Kind>(member: &Client, object: &K, without: &[&str]) -> Result<(), Error> {
    let rest: Vec<&String> =
        object.finalizers().iter().filter(|name| !without.contains(&name.as_str())).collect();
    if rest.len() == object.finalizers().len() {
        return Ok(());
    }
    let metadata = json!({"finalizers": rest, "resourceVersion": object.resource_version()});
    let patch = Patch::Merge(json!({"metadata": metadata}));
    unless_gone(api_of(member, object).patch(&object.name_any(), &merge_params(), &patch).await)
}

async fn remove_leases(member: &Client, namespace: &str) -> Result<usize, Error> {
    let api: Api<Lease> = Api::namespaced(member.clone(), namespace);
    let found = api.list(&ours()).await?.items;
    for lease in &found {
        unless_gone(api.delete(&lease.name_any(), &DeleteParams::default()).await)?;
    }
    Ok(found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Managed fields, the types of conditions that are there, and those that are left.
    type Case<'a> = (Value, &'a [&'a str], Option<&'a [&'a str]>);

    #[test]
    fn conditions_that_others_write_stay() {
        let said = |manager: &str, types: &[&str]| {
            let items = types.iter().map(|type_| (format!("k:{{\"type\":\"{type_}\"}}"), json!({})));
            let items: serde_json::Map<_, _> = items.collect();
            json!({"manager": manager, "fieldsV1": {"f:status": {"f:conditions": items}}})
        };
        let object = |entries: Value, types: &[&str]| {
            let conditions: Vec<Value> = types.iter().map(|type_| json!({"type": type_})).collect();
            json!({"metadata": {"managedFields": entries}, "status": {"conditions": conditions}})
        };
        let cases: [Case<'_>; 6] = [
            (json!(null), &["Valid", "Ready"], Some(&[])),
            (json!(null), &["Valid", "Synced"], Some(&["Synced"])),
            (json!(null), &["Synced"], None),
            (
                json!([said(MANAGER, &["Valid"]), said("other", &["Ready"])]),
                &["Valid", "Ready"],
                Some(&["Ready"]),
            ),
            (json!([said("other", &["Ready"]), said(MANAGER, &["Ready"])]), &["Ready"], Some(&[])),
            (json!([said("other", &["Ready"])]), &["Ready"], None),
        ];
        for (entries, types, left) in cases {
            let found = conditions_of_others(&object(entries.clone(), types), &["Valid", "Ready"]);
            let found = found.map(|kept| kept.iter().map(|one| one["type"].clone()).collect::<Vec<_>>());
            let expected = left.map(|left| left.iter().map(|type_| json!(type_)).collect());
            assert_eq!(found, expected, "{entries} {types:?}");
        }
    }
}
