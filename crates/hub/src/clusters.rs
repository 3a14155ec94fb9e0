//! Joining and leaving.
//!
//! A cluster joins when its agent introduces itself at the hub, or when the hub is told to reach into it: then there is a
//! Cluster object, an execution namespace, and the agent may work in it. It leaves when its Cluster object is deleted: its
//! Works go, then the namespace, then what it stated about itself. Nothing of that needs the cluster to answer. A name
//! that comes back with another identity is another cluster: the old one leaves first. Clusters that are not ours
//! (`presence`) are left alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Error, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use tombolo_api::karmada::SYSTEM_LABEL;
use tombolo_api::karmada::cluster::{Cluster, ClusterSpec, FINALIZER, SyncMode};
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::{
    CLUSTER_FINALIZER, HEARTBEAT, HUB_ACCOUNT, MANAGED_BY_LABEL, MANAGER, MEMBER_LABEL, Membership,
};
use tombolo_model::{ClusterId, names, origin};
use tombolo_runtime::{
    Change, Controller, Key, Next, Queue, delete, is_already_there, unless_gone, unless_there,
};

use crate::presence::{Presence, is_marked};
use crate::shared::{Shared, WRITER, is_ready, locked};

/// The role that lets an agent work in its execution namespace (deploy/hub/hub-rbac.yaml).
const MEMBER_ROLE: &str = "tombolo-member-works";

/// How often an agent is let in again: who removes its rights by mistake must not have to know of them. Nobody watches them, and
/// where they are, nothing is written.
const ADMIT_EVERY: Duration = Duration::from_secs(60);

/// The controller of clusters, by name.
pub(crate) struct Clusters {
    shared: Arc<Shared>,
    queue: Arc<Queue<String>>,
    /// The namespaces in which agents were let in, by UID, and when.
    admitted: Mutex<BTreeMap<String, Instant>>,
}

impl Clusters {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.clusters.listen_to_changes(move |change| {
            let (Change::Put { new: cluster, .. } | Change::Gone(cluster)) = change;
            add.add(cluster.name_any());
        });
        let add = queue.clone();
        shared.memberships.listen_to_changes(move |change| {
            let (Change::Put { new: membership, .. } | Change::Gone(membership)) = change;
            // Watermarks move all the time.
            if matches!(change, Change::Put { old: Some(old), new } if old.spec == new.spec) {
                return;
            }
            if let Ok(cluster) = origin::check_membership(membership) {
                add.add(cluster.to_string());
            }
        });
        let add = queue.clone();
        shared.namespaces.listen(move |namespace| {
            let prefix = tombolo_api::karmada::EXECUTION_NAMESPACE_PREFIX;
            if let Some(cluster) = namespace.name_any().strip_prefix(prefix) {
                add.add(cluster.to_owned());
            }
        });
        Self { shared: shared.clone(), queue, admitted: Mutex::default() }
    }

    /// Where whoever learns of a cluster says so.
    pub(crate) fn inbox(&self) -> Arc<Queue<String>> {
        self.queue.clone()
    }
}

impl Controller for Clusters {
    type Item = String;

    const NAME: &'static str = "clusters";

    fn queue(&self) -> &Queue<String> {
        &self.queue
    }

    async fn reconcile(&self, name: &String) -> Result<Next, Error> {
        self.shared.metrics.count_reconcile(Self::NAME);
        let Ok(id) = name.parse::<ClusterId>() else { return Ok(Next::Rest) };
        let Some(namespace) = names::execution_namespace(&id) else { return Ok(Next::Rest) };
        let presence = self.shared.presence(&id);
        match (self.shared.cluster(name), presence) {
            (None, Some(presence)) => self.register(&id, &presence).await?,
            (None, None) => self.shared.metrics.forget_cluster(name),
            (Some(cluster), presence) if !self.shared.is_ours(&cluster) => {
                self.shared.metrics.forget_cluster(name);
                if presence.is_some() {
                    tracing::warn!(
                        cluster = name,
                        "there is a Cluster of that name with another identity that is not ours: the member takes no \
                         part in MultiClusterServices unless it is given another id, or that Cluster is deleted"
                    );
                }
            }
            (Some(cluster), _) if cluster.metadata.deletion_timestamp.is_some() => {
                return self.leave(&id, &cluster, &namespace).await;
            }
            (Some(cluster), Some(presence)) if presence.is_other_than(&cluster) => {
                tracing::info!(cluster = name, "the name has a new owner: the old cluster leaves");
                self.dismiss(&cluster).await?;
            }
            (Some(cluster), presence) => {
                return self.settle(&id, &cluster, presence.as_ref(), &namespace).await;
            }
        }
        Ok(Next::Rest)
    }
}

