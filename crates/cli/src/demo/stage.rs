//! What a chapter can do: what a person would with kubectl, told and checked.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use kube::{Api, Client};
use serde_json::Value;
use tombolo_playground::{Directory, Fault, Playground, Pods, Request, ask};

use super::calls::Tally;
use crate::failure::Failure;
use crate::paint::{Paint, Shade};
use crate::say::say;

pub(super) const NAMESPACE: &str = "demo";
/// Longer than anything takes; what reaches it does not come.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// Three clusters to tell about.
pub(super) struct Stage {
    clients: BTreeMap<String, Client>,
    pods: Pods,
    directory: Directory,
    paint: Paint,
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
    fn resource(self) -> ApiResource {
        let (group, version) = self.0.split_once('/').unwrap_or(("", self.0));
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, self.1))
    }

    /// As kubectl calls it.
    fn told(self) -> String {
        let group = self.0.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
        format!("{}{group}", self.1.to_lowercase())
    }
}

impl Stage {
    pub(super) fn new(playground: &Playground, directory: &Directory, paint: Paint) -> Self {
        let names = playground.contexts().into_iter().map(|context| context.name);
        let clients = names.filter_map(|name| playground.client(&name).map(|client| (name, client)));
        Self { clients: clients.collect(), pods: playground.pods(), directory: directory.clone(), paint }
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
    fn kubectl(&self, cluster: &str, rest: &str) {
        self.typed(&format!("kubectl --context {cluster} -n {NAMESPACE} {rest}"));
    }

    fn api(&self, cluster: &str, kind: Kind) -> Result<Api<DynamicObject>, Failure> {
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
        let patched =
            self.api(cluster, kind)?.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched
            .map_err(|cause| Failure::new(format!("{name} was not patched in {cluster}")).because(cause))?;
        say(format_args!("{}/{name} patched", kind.told()));
        Ok(())
    }

    /// Waits for a deployment.
    pub(super) async fn rolled_out(&self, cluster: &str, name: &str) -> Result<(), Failure> {
        self.kubectl(cluster, &format!("rollout status deployment/{name} --timeout=2m"));
        let api = self.api(cluster, DEPLOYMENT)?;
        let what = format!("deployment {name} is rolled out in {cluster}");
        self.until(&what, async || {
            let found = api.get_opt(name).await.ok().flatten()?;
            let wanted = found.data["spec"]["replicas"].as_i64()?;
            (found.data["status"]["availableReplicas"].as_i64() == Some(wanted)).then_some(())
        })
        .await?;
        say(format_args!("deployment \"{name}\" successfully rolled out"));
        Ok(())
    }

    /// Waits for a condition.
    pub(super) async fn condition(
        &self,
        cluster: &str,
        kind: Kind,
        name: &str,
        type_: &str,
        status: &str,
    ) -> Result<(), Failure> {
        let wanted = if status == "True" { type_.to_owned() } else { format!("{type_}={status}") };
        let resource = kind.told();
        self.kubectl(cluster, &format!("wait {resource}/{name} --for=condition={wanted} --timeout=2m"));
        let api = self.api(cluster, kind)?;
        let what = format!("{resource}/{name} of {cluster} is {wanted}");
        self.until(&what, async || {
            let found = api.get_opt(name).await.ok().flatten()?;
            let conditions = found.data["status"]["conditions"].as_array()?.clone();
            conditions.iter().any(|one| one["type"] == type_ && one["status"] == status).then_some(())
        })
        .await?;
        say(format_args!("{resource}/{name} condition met"));
        Ok(())
    }

    /// What a condition says.
    pub(super) async fn message(
        &self,
        cluster: &str,
        kind: Kind,
        name: &str,
        type_: &str,
    ) -> Result<String, Failure> {
        let path = format!("{{.status.conditions[?(@.type==\"{type_}\")].message}}");
        self.kubectl(cluster, &format!("get {}/{name} -o jsonpath='{path}'", kind.told()));
        let found = self.api(cluster, kind)?.get(name).await;
        let found = found.map_err(|cause| Failure::new(format!("{name} cannot be read")).because(cause))?;
        let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let it = conditions.iter().find(|one| one["type"] == type_);
        let message = it.and_then(|one| one["message"].as_str()).unwrap_or_default();
        say(message);
        Ok(message.to_owned())
    }

    /// The slices of an import that came from a cluster.
    pub(super) async fn slices_from(&self, cluster: &str, source: &str) -> Result<Vec<String>, Failure> {
        let label = format!("multicluster.kubernetes.io/source-cluster={source}");
        let list = self.api(cluster, SLICE)?.list(&ListParams::default().labels(&label)).await;
        let list = list.map_err(|cause| Failure::new("slices cannot be listed").because(cause))?;
        Ok(list.items.into_iter().filter_map(|slice| slice.metadata.name).collect())
    }

    /// Waits until the slices from a cluster are gone.
    pub(super) async fn slices_gone(&self, cluster: &str, source: &str) -> Result<(), Failure> {
        let label = format!("multicluster.kubernetes.io/source-cluster={source}");
        self.kubectl(cluster, &format!("wait endpointslices -l {label} --for=delete --timeout=2m"));
        let before = self.slices_from(cluster, source).await?;
        let what = format!("the slices of {source} are gone from {cluster}");
        self.until(&what, async || {
            self.slices_from(cluster, source).await.ok().filter(Vec::is_empty).map(drop)
        })
        .await?;
        before.iter().for_each(|name| say(format_args!("{}/{name} condition met", SLICE.told())));
        Ok(())
    }

    /// One call from the pod `client`, and its answer.
    pub(super) async fn call(&self, cluster: &str, url: &str) -> Result<Value, Failure> {
        self.kubectl(cluster, &format!("exec client -- curl -s -m 5 {url}"));
        let said = self.exec(cluster, &["curl", "-s", "-m", "5", url]).await?;
        let answer = serde_json::from_str(&said);
        let answer = answer.map_err(|_| Failure::new(format!("nobody answered at {url} in {cluster}")))?;
        say(said.trim_end());
        Ok(answer)
    }

    /// So many calls, one after the other, and who answered.
    pub(super) async fn calls(
        &self,
        cluster: &str,
        url: &str,
        count: usize,
        prefix: &str,
    ) -> Result<Tally, Failure> {
        let script = format!("for i in $(seq {count}); do curl -sf -m 2 {url} || echo failed; done");
        let pattern = format!("{prefix}[0-9]+|failed");
        self.kubectl(
            cluster,
            &format!("exec client -- sh -c '{script}' | grep -oE '{pattern}' | sort | uniq -c"),
        );
        let said = self.exec(cluster, &["sh", "-c", &script]).await?;
        let tally = Tally::of(&said, prefix);
        say(&tally);
        Ok(tally)
    }

    /// Whether a call is answered; nothing is told about it.
    pub(super) async fn answers(&self, cluster: &str, url: &str) -> bool {
        let said = self.pods.run(cluster, NAMESPACE, "client", &["curl", "-sf", "-m", "1", url]).await;
        said.is_ok_and(|said| said.code == 0)
    }

    async fn exec(&self, cluster: &str, command: &[&str]) -> Result<String, Failure> {
        let said = self.pods.run(cluster, NAMESPACE, "client", command).await;
        let said = said.map_err(|cause| Failure::new("no command can be run in a pod").because(cause))?;
        Ok(said.stdout)
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

    /// Tries again and again until something comes of it.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        attempt: impl AsyncFn() -> Option<T>,
    ) -> Result<T, Failure> {
        let tried = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(found) = attempt().await {
                    return found;
                }
                tokio::time::sleep(POLL).await;
            }
        });
        tried.await.map_err(|_| Failure::new(format!("it did not come to it that {what}")))
    }

    /// What must be true.
    pub(super) fn check(&self, holds: bool, what: impl Display) -> Result<(), Failure> {
        if holds { Ok(()) } else { Err(Failure::new(format!("it is not so that {what}"))) }
    }
}
