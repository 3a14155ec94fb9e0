//! What a chapter can do: what a person would with kubectl, told and checked.

use std::collections::BTreeMap;
use std::fmt::Display;

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use kube::{Api, Client};
use serde_json::{Value, json};
use tombolo_playground::{Directory, Fault, Playground, Pods, Request, ask};

use crate::failure::Failure;
use crate::paint::{Paint, Shade};
use crate::say::say;

pub(super) const NAMESPACE: &str = "demo";

/// Three clusters to tell about.
pub(super) struct Stage {
    clients: BTreeMap<String, Client>,
    pub(super) pods: Pods,
    pub(super) directory: Directory,
    paint: Paint,
    /// Services may say in their spec what a load balancer must be able to do (KEP-4631); no published server has the field.
    pub(super) knows_required_features: bool,
}

/// A kind of objects: its API version and its name.
#[derive(Clone, Copy)]
pub(super) struct Kind(pub(super) &'static str, pub(super) &'static str);

pub(super) const DEPLOYMENT: Kind = Kind("apps/v1", "Deployment");
pub(super) const SERVICE: Kind = Kind("v1", "Service");
pub(super) const POD: Kind = Kind("v1", "Pod");
pub(super) const SLICE: Kind = Kind("discovery.k8s.io/v1", "EndpointSlice");
pub(super) const EXPORT: Kind = Kind("multicluster.x-k8s.io/v1beta1", "ServiceExport");
pub(super) const FIRST_EXPORT: Kind = Kind("multicluster.k8s.io/v1alpha1", "ServiceExport");
pub(super) const SHARED: Kind = Kind("networking.karmada.io/v1alpha1", "MultiClusterService");

impl Kind {
    pub(super) fn resource(self) -> ApiResource {
        let (group, version) = self.0.split_once('/').unwrap_or(("", self.0));
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, self.1))
    }

    /// As kubectl calls it.
    pub(super) fn told(self) -> String {
        let group = self.0.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
        format!("{}{group}", self.1.to_lowercase())
    }
}

impl Stage {
    pub(super) fn new(playground: &Playground, directory: &Directory, paint: Paint) -> Self {
        let names = playground.contexts().into_iter().map(|context| context.name);
        let clients = names.filter_map(|name| playground.client(&name).map(|client| (name, client)));
        Self {
            clients: clients.collect(),
            pods: playground.pods(),
            directory: directory.clone(),
            paint,
            knows_required_features: playground.has_embedded_servers(),
        }
    }

    pub(super) fn title(&self, number: usize, title: &str) {
        say(format_args!("\n{}", self.paint.shade(&format!("{number}. {title}"), Shade::Strong)));
    }

    /// A sentence between the lines.
    pub(super) fn note(&self, text: &str) {
        say(self.paint.shade(&format!("# {text}"), Shade::Faint));
    }

    /// A line that somebody would type.
    pub(super) fn typed(&self, line: &str) {
        say(self.paint.shade(&format!("$ {line}"), Shade::Strong));
    }

    /// The same for kubectl in a cluster.
    pub(super) fn kubectl(&self, cluster: &str, rest: &str) {
        self.typed(&format!("kubectl --context {cluster} -n {NAMESPACE} {rest}"));
    }

    pub(super) fn api(&self, cluster: &str, kind: Kind) -> Result<Api<DynamicObject>, Failure> {
        let client = self.clients.get(cluster);
        let client = client.ok_or_else(|| Failure::new(format!("there is no cluster {cluster}")))?;
        Ok(Api::namespaced_with(client.clone(), NAMESPACE, &kind.resource()))
    }

    /// Creates an object in the way that `line` would, which says `verb`.
    pub(super) async fn create(
        &self,
        cluster: &str,
        line: &str,
        kind: Kind,
        object: Value,
        verb: &str,
    ) -> Result<(), Failure> {
        self.kubectl(cluster, line);
        let cannot = format!("{} was not {verb} in {cluster}", kind.1);
        let mut object: DynamicObject =
            serde_json::from_value(object).map_err(|cause| Failure::new(&cannot).because(cause))?;
        object.types = Some(TypeMeta { api_version: kind.0.to_owned(), kind: kind.1.to_owned() });
        let name = object.metadata.name.clone().unwrap_or_default();
        let made = self.api(cluster, kind)?.create(&PostParams::default(), &object).await;
        made.map_err(|cause| Failure::new(&cannot).because(cause))?;
        say(format_args!("{}/{name} {verb}", kind.told()));
        Ok(())
    }

    /// Creates an object from a line of YAML, which is what a person would write.
    pub(super) async fn create_from(&self, cluster: &str, kind: Kind, yaml: &str) -> Result<(), Failure> {
        let object: Value = serde_saphyr::from_str(yaml)
            .map_err(|cause| Failure::new("an object of the tour cannot be read").because(cause))?;
        self.create(cluster, &format!("create -f - <<< '{yaml}'"), kind, object, "created").await
    }

