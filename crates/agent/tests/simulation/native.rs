//! Native names in a run: strategies that users put on imports, and what the model makes of them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde_json::{Value, json};
use tombolo_api::karmada::strategy::STRATEGY_ANNOTATION;
use tombolo_api::mcs::ServiceImport;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::{Dialect, NATIVE_IMPORT_LABEL, NATIVE_NAMING_FINALIZER, SET_ASIDE_SELECTOR_KEY};
use tombolo_model::strategy::{self, Plan, Situation, Source, Step, plan};
use tombolo_runtime::Key;

use crate::convergence::{Picture, compare};
use crate::schedule::{Run, SERVICES, key};
use crate::truth::{Truth, meaning, origin, service};
use crate::world::Member;

/// What a user may write; the last is no strategy.
const WORDS: [&str; 7] =
    ["RemoteOnly", "RemoteOnly", "RemoteOnly", "LocalAndRemote", "LocalAndRemote", "LocalOnly", "Nonsense"];

impl Run {
    /// A user gives an import a strategy, or takes it away.
    pub(crate) async fn set_strategy(&mut self) {
        let places = 0..self.world.members.len();
        let all = places.flat_map(|place| (0..SERVICES.len()).map(move |which| (place, which)));
        let derived: Vec<(usize, usize)> = all.filter(|one| self.is_derived(*one)).collect();
        // One of which the member has a Service of its own, most of the time: there is more to do then.
        let own: Vec<(usize, usize)> = derived.iter().copied().filter(|one| self.is_served(*one)).collect();
        let drawn = if self.dice.u32(0..4) > 0 { own } else { derived };
        let Some((place, which)) = self.dice.choice(drawn) else { return };
        let word = self.dice.choice(WORDS).filter(|_| self.dice.u32(0..8) > 0);
        self.use_strategy(place, which, word).await;
    }

    /// Whether a member has an import that no user wrote: what a user's own says is compared with how it was.
    fn is_derived(&self, (place, which): (usize, usize)) -> bool {
        let import = self.world.members[place].sight.mcs_imports.get(&key(which));
        import.is_some_and(|import| !strategy::is_user_written(&import))
    }

    fn is_served(&self, (place, which): (usize, usize)) -> bool {
        self.world.members[place].sight.services.get(&key(which)).is_some()
    }

    pub(crate) async fn use_strategy(&mut self, place: usize, which: usize, word: Option<&str>) {
        let key = self.touch(place, which, &format!("strategy {word:?}"));
        self.guard.open(&self.world.members[place], &key);
        let patch = json!({"metadata": {"annotations": {STRATEGY_ANNOTATION: word}}});
        self.world.members[place].edit::<ServiceImport>(&key, &patch).await;
    }

    /// A user changes what stands behind a Service of the own name, or the selector that was put aside.
    pub(crate) async fn tamper_with_native(&mut self, place: usize, which: usize) {
        let kind = self.dice.u32(0..4);
        let key = self.touch(place, which, &format!("a user tampers with the native name ({kind})"));
        self.guard.open(&self.world.members[place], &key);
        let member = &self.world.members[place];
        let selector = json!({"spec": {"selector": {SET_ASIDE_SELECTOR_KEY: null}}});
        let imported = behind(member, &key).into_iter().filter(|slice| origin(slice).is_some());
        let imported: Vec<Key> = imported.map(|slice| Key::of(&*slice)).collect();
        match kind {
            0 => member.edit::<Service>(&key, &selector).await,
            1 if is_made(member, &key) => member.delete::<Service>(&key).await,
            1 => {}
            2 => {
                for slice in imported {
                    member.delete::<EndpointSlice>(&slice).await;
                }
            }
            _ => {
                for slice in imported {
                    member.edit::<EndpointSlice>(&slice, &json!({"endpoints": []})).await;
                }
            }
        }
    }
}

