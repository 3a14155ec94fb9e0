//! Exports that a label asks for: made, and removed again, without anybody's manifest.

use std::sync::Arc;

use kube::api::PostParams;
use kube::{Api, Error, ResourceExt};
use tombolo_api::tombolo::{Dialect, ServiceRef};
use tombolo_api::{kep, mcs};
use tombolo_model::auto_export::{Plan, marks, plan};
use tombolo_runtime::{Controller, Key, Next, Queue, unless_there};

use crate::edition::{Kep, Kind, Mcs};
use crate::shared::{EditionViews, Shared};
use crate::write::delete;

/// The controller of automatic exports, a Service at a time.
pub(crate) struct AutoExports {
    shared: Arc<Shared>,
    kep: Arc<EditionViews<Kep>>,
    mcs: Arc<EditionViews<Mcs>>,
    queue: Arc<Queue<Key>>,
}

impl AutoExports {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        kep: &Arc<EditionViews<Kep>>,
        mcs: &Arc<EditionViews<Mcs>>,
    ) -> Self {
        let auto = Self { shared: shared.clone(), kep: kep.clone(), mcs: mcs.clone(), queue: Arc::default() };
        auto.listen();
        auto
    }

    fn listen(&self) {
        let add = self.queue.clone();
        self.shared.services.listen(move |service| add.add(Key::of(service)));
        let add = self.queue.clone();
        self.kep.exports.listen(move |export| add.add(Key::of(export)));
        let add = self.queue.clone();
        self.mcs.exports.listen(move |export| add.add(Key::of(export)));
        let (add, services) = (self.queue.clone(), self.shared.services.clone());
        self.shared.namespaces.listen(move |namespace| {
            services.within(&namespace.name_any()).iter().for_each(|service| add.add(Key::of(&**service)));
        });
    }

    fn plan(&self, item: &Key) -> Plan {
        let namespace = self.shared.namespaces.get(&Key::new("", item.namespace.clone()));
        let service = self.shared.services.get(item);
        let (kep, mcs) = (self.kep.exports.get(item), self.mcs.exports.get(item));
        let exports = kep.iter().map(|export| (Dialect::Kep, &export.metadata));
        let exports = exports.chain(mcs.iter().map(|export| (Dialect::Mcs, &export.metadata)));
        plan(self.shared.config.usual_dialect, namespace.as_deref(), service.as_deref(), exports)
    }

    fn api<K: Kind>(&self, service: &ServiceRef) -> Api<K> {
        Api::namespaced(self.shared.member.clone(), &service.namespace)
    }

    async fn create(&self, dialect: Dialect, service: &ServiceRef) -> Result<(), Error> {
        let made = match dialect {
            Dialect::Kep => make(&self.api::<kep::ServiceExport>(service), service).await,
            Dialect::Mcs => make(&self.api::<mcs::ServiceExport>(service), service).await,
        };
        // Somebody was quicker: then it is theirs.
        unless_there(made)
    }

    async fn delete(&self, dialect: Dialect, service: &ServiceRef) -> Result<(), Error> {
        let key = Key::new(service.namespace.clone(), service.name.clone());
        match dialect {
            Dialect::Kep => match self.kep.exports.get(&key) {
                Some(export) => delete(&self.api(service), &*export).await,
                None => Ok(()),
            },
            Dialect::Mcs => match self.mcs.exports.get(&key) {
                Some(export) => delete(&self.api(service), &*export).await,
                None => Ok(()),
            },
        }
    }
}

async fn make<K: Kind + Default>(api: &Api<K>, service: &ServiceRef) -> Result<(), Error> {
    let mut export = K::default();
    export.meta_mut().name = Some(service.name.clone());
    export.labels_mut().extend(marks());
    api.create(&PostParams::default(), &export).await.map(|_| ())
}

impl Controller for AutoExports {
    type Item = Key;

    const NAME: &'static str = "auto-exports";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, item: &Key) -> Result<Next, Error> {
        let plan = self.plan(item);
        for complaint in &plan.complaints {
            tracing::warn!(%complaint, "an automatic export was asked for in words nobody understands");
        }
        for (dialect, service) in &plan.create {
            self.create(*dialect, service).await?;
        }
        for (dialect, service) in &plan.delete {
            self.delete(*dialect, service).await?;
        }
        Ok(Next::Rest)
    }
}
