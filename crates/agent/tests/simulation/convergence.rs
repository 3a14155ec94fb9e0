//! What must be true in the end: the members and the hub hold the model's answer, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};
use tombolo_api::mcs::{ClusterStatus, ServiceImport};
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, MANAGER, NATIVE_IMPORT_LABEL};
use tombolo_model::import::NotDerived;
use tombolo_model::{Import, Merged, auto_export, names};
use tombolo_runtime::Key;

use crate::native;
use crate::truth::{Name, Truth, exports, lean, meaning, origin, service};
use crate::users::TEAM;
use crate::world::{Member, World};

/// How the objects of hostile members are called.
pub(crate) const FORGED: &str = "forged";

/// Imports that an object of a user's stands in the way of: cluster and service.
pub(crate) type Exempt = BTreeSet<(String, Name)>;

/// Things by a name, as they are compared.
pub(crate) type Picture = BTreeMap<String, Value>;

/// Everything that is not as it should be.
pub(crate) fn differences(world: &World, exempt: &Exempt) -> Vec<String> {
    let truth = Truth::of(world);
    let mut found = Vec::new();
    compare("at the hub", &hub_wanted(&truth), &hub_held(world), &mut found);
    for member in world.joined() {
        let place = format!("in {}", member.name());
        compare(&place, &wanted(&truth, member, exempt), &held(member, exempt), &mut found);
        judge_exports(world, &truth, member, exempt, &mut found);
        judge_automatic_exports(member, &mut found);
        native::judge(&truth, member, &mut found);
    }
    found
}

pub(crate) fn compare(place: &str, wanted: &Picture, held: &Picture, found: &mut Vec<String>) {
    for key in wanted.keys().chain(held.keys()).collect::<BTreeSet<_>>() {
        let (wanted, held) = (wanted.get(key), held.get(key));
        if wanted != held {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            found.push(format!("{place}: {key}\n    wanted {}\n    found  {}", text(wanted), text(held)));
        }
    }
}

fn hub_wanted(truth: &Truth) -> Picture {
    let mut all = Picture::new();
    for offered in truth.offered.values().flat_map(BTreeMap::values) {
        all.insert(format!("offer {}", Key::of(&offered.offer)), lean(&offered.offer.spec));
        all.extend(offered.slices.iter().map(|slice| (format!("slice {}", Key::of(slice)), meaning(slice))));
    }
    all
}

fn hub_held(world: &World) -> Picture {
    let (mut offers, mut slices) = (world.hub_sight.offers.all(), world.hub_sight.slices.all());
    // What a hostile member leaves under names of its own nobody has to remove.
    offers.retain(|offer| !offer.name_any().starts_with(FORGED));
    slices.retain(|slice| !slice.name_any().starts_with(FORGED));
    let offers = offers.iter().map(|offer| (format!("offer {}", Key::of(&**offer)), lean(&offer.spec)));
    let slices = slices.iter().map(|slice| (format!("slice {}", Key::of(&**slice)), meaning(slice)));
    offers.chain(slices).collect()
}

fn wanted(truth: &Truth, member: &Member, exempt: &Exempt) -> Picture {
    let mut all = Picture::new();
    for name in truth.offered.keys() {
        let is_exempt = exempt.contains(&(member.name().to_owned(), name.clone()));
        let Some(import) = truth.merged(name).import else { continue };
        if is_exempt || !member.has_namespace(&name.1.namespace) {
            continue;
        }
        for slice in truth.slices(name, &import, &member.config.cluster) {
            all.insert(format!("slice {}", Key::of(&slice)), meaning(&slice));
        }
        if let Ok(derived) = import.derived_service(&member.config.ip_families, None, None) {
            all.insert(format!("service {}", Key::of(&derived)), manners(&derived));
        }
        all.insert(format!("import {name:?}"), import_meaning(&import, &vips(member, name)));
    }
    all
}

fn vips(member: &Member, name: &Name) -> Vec<IpAddr> {
    let derived = Key::new(name.1.namespace.clone(), names::derived_service(name.0, &service(&name.1)));
    let held = member.sight.services.get(&derived);
    let ips = held.and_then(|service| service.spec.clone()?.cluster_ips).unwrap_or_default();
    ips.iter().filter_map(|ip| ip.parse().ok()).collect()
}

fn import_meaning(import: &Import, vips: &[IpAddr]) -> Value {
    match import.dialect {
        Dialect::Kep => lean(&import.kep_import(vips).spec),
        Dialect::Mcs => {
            let mut object = import.mcs_import(vips);
            let status = object.status.take();
            mcs_meaning(&object, status.map(|status| status.clusters).unwrap_or_default())
        }
    }
}

/// What a ServiceImport says, and what its exporters put on it. Users may put on it what they like.
fn mcs_meaning(import: &ServiceImport, clusters: Vec<ClusterStatus>) -> Value {
    let exported = [import.labels().get(TEAM), import.annotations().get(TEAM)];
    lean(json!({"spec": import.spec, "clusters": clusters, "exported": exported}))
}

/// What clients notice of a derived Service, with what the API server fills in.
fn manners(service: &Service) -> Value {
    let Some(spec) = &service.spec else { return Value::Null };
    lean(json!({
        "ports": spec.ports,
        "affinity": spec.session_affinity.as_deref().unwrap_or("None"),
        "affinityConfig": spec.session_affinity_config,
        "internalTrafficPolicy": spec.internal_traffic_policy.as_deref().unwrap_or("Cluster"),
        "trafficDistribution": spec.traffic_distribution,
    }))
}

