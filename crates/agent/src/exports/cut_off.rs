//! Taking back that exports are everywhere, once the other clusters may have let this one go.
//!
//! Apart from what brings offers to the hub, because it has to work without having seen the hub at all: an agent that starts
//! while the hub is away finds exports that say what was true long ago.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Error, Resource as _, ResourceExt as _};
use serde_json::json;
use tombolo_api::condition;
use tombolo_model::conditions::of_cut_off_export;
use tombolo_runtime::{Controller, Key, Next, Queue};

use super::{is_everywhere, patch};
use crate::edition::Edition;
use crate::shared::{EditionViews, Shared};

/// The controller of exports of a cluster that is cut off.
pub(crate) struct CutOff<E: Edition> {
    shared: Arc<Shared>,
    views: Arc<EditionViews<E>>,
    queue: Arc<Queue<Key>>,
}

impl<E: Edition> CutOff<E> {
    pub(crate) fn new(shared: &Arc<Shared>, views: &Arc<EditionViews<E>>) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        views.exports.listen(move |export| add.add(Key::of(export)));
        let (add, exports) = (queue.clone(), views.exports.clone());
        shared.reach.on_change(move || exports.all().iter().for_each(|export| add.add(Key::of(&**export))));
        Self { shared: shared.clone(), views: views.clone(), queue }
    }
}

impl<E: Edition> Controller for CutOff<E> {
    type Item = Key;

    const NAME: &'static str = "cut-off exports";
    const ABREAST: usize = 8;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, item: &Key) -> Result<Next, Error> {
        let export = self.views.exports.get(item).filter(|export| is_everywhere::<E>(export));
        let Some(export) = export.filter(|_| self.shared.reach.is_lost()) else { return Ok(Next::Rest) };
        let mut conditions = E::conditions(&export);
        let desired = of_cut_off_export(E::POLICY.dialect, export.meta().generation);
        condition::set(&mut conditions, desired, Time(self.shared.config.clock.now()));
        let metadata = json!({"resourceVersion": export.resource_version()});
        let body = json!({"metadata": metadata, "status": {"conditions": conditions}});
        patch::<E>(&self.shared, &export, &body, true).await?;
        Ok(Next::Rest)
    }
}