/// The slices behind a Service of the own name, whoever wrote them.
pub(crate) fn behind(member: &Member, key: &Key) -> Vec<Arc<EndpointSlice>> {
    let slices = member.sight.slices.within(&key.namespace).into_iter();
    slices.filter(|slice| slice.labels().get(SERVICE_NAME_LABEL) == Some(&key.name)).collect()
}

/// Whether the Service of the name was made for an import.
fn is_made(member: &Member, key: &Key) -> bool {
    let found = member.sight.services.get(key);
    found.is_some_and(|found| found.labels().contains_key(NATIVE_IMPORT_LABEL))
}

/// What the model wants of a name in a member.
fn planned(truth: &Truth, member: &Member, key: &Key) -> Plan {
    let name = (Dialect::Mcs, key.clone());
    let parts = truth.merged(&name).import.map(|import| import.clusters).unwrap_or_default();
    let own = &member.config.cluster;
    let sources = parts.iter().filter(|part| part.cluster != *own).filter_map(|part| {
        let slices = truth.offered.get(&name)?.get(&part.cluster)?.slices.iter().collect();
        Some(Source { part, declared: &truth.declared[&part.cluster], slices, left_out: 0 })
    });
    let (import, present) = (member.sight.mcs_imports.get(key), member.sight.services.get(key));
    let slices = behind(member, key);
    plan(&Situation {
        service: &service(key),
        import: import.as_deref(),
        present: present.as_deref(),
        slices: slices.iter().map(|slice| &**slice).collect(),
        sources: sources.collect(),
        exported: parts.iter().any(|part| part.cluster == *own),
        supported: &member.config.ip_families,
    })
}

/// The imported slices that shall stand behind a Service of the own name.
pub(crate) fn slices(truth: &Truth, member: &Member, key: &Key) -> Vec<EndpointSlice> {
    planned(truth, member, key).slices.into_values().collect()
}

/// What of native names is not as it should be: the model has nothing left to do.
pub(crate) fn judge(truth: &Truth, member: &Member, found: &mut Vec<String>) {
    for which in (0..SERVICES.len()).filter(|which| member.has_namespace(SERVICES[*which].0)) {
        let (key, place) = (key(which), format!("in {}, native", member.name()));
        let plan = planned(truth, member, &key);
        let picture = |slice: &EndpointSlice| (format!("slice {}", Key::of(slice)), meaning(slice));
        let wanted: Picture = plan.slices.values().map(picture).collect();
        let held = behind(member, &key);
        let held = held.iter().filter(|slice| origin(slice).is_some_and(|from| from.native));
        compare(&place, &wanted, &held.map(|slice| picture(slice)).collect(), found);
        if plan.service != Step::Leave {
            found.push(format!("{place}: the Service {key} is still to be changed: {:?}", plan.service));
        }
        if !plan.evicted.is_empty() {
            found.push(format!("{place}: local slices stay behind {key}: {:?}", plan.evicted));
        }
        if let Some(import) = member.sight.mcs_imports.get(&key) {
            judge_import(&place, &import, &plan, found);
        }
    }
}

fn judge_import(place: &str, import: &ServiceImport, plan: &Plan, found: &mut Vec<String>) {
    let finalizer = import.finalizers().iter().any(|name| name == NATIVE_NAMING_FINALIZER);
    if finalizer != plan.finalizer {
        found.push(format!("{place}: the finalizer of {} should be {}", Key::of(import), plan.finalizer));
    }
    let said = json!(import)["status"]["conditions"].take();
    let said = said.as_array().cloned().unwrap_or_default();
    for wanted in plan.conditions.iter().flatten() {
        let wanted = json!([wanted.type_, wanted.status.to_string(), wanted.reason, wanted.message]);
        let is_said = |condition: &Value| {
            json!([condition["type"], condition["status"], condition["reason"], condition["message"]])
                == wanted
        };
        if !said.iter().any(is_said) {
            found.push(format!("{place}: {} should say {wanted}, says {said:?}", Key::of(import)));
        }
    }
}
