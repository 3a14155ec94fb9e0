//! Applying what Works hold, and removing what they no longer do.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PostParams;
use kube::{Api, Error, ResourceExt};
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::{ADOPTED_ANNOTATION, PRESERVED_ANNOTATION, ServiceRef};
use tombolo_model::multi_cluster_service::{self, Version, is_collectable, same_ports, serves, translate};
use tombolo_model::names;
use tombolo_runtime::{
    Change, Controller, Extent, Key, Next, Queue, delete, find, in_time, is_conflict, is_refusal, put,
    unless_there,
};

use crate::attach::{Attachments, Wish, is_local_first, service_of};
use crate::manifest::{Manifest, TakenKind, Target, is_dispatched, read_all, targets};
use crate::mark::{Made, mark};
use crate::service;
use crate::shared::{Shared, WRITER, template_in};
use crate::status::{Done, Results, Standing};
use crate::tell::Tidings;
use crate::turns::Turns;

/// A manifest that takes longer is given up for now, while there is time left to say so. An attempt may take 10 s in all.
const LONGEST_APPLYING: Duration = Duration::from_secs(8);

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// Whether a Work is applied.
    Work(String),
    /// Whether an object in the member still has a Work.
    Object(Target),
}

/// The controller of a member's objects.
pub(crate) struct Executor {
    shared: Arc<Shared>,
    queue: Arc<Queue<Item>>,
    attachments: Arc<Attachments>,
    tidings: Arc<Tidings>,
    turns: Turns,
}

impl Executor {
    pub(crate) fn new(shared: &Arc<Shared>, tidings: &Arc<Tidings>) -> Self {
        let (queue, attachments) = (Arc::new(Queue::new()), Arc::new(Attachments::new()));
        listen_to_works(shared, &queue, &attachments);
        listen_to_member(shared, &queue);
        let (shared, tidings) = (shared.clone(), tidings.clone());
        Self { shared, queue, attachments, tidings, turns: Turns::default() }
    }
}

fn listen_to_works(shared: &Arc<Shared>, queue: &Arc<Queue<Item>>, attachments: &Arc<Attachments>) {
    let (add, look, attachments) = (queue.clone(), shared.clone(), attachments.clone());
    shared.works.listen_to_changes(move |change| {
        let (Change::Put { new: work, .. } | Change::Gone(work)) = change;
        if let Some(service) = multi_cluster_service::service_of(work) {
            attachments.forget_unless_wanted(&look, &service);
        }
        let last = match change {
            Change::Put { old, new } => {
                add.add(Item::Work(new.name_any()));
                *old
            }
            Change::Gone(last) => Some(*last),
        };
        last.into_iter().flat_map(targets).for_each(|target| add.add(Item::Object(target)));
        // Slices travel in the words of the template.
        if let (Change::Put { old, new }, Some(service)) = (change, multi_cluster_service::service_of(work))
            && new.name_any() == names::service_work(&service)
            && let Some(template) = template_in(new)
            && !old.and_then(template_in).is_some_and(|old| same_ports(&old, &template))
        {
            look.works_of(&service).iter().for_each(|work| add.add(Item::Work(work.name_any())));
        }
    });
}

/// Whatever happens to an object that a Work put there, or wants there, is looked at.
fn listen_to_member(shared: &Arc<Shared>, queue: &Arc<Queue<Item>>) {
    let (add, look) = (queue.clone(), shared.clone());
    shared.member.services.listen_to_changes(move |change| {
        let (Change::Put { new: service, .. } | Change::Gone(service)) = change;
        note(&look, &add, Target::of_service(service), look.maker(*service));
        // Slices have the names of its ports.
        let service = match change {
            Change::Put { old: Some(old), new } if same_ports(old, new) => return,
            Change::Put { new, .. } => *new,
            Change::Gone(_) => return,
        };
        let name =
            ServiceRef { namespace: service.namespace().unwrap_or_default(), name: service.name_any() };
        look.works_of(&name).iter().for_each(|work| add.add(Item::Work(work.name_any())));
    });
    let (add, look) = (queue.clone(), shared.clone());
    shared.member.slices.listen(move |slice| {
        note(&look, &add, Target::of_slice(slice), look.maker(slice));
        // Local endpoints that come and go decide whether remote ones are needed.
        let service = service_of(slice).filter(|service| is_collectable(slice, service));
        let works = service.iter().flat_map(|service| look.works_of(service));
        works.filter(|work| is_local_first(work)).for_each(|work| add.add(Item::Work(work.name_any())));
    });
    let (add, look) = (queue.clone(), shared.clone());
    shared.member.namespaces.listen(move |namespace| {
        let name = namespace.name_any();
        for work in look.works.all() {
            if targets(&work).iter().any(|target| target.key.namespace == name) {
                add.add(Item::Work(work.name_any()));
            }
        }
    });
}