impl Clusters {
    fn api(&self) -> Api<Cluster> {
        Api::all(self.shared.client.clone())
    }

    async fn register(&self, id: &ClusterId, presence: &Presence) -> Result<(), Error> {
        let spec = ClusterSpec {
            id: Some(presence.identity.clone()),
            sync_mode: presence.mode,
            region: presence.region.clone(),
            ..ClusterSpec::default()
        };
        let mut cluster = Cluster::new(id.as_str(), spec);
        cluster.metadata.labels = Some(BTreeMap::from([(MEMBER_LABEL.to_owned(), "true".to_owned())]));
        cluster.metadata.finalizers = Some(vec![CLUSTER_FINALIZER.to_owned()]);
        unless_there(self.api().create(&PostParams::default(), &cluster).await)
    }

    async fn dismiss(&self, cluster: &Cluster) -> Result<(), Error> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: cluster.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        unless_gone(self.api().delete(&cluster.name_any(), &params).await)
    }

    /// Gives a cluster all it needs.
    async fn settle(
        &self,
        id: &ClusterId,
        cluster: &Cluster,
        presence: Option<&Presence>,
        namespace: &str,
    ) -> Result<Next, Error> {
        if let Some(patch) = self.changes(id, cluster, presence) {
            self.patch(cluster, patch).await?;
        }
        let mode = presence.map_or(cluster.spec.sync_mode, |presence| presence.mode);
        match self.shared.namespace(namespace) {
            // Its appearance brings us back.
            None => self.make_namespace(namespace).await.map(|()| Next::Rest),
            Some(found) if mode == SyncMode::Pull => {
                self.admit_agent(id, &found).await.map(|()| Next::Again(ADMIT_EVERY))
            }
            Some(_) => Ok(Next::Rest),
        }
    }

    /// What is to be changed in a Cluster of ours.
    fn changes(&self, id: &ClusterId, cluster: &Cluster, presence: Option<&Presence>) -> Option<Value> {
        let mut patch = json!({});
        if !cluster.labels().contains_key(MEMBER_LABEL) {
            patch["metadata"]["labels"] = json!({MEMBER_LABEL: "true"});
        }
        let mut finalizers = cluster.finalizers().to_vec();
        if !is_marked(cluster) && self.shared.made_namespace(id) {
            // Before there was a mark, Tombolo had the same finalizer as Karmada.
            finalizers.retain(|name| name != FINALIZER);
        }
        if !finalizers.iter().any(|name| name == CLUSTER_FINALIZER) {
            finalizers.push(CLUSTER_FINALIZER.to_owned());
            patch["metadata"]["finalizers"] = json!(finalizers);
        }
        if let Some(presence) = presence {
            if cluster.spec.id.is_none() {
                patch["spec"]["id"] = json!(presence.identity);
            }
            if cluster.spec.sync_mode != presence.mode {
                patch["spec"]["syncMode"] = json!(presence.mode);
            }
        }
        patch.as_object().is_some_and(|changes| !changes.is_empty()).then_some(patch)
    }

    /// Changes a Cluster as it was looked at.
    async fn patch(&self, cluster: &Cluster, mut patch: Value) -> Result<(), Error> {
        patch["metadata"]["resourceVersion"] = json!(cluster.resource_version());
        let params = PatchParams { field_manager: Some(WRITER.to_owned()), ..PatchParams::default() };
        unless_gone(self.api().patch(&cluster.name_any(), &params, &Patch::Merge(&patch)).await)
    }

    async fn make_namespace(&self, name: &str) -> Result<(), Error> {
        let labels = BTreeMap::from([
            (SYSTEM_LABEL.to_owned(), "true".to_owned()),
            (MANAGED_BY_LABEL.to_owned(), MANAGER.to_owned()),
        ]);
        let metadata =
            ObjectMeta { name: Some(name.to_owned()), labels: Some(labels.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let api: Api<Namespace> = Api::all(self.shared.client.clone());
        match api.create(&PostParams::default(), &namespace).await {
            Err(error) if is_already_there(&error) => {
                // Somebody made it before: it gets the label by which it is found.
                let patch = json!({"metadata": {"labels": {SYSTEM_LABEL: "true"}}});
                unless_gone(api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await)
            }
            other => other.map(|_| ()),
        }
    }

    /// Lets the member's agent work in its execution namespace.
    async fn admit_agent(&self, id: &ClusterId, namespace: &Namespace) -> Result<(), Error> {
        let uid = namespace.uid().unwrap_or_default();
        let known = locked(&self.admitted).get(&uid).is_some_and(|since| since.elapsed() < ADMIT_EVERY);
        if known || namespace.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let binding = RoleBinding {
            metadata: ObjectMeta { name: Some(MEMBER_ROLE.to_owned()), ..ObjectMeta::default() },
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "ClusterRole".to_owned(),
                name: MEMBER_ROLE.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: HUB_ACCOUNT.to_owned(),
                namespace: Some(names::hub_namespace(id)),
                ..Subject::default()
            }]),
        };
        let api: Api<RoleBinding> = Api::namespaced(self.shared.client.clone(), &namespace.name_any());
        unless_there(api.create(&PostParams::default(), &binding).await)?;
        locked(&self.admitted).insert(uid, Instant::now());
        Ok(())
    }

    /// Takes away what a cluster has here. One that is alive first sees its Works go, so that it can clean up.
    async fn leave(&self, id: &ClusterId, cluster: &Cluster, namespace: &str) -> Result<Next, Error> {
        if let Some(found) = self.shared.namespace(namespace) {
            let works = self.shared.works.within(namespace);
            let api: Api<Work> = Api::namespaced(self.shared.client.clone(), namespace);
            for work in &works {
                delete(&api, &**work).await?;
            }
            if !works.is_empty() && is_ready(cluster) {
                return Ok(Next::Again(self.shared.config.farewell));
            }
            let goes = self.shared.made_namespace(id);
            if goes && found.metadata.deletion_timestamp.is_none() {
                let api: Api<Namespace> = Api::all(self.shared.client.clone());
                unless_gone(api.delete(namespace, &DeleteParams::default()).await)?;
            }
            // The end of the namespace brings us back. One that somebody else made stays.
            if goes {
                return Ok(Next::Rest);
            }
            self.forget_heartbeat(namespace).await?;
        }
        self.forget_statement(id, cluster).await?;
        let from_before = !is_marked(cluster);
        let mut finalizers = cluster.finalizers().to_vec();
        finalizers.retain(|name| name != CLUSTER_FINALIZER && !(from_before && name == FINALIZER));
        self.patch(cluster, json!({"metadata": {"finalizers": finalizers}})).await?;
        Ok(Next::Rest)
    }

    async fn forget_heartbeat(&self, namespace: &str) -> Result<(), Error> {
        let Some(lease) = self.shared.heartbeats.get(&Key::new(namespace, HEARTBEAT)) else { return Ok(()) };
        delete(&Api::<Lease>::namespaced(self.shared.client.clone(), namespace), &*lease).await
    }

    /// Removes what the cluster stated about itself, so that nobody counts on it; but not what its successor stated.
    async fn forget_statement(&self, id: &ClusterId, cluster: &Cluster) -> Result<(), Error> {
        let Some(stated) = self.shared.membership(id) else { return Ok(()) };
        if cluster.spec.id.as_ref().is_some_and(|identity| *identity != stated.spec.identity) {
            return Ok(());
        }
        let namespace = names::hub_namespace(id);
        self.forget_heartbeat(&namespace).await?;
        // Last, because without it nobody comes back to the rest.
        delete(&Api::<Membership>::namespaced(self.shared.client.clone(), &namespace), &*stated).await?;
        tracing::info!(cluster = %id, "a cluster has left");
        Ok(())
    }
}