    /// Changes an object by a merge patch.
    pub(super) async fn patch(
        &self,
        cluster: &str,
        kind: Kind,
        name: &str,
        patch: Value,
    ) -> Result<(), Failure> {
        self.kubectl(cluster, &format!("patch {} {name} --type=merge -p '{patch}'", kind.1.to_lowercase()));
        self.merge(cluster, kind, name, &patch).await?;
        say(format_args!("{}/{name} patched", kind.told()));
        Ok(())
    }

    async fn merge(&self, cluster: &str, kind: Kind, name: &str, patch: &Value) -> Result<(), Failure> {
        let patched =
            self.api(cluster, kind)?.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched
            .map(drop)
            .map_err(|cause| Failure::new(format!("{name} was not changed in {cluster}")).because(cause))
    }

    /// Sets an annotation.
    pub(super) async fn annotate(
        &self,
        cluster: &str,
        kind: Kind,
        name: &str,
        (key, value): (&str, &str),
    ) -> Result<(), Failure> {
        self.kubectl(cluster, &format!("annotate {} {name} {key}={value}", kind.1.to_lowercase()));
        self.merge(cluster, kind, name, &json!({"metadata": {"annotations": {key: value}}})).await?;
        say(format_args!("{}/{name} annotated", kind.told()));
        Ok(())
    }

    /// Changes how many pods a deployment has.
    pub(super) async fn scale(&self, cluster: &str, name: &str, replicas: u8) -> Result<(), Failure> {
        self.kubectl(cluster, &format!("scale deployment {name} --replicas={replicas}"));
        self.merge(cluster, DEPLOYMENT, name, &json!({"spec": {"replicas": replicas}})).await?;
        say(format_args!("{}/{name} scaled", DEPLOYMENT.told()));
        Ok(())
    }

    /// Why a condition is as it is, and what it says.
    pub(super) async fn message(
        &self,
        cluster: &str,
        kind: Kind,
        name: &str,
        type_: &str,
    ) -> Result<String, Failure> {
        let path =
            format!("{{range .status.conditions[?(@.type==\"{type_}\")]}}{{.reason}}: {{.message}}{{end}}");
        let pick = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array()?;
            let it = conditions.iter().find(|one| one["type"] == type_)?;
            Some(format!("{}: {}", it["reason"].as_str()?, it["message"].as_str()?))
        };
        self.get(cluster, kind, name, &path, pick).await
    }

    /// The first address of a load balancer.
    pub(super) async fn address(&self, cluster: &str, name: &str) -> Result<String, Failure> {
        let pick = |object: &Value| {
            object.pointer("/status/loadBalancer/ingress/0/ip").and_then(Value::as_str).map(str::to_owned)
        };
        self.get(cluster, SERVICE, name, "{.status.loadBalancer.ingress[0].ip}", pick).await
    }

    /// What an object says at a path, which `pick` finds, too.
    async fn get(
        &self,
        cluster: &str,
        kind: Kind,
        name: &str,
        path: &str,
        pick: impl Fn(&Value) -> Option<String>,
    ) -> Result<String, Failure> {
        self.kubectl(cluster, &format!("get {}/{name} -o jsonpath='{path}'", kind.told()));
        let found = self.api(cluster, kind)?.get(name).await;
        let found = found.map_err(|cause| Failure::new(format!("{name} cannot be read")).because(cause))?;
        let said = pick(&found.data).unwrap_or_default();
        say(&said);
        Ok(said)
    }

    /// The names of all objects with some labels.
    pub(super) async fn names(
        &self,
        cluster: &str,
        kind: Kind,
        selector: &str,
    ) -> Result<Vec<String>, Failure> {
        let list = self.api(cluster, kind)?.list(&ListParams::default().labels(selector)).await;
        let list =
            list.map_err(|cause| Failure::new(format!("{} cannot be listed", kind.1)).because(cause))?;
        Ok(list.items.into_iter().filter_map(|object| object.metadata.name).collect())
    }

    /// Breaks something, or mends it.
    pub(super) async fn fault(&self, line: &str, fault: Fault) -> Result<(), Failure> {
        self.typed(&format!("tombolo fault {line}"));
        let directory = self.directory.clone();
        let asked = tokio::task::spawn_blocking(move || ask(&directory, &Request::Fault(fault))).await;
        let asked = asked.map_err(|cause| Failure::new("the playground cannot be asked").because(cause))?;
        say(asked.map_err(|cause| Failure::new("nothing was done").because(cause))?);
        Ok(())
    }

    /// What must be true.
    pub(super) fn check(&self, holds: bool, what: impl Display) -> Result<(), Failure> {
        if holds { Ok(()) } else { Err(Failure::new(format!("it is not so that {what}"))) }
    }
}
