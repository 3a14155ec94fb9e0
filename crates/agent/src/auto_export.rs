//! Exports that a label asks for: made, and removed again, without anybody's manifest.

use std::sync::Arc;

use kube::api::PostParams;
use kube::{Api, Error, ResourceExt};
use tombolo_api::tombolo::{Dialect, ServiceRef};
use tombolo_api::{kep, mcs};
use tombolo_model::auto_export::{Plan, marks, plan};
use tombolo_runtime::{Controller, Key, Next, Queue, is_conflict};

use crate::edition::{Kep, Kind, Mcs};
use crate::shared::{EditionViews, Shared};
use crate::write::delete;

/// The controller of automatic exports. It has one item: all of them.
pub(crate) struct AutoExports {
    shared: Arc<Shared>,
    kep: Arc<EditionViews<Kep>>,
    mcs: Arc<EditionViews<Mcs>>,
    queue: Arc<Queue<()>>,
}

impl AutoExports {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        kep: &Arc<EditionViews<Kep>>,
        mcs: &Arc<EditionViews<Mcs>>,
    ) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.namespaces.listen(move |_| add.add(()));
        let add = queue.clone();
        shared.services.listen(move |_| add.add(()));
        let add = queue.clone();
        kep.exports.listen(move |_| add.add(()));
        let add = queue.clone();
        mcs.exports.listen(move |_| add.add(()));
        Self { shared: shared.clone(), kep: kep.clone(), mcs: mcs.clone(), queue }
    }

    fn plan(&self) -> Plan {
        let (namespaces, services) = (self.shared.namespaces.all(), self.shared.services.all());
        let (kep, mcs) = (self.kep.exports.all(), self.mcs.exports.all());
        let exports = kep.iter().map(|export| (Dialect::Kep, &export.metadata));
        let exports = exports.chain(mcs.iter().map(|export| (Dialect::Mcs, &export.metadata)));
        plan(
            self.shared.config.usual_dialect,
            namespaces.iter().map(|namespace| &**namespace),
            services.iter().map(|service| &**service),
            exports,
        )
    }

    fn api<K: Kind>(&self, service: &ServiceRef) -> Api<K> {
        Api::namespaced(self.shared.member.clone(), &service.namespace)
    }

    async fn create(&self, dialect: Dialect, service: &ServiceRef) -> Result<(), Error> {
        let made = match dialect {
            Dialect::Kep => make(&self.api::<kep::ServiceExport>(service), service).await,
            Dialect::Mcs => make(&self.api::<mcs::ServiceExport>(service), service).await,
        };
        match made {
            // Somebody was quicker: then it is theirs.
            Err(error) if !is_conflict(&error) => Err(error),
            _ => Ok(()),
        }
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
    type Item = ();

    const NAME: &'static str = "auto-exports";

    fn queue(&self) -> &Queue<()> {
        &self.queue
    }

    async fn reconcile(&self, (): &()) -> Result<Next, Error> {
        let plan = self.plan();
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
