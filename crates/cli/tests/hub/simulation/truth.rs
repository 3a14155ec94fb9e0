//! What should be, from what users wrote: worked out here once more, not with the model's plan.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::karmada::strategy::STRATEGY_ANNOTATION;
use tombolo_api::tombolo::LOCAL_FIRST_MIN_READY_ANNOTATION;
use tombolo_model::multi_cluster_service::service_of;
use tombolo_runtime::Key;

use super::schedule::Run;
use super::sight::{MemberSight, addresses, service_name, source};
use super::users::SERVICES;
use crate::fleet::NAMESPACE;

type Addresses = BTreeSet<String>;

/// The clusters of a list, of those there are: all if none is named.
pub(crate) fn listed<'a>(names: &'a [String], all: &'a [String]) -> BTreeSet<&'a str> {
    let named = if names.is_empty() { all } else { names };
    named.iter().map(String::as_str).collect()
}

fn local(sight: &MemberSight, service: &str) -> (Addresses, usize) {
    let slices = sight.slices.all();
    let own = slices.iter().filter(|slice| source(slice).is_none() && service_name(slice) == service);
    let endpoints = own.clone().flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = endpoints.filter(|one| one.conditions.as_ref().is_none_or(|is| is.ready != Some(false)));
    let count = ready.count();
    (own.flat_map(|slice| addresses(slice)).cloned().collect(), count)
}

/// What a member has of a service from elsewhere, by source.
fn imported(sight: &MemberSight, service: &str) -> BTreeMap<String, Addresses> {
    let mut found: BTreeMap<String, Addresses> = BTreeMap::new();
    for slice in sight.slices.all().iter().filter(|slice| service_name(slice) == service) {
        if let Some(source) = source(slice) {
            found.entry(source.to_owned()).or_default().extend(addresses(slice).cloned());
        }
    }
    found
}

fn needs_remote(object: &MultiClusterService, local_ready: usize) -> bool {
    let annotation = |key: &str| object.annotations().get(key).map(String::as_str);
    let enough = annotation(LOCAL_FIRST_MIN_READY_ANNOTATION).map_or(1, |text| text.parse().unwrap());
    annotation(STRATEGY_ANNOTATION) != Some("LocalFirst") || local_ready < enough
}

/// What is not as it should be once everything runs and all clusters have joined.
pub(crate) fn differences(run: &Run) -> Vec<String> {
    let all: Vec<String> = run.fleet.members.iter().map(|member| member.name().to_owned()).collect();
    SERVICES.iter().flat_map(|service| of_service(run, service, &all)).collect()
}

fn of_service(run: &Run, service: &str, all: &[String]) -> Vec<String> {
    let key = Key::new(NAMESPACE, service);
    let object = run.hub_sight.objects.get(&key);
    let shared = object.as_deref().filter(|_| run.hub_sight.services.get(&key).is_some());
    let none = BTreeSet::new();
    let (provision, consumption) = match shared {
        Some(object) => (
            listed(&object.spec.service_provision_clusters, all),
            listed(&object.spec.service_consumption_clusters, all),
        ),
        None => (none.clone(), none),
    };
    let mut found = Vec::new();
    for (place, sight) in run.sights.iter().enumerate() {
        let name = all[place].as_str();
        let concerned = provision.contains(name) || consumption.contains(name);
        let has = sight.services.get(&key).is_some();
        if has != (concerned || run.guard.is_protected(place, service)) {
            found.push(format!("{name}: Service {service} is there: {has}"));
        }
        let mut expected: BTreeMap<String, Addresses> = BTreeMap::new();
        if consumption.contains(name)
            && shared.is_some_and(|object| needs_remote(object, local(sight, service).1))
        {
            let sources = run.sights.iter().enumerate().filter(|(other, _)| *other != place);
            for (other, sight) in sources.filter(|(other, _)| provision.contains(all[*other].as_str())) {
                if sight.slices.all().iter().any(|one| source(one).is_none() && service_name(one) == service)
                {
                    expected.insert(all[other].clone(), local(sight, service).0);
                }
            }
        }
        let held = imported(sight, service);
        if held != expected {
            found.push(format!("{name}: {service} has {held:?}, not {expected:?}"));
        }
    }
    if object.is_none() {
        let works = run.hub_sight.works.all();
        let left = works.iter().filter(|work| service_of(work).is_some_and(|of| of.name == *service));
        found.extend(left.map(|work| format!("Work {} is left", Key::of(&**work))));
    }
    if let Some(object) = object.as_deref() {
        let strangers = provision.iter().chain(&consumption).any(|name| !all.iter().any(|one| one == name));
        found.extend(untold(object, shared.is_some() && !strangers));
    }
    found
}

fn untold(object: &MultiClusterService, fine: bool) -> Vec<String> {
    let conditions = object.status.clone().unwrap_or_default().conditions;
    let is_true = |type_: &str| conditions.iter().any(|one| one.type_ == type_ && one.status == "True");
    let types = ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"];
    let all_true = types.iter().all(|type_| is_true(type_));
    // A stranger in one list does not make what is said of the other one untrue.
    let wrong = if fine { !all_true } else { is_true("ServiceApplied") };
    let said = conditions.iter().map(|one| format!("{}={} {}", one.type_, one.status, one.message));
    let name = object.name_any();
    wrong.then(|| format!("{name} says {:?}", said.collect::<Vec<_>>())).into_iter().collect()
}

/// The resource versions of everything, to see whether anything moves.
pub(crate) fn versions(run: &Run) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    let mut add = |place: &str, name: String, version: Option<String>| {
        all.insert((format!("{place} {name}"), version.unwrap_or_default()));
    };
    for (member, sight) in run.fleet.members.iter().zip(&run.sights) {
        let (place, services, slices) = (member.name(), sight.services.all(), sight.slices.all());
        services.iter().for_each(|one| add(place, one.name_any(), one.resource_version()));
        slices.iter().for_each(|one| add(place, one.name_any(), one.resource_version()));
    }
    let (works, objects) = (run.hub_sight.works.all(), run.hub_sight.objects.all());
    works.iter().for_each(|one| add("hub", Key::of(&**one).to_string(), one.resource_version()));
    objects.iter().for_each(|one| add("hub", one.name_any(), one.resource_version()));
    all
}