fn note(shared: &Shared, queue: &Queue<Item>, target: Target, maker: Option<String>) {
    shared.wanting(&target).iter().for_each(|work| queue.add(Item::Work(work.name_any())));
    if maker.is_some() {
        queue.add(Item::Object(target));
    }
}

impl Controller for Executor {
    type Item = Item;

    const NAME: &'static str = "works";
    const ABREAST: usize = 8;

    fn queue(&self) -> &Queue<Item> {
        &self.queue
    }

    async fn reconcile(&self, item: &Item) -> Result<Next, Error> {
        match item {
            Item::Work(name) => return self.apply(name).await,
            Item::Object(Target { kind: TakenKind::Service, key }) => self.check_service(key).await?,
            Item::Object(Target { kind: TakenKind::EndpointSlice, key }) => self.check_slice(key).await?,
        }
        Ok(Next::Rest)
    }
}

/// Why a manifest is not applied: a state of affairs that somebody has to change, or an attempt that failed.
enum Failure {
    Refused(String),
    Attempt(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Attempt(error)
    }
}

type Applied = Result<Done, Failure>;

impl Executor {
    async fn apply(&self, name: &str) -> Result<Next, Error> {
        let Some(work) = self.shared.work(name).filter(|work| is_dispatched(work)) else {
            self.tidings.forget(name);
            return Ok(Next::Rest);
        };
        let mut results = Results::new();
        let mut attempt = Ok(());
        for manifest in read_all(&work) {
            match manifest {
                Err(refusal) => results.push((None, Err(refusal))),
                Ok(manifest) => {
                    let outcome = match self.apply_in_time(&work, &manifest).await {
                        Ok(done) => Ok(done),
                        Err(Failure::Refused(why)) => Err(why),
                        Err(Failure::Attempt(error)) => {
                            let why = error.to_string();
                            attempt = Err(error);
                            Err(why)
                        }
                    };
                    results.push((Some(manifest), outcome));
                }
            }
        }
        let again = results.iter().filter_map(|(_, outcome)| outcome.as_ref().ok()?.look_again_in).min();
        match &attempt {
            // Caches that are late make conflicts: nothing to tell anybody.
            Err(error) if is_conflict(error) => {}
            // A server that is busy or out of reach for a moment is soon asked again.
            Err(error) if !is_refusal(error) => self.tidings.bring_later(work, results),
            _ => self.tidings.bring(work, results),
        }
        attempt.map(|()| again.map_or(Next::Rest, Next::Again))
    }

    /// A server that does not answer is a failure as well: one that is not noticed here is told to nobody.
    async fn apply_in_time(&self, work: &Work, manifest: &Manifest) -> Applied {
        let applying = async {
            let _turn = self.turns.beside(multi_cluster_service::service_of(work)).await;
            Ok(self.apply_one(work, manifest).await)
        };
        in_time(LONGEST_APPLYING, applying).await?
    }

    async fn apply_one(&self, work: &Work, manifest: &Manifest) -> Applied {
        self.has_namespace(&manifest.target().key.namespace).await?;
        match manifest {
            Manifest::Service(service) => {
                Ok(Done::with_status(service::apply(&self.shared, work, service).await?))
            }
            Manifest::Slice(slice) => self.apply_slice(work, slice).await,
        }
    }

    async fn has_namespace(&self, name: &str) -> Result<(), Failure> {
        match self.shared.member.namespaces.get(&Key::new("", name)) {
            Some(found) if found.metadata.deletion_timestamp.is_none() => Ok(()),
            Some(_) => Err(Failure::Refused(format!("namespace {name} is being deleted"))),
            None if !self.shared.config.create_namespaces => {
                Err(Failure::Refused(format!("there is no namespace {name}")))
            }
            None => {
                let mut namespace = Namespace::default();
                namespace.metadata.name = Some(name.to_owned());
                let api: Api<Namespace> = Api::all(self.shared.member.client.clone());
                Ok(unless_there(api.create(&PostParams::default(), &namespace).await)?)
            }
        }
    }