fn is_ours<K: ResourceExt>(object: &K) -> bool {
    object.labels().get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGER)
}

fn held(member: &Member, exempt: &Exempt) -> Picture {
    let is_exempt = |name: &Name| exempt.contains(&(member.name().to_owned(), name.clone()));
    let hidden: BTreeSet<String> = exempt
        .iter()
        .filter(|(cluster, _)| cluster == member.name())
        .map(|(_, name)| names::derived_service(name.0, &service(&name.1)))
        .collect();
    let mut all = Picture::new();
    for slice in member.sight.slices.all() {
        if origin(&slice).is_some_and(|from| !from.native && !is_exempt(&from.name)) {
            all.insert(format!("slice {}", Key::of(&*slice)), meaning(&slice));
        }
    }
    for service in member.sight.services.all() {
        let is_native = service.labels().contains_key(NATIVE_IMPORT_LABEL);
        if is_ours(&*service) && !is_native && !hidden.contains(&service.name_any()) {
            all.insert(format!("service {}", Key::of(&*service)), manners(&service));
        }
    }
    for import in member.sight.kep_imports.all() {
        let name = (Dialect::Kep, Key::of(&*import));
        if is_ours(&*import) && !is_exempt(&name) {
            all.insert(format!("import {name:?}"), lean(&import.spec));
        }
    }
    for import in member.sight.mcs_imports.all() {
        let name = (Dialect::Mcs, Key::of(&*import));
        if is_ours(&*import) && !is_exempt(&name) {
            let clusters = import.status.as_ref().map(|status| status.clusters.clone());
            all.insert(format!("import {name:?}"), mcs_meaning(&import, clusters.unwrap_or_default()));
        }
    }
    all
}

/// An export says True where the model has nothing against it, False where it has, and nothing is on its way out for ever.
fn judge_exports(world: &World, truth: &Truth, member: &Member, exempt: &Exempt, found: &mut Vec<String>) {
    for export in exports(member) {
        let name = (export.dialect, Key::new(export.service.namespace.clone(), export.service.name.clone()));
        if exempt.iter().any(|(_, known)| *known == name) {
            continue;
        }
        let Merged { import, verdicts, .. } = truth.merged(&name);
        let fits = import.is_none_or(|import| world.joined().all(|other| has_family_of(other, &import)));
        let verdict = verdicts.get(&member.config.cluster);
        let withdrawn = verdict.is_some_and(|verdict| verdict.winner.is_none());
        let conflict = verdict.map(|verdict| !verdict.conflicts.is_empty());
        let expected = match name.0 {
            Dialect::Kep => [
                ("Initialized", Some(verdict.is_some())),
                ("Exported", Some(verdict.is_some() && !withdrawn && fits)),
                ("Conflict", conflict),
            ],
            Dialect::Mcs => [
                ("Valid", Some(verdict.is_some())),
                ("Ready", Some(verdict.is_some())),
                ("Conflict", conflict),
            ],
        };
        let said = conditions(member, &name);
        for (type_, wanted) in expected {
            let Some(wanted) = wanted.map(|wanted| if wanted { "True" } else { "False" }) else { continue };
            let said = said.get(type_);
            if said.is_none_or(|(status, _)| status != wanted) {
                found.push(format!(
                    "in {}: export {name:?}: {type_} should be {wanted}, is {said:?}",
                    member.name()
                ));
            }
        }
    }
    let ending = member
        .sight
        .kep_exports
        .all()
        .iter()
        .filter(|e| e.metadata.deletion_timestamp.is_some())
        .count()
        + member.sight.mcs_exports.all().iter().filter(|e| e.metadata.deletion_timestamp.is_some()).count();
    if ending > 0 {
        found.push(format!("in {}: {ending} exports do not go away", member.name()));
    }
}

/// Whether a member that has the namespace of an import can have an address for it, if it needs one.
fn has_family_of(member: &Member, import: &Import) -> bool {
    let derived = import.derived_service(&member.config.ip_families, None, None);
    !member.has_namespace(&import.service.namespace)
        || !matches!(derived, Err(NotDerived::FamilyNotSupported(_)))
}

/// What labels ask for is exported, and what they asked for once and no more is not.
fn judge_automatic_exports(member: &Member, found: &mut Vec<String>) {
    let (namespaces, services) = (member.sight.namespaces.all(), member.sight.services.all());
    let (kep, mcs) = (member.sight.kep_exports.all(), member.sight.mcs_exports.all());
    let exports = kep.iter().map(|export| (Dialect::Kep, &export.metadata));
    let exports = exports.chain(mcs.iter().map(|export| (Dialect::Mcs, &export.metadata)));
    let usual = member.config.usual_dialect;
    let (namespaces, services) = (namespaces.iter().map(|one| &**one), services.iter().map(|one| &**one));
    let plan = auto_export::plan(usual, namespaces, services, exports);
    if !plan.create.is_empty() || !plan.delete.is_empty() {
        found.push(format!(
            "in {}: automatic exports are still to be made or removed: {plan:?}",
            member.name()
        ));
    }
}

/// Type, status and message of what an export says.
pub(crate) fn conditions(member: &Member, name: &Name) -> BTreeMap<String, (String, String)> {
    let object = match name.0 {
        Dialect::Kep => json!(member.sight.kep_exports.get(&name.1).map(|export| (*export).clone())),
        Dialect::Mcs => json!(member.sight.mcs_exports.get(&name.1).map(|export| (*export).clone())),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().map(|c| (text(&c["type"]), (text(&c["status"]), text(&c["message"])))).collect()
}
