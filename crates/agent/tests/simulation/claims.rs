//! What is said, against what is: conditions of exports and the members' watermarks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tombolo_api::tombolo::Dialect;
use tombolo_model::Import;
use tombolo_runtime::{Cache, Key};

use crate::convergence::{Exempt, conditions};
use crate::invariants::{Invariant, State, is_long_ago};
use crate::log::{Log, locked};
use crate::truth::{Name, Truth, meaning, origin};
use crate::world::{Member, World};

/// Everything that was said so far.
#[derive(Default)]
pub(crate) struct Claims {
    /// Status and time of a condition, by the object's uid and the condition's type.
    transitions: BTreeMap<(String, String), (Value, Value)>,
    /// By the member's namespace at the hub.
    lives: BTreeMap<String, Life>,
}

/// What the present agent of a member has said about how far it has come.
#[derive(Default)]
struct Life {
    /// What was heard last, whoever said it. The statement changes also for other reasons, and then nobody says it again.
    last: Option<[Option<u64>; 2]>,
    watermarks: Option<[Option<u64>; 2]>,
    /// Until then nobody knows who speaks.
    unclear_until: Option<Instant>,
}

impl Claims {
    /// A new agent begins with what it finds: what was said before counts no more.
    pub(crate) fn begin_life(&mut self, member: &Member, unclear: Duration) {
        let life = self.lives.entry(format!("tombolo-{}", member.name())).or_default();
        life.watermarks = None;
        life.unclear_until = Some(Instant::now() + unclear);
    }
}

impl Life {
    /// Takes note of a statement and returns what it goes back from, if it does.
    fn hear(&mut self, now: [Option<u64>; 2]) -> Option<[Option<u64>; 2]> {
        if self.last.replace(now) == Some(now) {
            return None;
        }
        if self.unclear_until.is_some_and(|until| Instant::now() < until) {
            self.watermarks = None;
            return None;
        }
        let before = self.watermarks.replace(now);
        before.filter(|before| now[0] < before[0] || now[1] < before[1])
    }
}

pub(crate) fn watch_conditions(state: &Arc<Mutex<State>>, member: &Member, log: &Log) {
    watch_kind(state, member, &member.sight.kep_exports, log);
    watch_kind(state, member, &member.sight.mcs_exports, log);
    watch_kind(state, member, &member.sight.mcs_imports, log);
}

fn watch_kind<K>(state: &Arc<Mutex<State>>, member: &Member, cache: &Cache<K>, log: &Log)
where
    K: ResourceExt<DynamicType = ()> + Serialize + 'static,
{
    let (state, log, place) = (state.clone(), log.clone(), member.name().to_owned());
    cache.listen(move |object| {
        let said = json!(object)["status"]["conditions"].take();
        let mut state = locked(&state);
        let (uid, said) = (object.uid().unwrap_or_default(), said.as_array().cloned().unwrap_or_default());
        let types: BTreeSet<String> = said.iter().map(|condition| condition["type"].to_string()).collect();
        // A condition that was taken back begins anew when it returns.
        state.claims.transitions.retain(|(other, type_), _| *other != uid || types.contains(type_));
        for condition in &said {
            let id = (uid.clone(), condition["type"].to_string());
            let now = (condition["status"].clone(), condition["lastTransitionTime"].clone());
            let before = state.claims.transitions.insert(id, now.clone());
            if let Some(before) = before.filter(|before| before.0 == now.0 && before.1 != now.1) {
                let what = format!(
                    "{} {} in {place}: {} stays {} but moved from {} to {}",
                    K::kind(&()),
                    Key::of(object),
                    condition["type"],
                    now.0,
                    before.1,
                    now.1
                );
                state.report(&log, Invariant::Transition, what);
            }
        }
    });
}

pub(crate) fn watch_watermarks(state: &Arc<Mutex<State>>, world: &World, log: &Log) {
    let (state, log) = (state.clone(), log.clone());
    world.hub_sight.memberships.listen(move |membership| {
        let statement = membership.status.as_ref().filter(|_| membership.name_any() == "member");
        let Some(status) = statement else { return };
        let now = [status.applied_up_to(), status.slices_applied_up_to()];
        let mut state = locked(&state);
        let place = membership.namespace().unwrap_or_default();
        let life = state.claims.lives.entry(place.clone()).or_default();
        if let Some(before) = life.hear(now) {
            let what = format!("the watermarks in {place} went back from {before:?} to {now:?}");
            state.report(&log, Invariant::Watermark, what);
        }
    });
}

/// Exports that are said to be everywhere while a live member does not have their endpoints. Asked only for services
/// that nobody changes and whose offers are at the hub.
pub(crate) fn lies(
    world: &World,
    truth: &Truth,
    name: &Name,
    import: &Import,
    exempt: &Exempt,
    is_heard: impl Fn(&str) -> bool,
) -> Vec<String> {
    let everywhere = match name.0 {
        Dialect::Kep => "Exported",
        Dialect::Mcs => "Ready",
    };
    let mut lies = Vec::new();
    for exporter in
        world.members.iter().filter(|member| is_long_ago(member.unobstructed) && is_heard(member.name()))
    {
        let said = conditions(exporter, name);
        if said.get(everywhere).is_none_or(|(status, _)| status != "True") {
            continue;
        }
        for consumer in world.joined() {
            let exempted = exempt.contains(&(consumer.name().to_owned(), name.clone()));
            if !exempted && is_heard(consumer.name()) && consumer.has_namespace(&name.1.namespace) {
                lies.extend(missing(truth, name, import, exporter, consumer));
            }
        }
    }
    lies
}

fn missing(
    truth: &Truth,
    name: &Name,
    import: &Import,
    exporter: &Member,
    consumer: &Member,
) -> Option<String> {
    let wanted = truth.slices(name, import, &consumer.config.cluster);
    let mut of_exporter =
        wanted.iter().filter(|slice| origin(slice).is_some_and(|from| from.source == exporter.name()));
    let lacking = of_exporter.find(|slice| {
        let held = consumer.sight.slices.get(&Key::of(*slice));
        held.is_none_or(|held| meaning(&held) != meaning(slice))
    })?;
    let (exporter, consumer) = (exporter.name(), consumer.name());
    Some(format!("{exporter} says that {name:?} is everywhere, but {consumer} lacks {}", Key::of(lacking)))
}