    /// Makes the slice, or takes it back while the strategy does without it.
    async fn apply_slice(&self, work: &Work, slice: &EndpointSlice) -> Applied {
        let wish = Wish::read(work).map_err(Failure::Refused)?;
        let key = Key::of(slice);
        let api: Api<EndpointSlice> = Api::namespaced(self.shared.member.client.clone(), &key.namespace);
        let answer = self.attachments.judge(&self.shared, wish, slice).await?;
        let standing = match wish {
            Wish::Always => Standing::Always,
            Wish::LocalFirst(_) if answer.attached => Standing::Attached,
            Wish::LocalFirst(_) => Standing::HeldBack,
        };
        let held_back = standing == Standing::HeldBack;
        let done = Done { status: None, standing, look_again_in: answer.look_again_in };
        let known = self.shared.member.slices.get(&key);
        // One that is not known yet brings us back when it is.
        let mut current = if held_back { known } else { find(&api, known, &key.name).await? };
        if current.as_ref().is_some_and(|held| self.shared.maker(&**held).is_none()) {
            return Err(Failure::Refused(format!("an EndpointSlice {key} of someone else is in the way")));
        }
        if held_back {
            if let Some(held) = &current {
                delete(&api, &**held).await?;
            }
            return Ok(done);
        }
        if let Some(held) = &current {
            let (given, there) = (Version::of_copy(&slice.metadata), Version::of_copy(&held.metadata));
            if !given.may_replace(&there) {
                let why = format!(
                    "generation {} of EndpointSlice {key} is older than generation {}, which is there",
                    given.generation, there.generation
                );
                return Err(Failure::Refused(why));
            }
            // The family of a slice cannot be changed.
            if held.address_type != slice.address_type {
                delete(&api, &**held).await?;
                current = None;
            }
        }
        let (mut desired, unserved) = self.with_names_from_here(slice);
        mark(&mut desired, work, &self.shared.namespace);
        put(WRITER, &api, current.as_deref(), &desired, Extent::Whole).await?;
        unserved.map_or(Ok(done), |why| Err(Failure::Refused(why)))
    }

    /// A slice as it stands behind the Service here, which may name its ports otherwise, and why it gets no traffic, if so.
    fn with_names_from_here(&self, slice: &EndpointSlice) -> (EndpointSlice, Option<String>) {
        let mut desired = slice.clone();
        let Some(service) = service_of(slice) else { return (desired, None) };
        let (template, here) = (self.shared.template(&service), self.shared.service(&service));
        let (Some(template), Some(here)) = (template, here) else { return (desired, None) };
        let ports = translate(slice.ports.as_deref().unwrap_or_default(), &template, &here);
        let unserved = (!serves(&ports, &here)).then(|| {
            format!("Service {} there has none of the slice's ports, by number or name", Key::of(&*here))
        });
        desired.ports = Some(ports);
        (desired, unserved)
    }

    /// Whether the Work that made an object is gone or does not hold it any more.
    fn is_orphan<K: Made>(&self, object: &K, target: &Target) -> bool {
        let Some(maker) = self.shared.maker(object) else { return false };
        let wanted = self.shared.work(&maker).is_some_and(|work| targets(&work).contains(target));
        !wanted && !object.annotations().contains_key(PRESERVED_ANNOTATION)
    }

    async fn check_service(&self, key: &Key) -> Result<(), Error> {
        let Some(found) = self.shared.member.services.get(key) else { return Ok(()) };
        if !self.is_orphan(&*found, &Target::of_service(&found)) {
            return Ok(());
        }
        let api: Api<Service> = Api::namespaced(self.shared.member.client.clone(), &key.namespace);
        match found.annotations().contains_key(ADOPTED_ANNOTATION) {
            true => service::release(&api, &found).await,
            false => delete(&api, &*found).await,
        }
    }

    async fn check_slice(&self, key: &Key) -> Result<(), Error> {
        let orphan = || {
            let found = self.shared.member.slices.get(key);
            found.filter(|slice| self.is_orphan(&**slice, &Target::of_slice(slice)))
        };
        let Some(slice) = orphan() else { return Ok(()) };
        let _turn = self.turns.alone(service_of(&slice)).await;
        // Somebody may want it by now.
        let Some(slice) = orphan() else { return Ok(()) };
        delete(&Api::namespaced(self.shared.member.client.clone(), &key.namespace), &*slice).await
    }
}
