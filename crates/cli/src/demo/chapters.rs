//! The tour, chapter by chapter. A further one is a function and a row in [`CHAPTERS`].

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use serde_json::{Value, json};
use tombolo_api::tombolo::REQUIRED_LOAD_BALANCER_FEATURES_ANNOTATION;
use tombolo_playground::Fault;

use super::stage::{DEPLOYMENT, EXPORT, FIRST_EXPORT, POD, SERVICE, SHARED, SLICE, Stage};
use crate::failure::Failure;

pub(super) struct Chapter {
    pub(super) title: &'static str,
    pub(super) play: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Result<(), Failure>>,
}

/// In the order in which they build on each other.
pub(super) const CHAPTERS: [Chapter; 9] = [
    Chapter { title: "Deploy a service in two clusters", play: |stage| Box::pin(deploy(stage)) },
    Chapter { title: "Export it, in both editions of the API", play: |stage| Box::pin(export(stage)) },
    Chapter { title: "Call it from the third cluster", play: |stage| Box::pin(call(stage)) },
    Chapter { title: "Call it by its own name", play: |stage| Box::pin(call_natively(stage)) },
    Chapter { title: "Let the exports disagree, and agree again", play: |stage| Box::pin(disagree(stage)) },
    Chapter { title: "Keep traffic on its node", play: |stage| Box::pin(stay_local(stage)) },
    Chapter { title: "Prefer the own pods, and fail over", play: |stage| Box::pin(prefer_local(stage)) },
    Chapter { title: "Ask for load balancers", play: |stage| Box::pin(ask_for_balancers(stage)) },
    Chapter { title: "Cut a cluster off", play: |stage| Box::pin(cut_off(stage)) },
];

const EXPORTERS: [&str; 2] = ["member1", "member2"];
const CONSUMER: &str = "member3";
/// The cluster whose balancers can do TCP and nothing else.
pub(super) const LESSER: &str = "member2";
/// What came to `member1` and `member3` under the Service's own name or that of an import.
const FROM_MEMBER2: &str = "multicluster.kubernetes.io/source-cluster=member2";
const TODAY: &str = "http://echo.demo.svc.clusterset.local/";
const FIRST: &str = "http://echo.demo.svc.supercluster.local/";

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "echo"}},
           "spec": {"selector": {"app": "echo"}, "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}})
}

/// `kubectl expose`.
async fn expose(stage: &Stage, cluster: &str, name: &str) -> Result<(), Failure> {
    let line = format!("expose deployment echo --name={name} --port=80 --target-port=8080");
    stage.create(cluster, &line, SERVICE, service(name), "exposed").await
}

async fn start_client(stage: &Stage, cluster: &str, node: &str) -> Result<(), Failure> {
    let line =
        format!("run client --image=tombolo/client --overrides='{{\"spec\":{{\"nodeName\":\"{node}\"}}}}'");
    let pod = json!({"metadata": {"name": "client"}, "spec": {
        "nodeName": node, "containers": [{"name": "client", "image": "tombolo/client"}]}});
    stage.create(cluster, &line, POD, pod, "created").await?;
    stage.condition(cluster, POD, "client", "Ready", "True").await
}

async fn deploy(stage: &Stage) -> Result<(), Failure> {
    for cluster in EXPORTERS {
        let line = "create deployment echo --image=tombolo/echo --replicas=2";
        let deployment = json!({"metadata": {"name": "echo", "labels": {"app": "echo"}}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "echo"}},
            "template": {"metadata": {"labels": {"app": "echo"}},
                         "spec": {"containers": [{"name": "echo", "image": "tombolo/echo"}]}}}});
        stage.create(cluster, line, DEPLOYMENT, deployment, "created").await?;
        expose(stage, cluster, "echo").await?;
    }
    for cluster in EXPORTERS {
        stage.rolled_out(cluster, "echo").await?;
    }
    start_client(stage, CONSUMER, "node1").await
}

async fn export(stage: &Stage) -> Result<(), Failure> {
    for cluster in EXPORTERS {
        for kind in [EXPORT, FIRST_EXPORT] {
            let yaml = format!("{{apiVersion: {}, kind: ServiceExport, metadata: {{name: echo}}}}", kind.0);
            stage.create_from(cluster, kind, &yaml).await?;
        }
    }
    for cluster in EXPORTERS {
        stage.condition(cluster, EXPORT, "echo", "Ready", "True").await?;
        stage.condition(cluster, FIRST_EXPORT, "echo", "Exported", "True").await?;
    }
    stage.note("Ready and Exported are true once every live cluster says that it has the service.");
    Ok(())
}

async fn call(stage: &Stage) -> Result<(), Failure> {
    for url in [FIRST, TODAY] {
        answers(stage, url).await?;
        let answer = stage.call(CONSUMER, url).await?;
        let from_elsewhere = answer["cluster"].as_str().is_some_and(|cluster| EXPORTERS.contains(&cluster));
        stage.check(from_elsewhere, "a cluster that has the service answered")?;
    }
    let tally = stage.calls(CONSUMER, TODAY, 40, "member").await?;
    stage.check(tally.is(&EXPORTERS, 40), "both clusters answered, and every call was answered")
}

/// Waits until the first call is answered: names come a moment after objects.
async fn answers(stage: &Stage, url: &str) -> Result<(), Failure> {
    let what = format!("somebody answers at {url}");
    stage.until(&what, async || stage.answers(CONSUMER, url).await.then_some(())).await
}

async fn call_natively(stage: &Stage) -> Result<(), Failure> {
    let yaml = "{apiVersion: v1, kind: Service, metadata: {name: echo}, \
                spec: {selector: {app: echo}, ports: [{port: 80, targetPort: 8080}]}}";
    stage.create_from("hub", SERVICE, yaml).await?;
    let yaml = "{apiVersion: networking.karmada.io/v1alpha1, kind: MultiClusterService, metadata: {name: echo}, \
                spec: {types: [CrossCluster], serviceProvisionClusters: [member1, member2], \
                serviceConsumptionClusters: [member3]}}";
    stage.create_from("hub", SHARED, yaml).await?;
    stage.condition("hub", SHARED, "echo", "EndpointSliceApplied", "True").await?;
    answers(stage, "http://echo/").await?;
    let answer = stage.call(CONSUMER, "http://echo/").await?;
    let from_elsewhere = answer["cluster"].as_str().is_some_and(|cluster| EXPORTERS.contains(&cluster));
    stage.check(from_elsewhere, "a cluster that has the service answered")
}

async fn disagree(stage: &Stage) -> Result<(), Failure> {
    let port =
        |port: u16| json!({"spec": {"ports": [{"port": port, "targetPort": 8080, "protocol": "TCP"}]}});
    stage.patch("member2", SERVICE, "echo", port(81)).await?;
    stage.condition("member2", EXPORT, "echo", "Conflict", "True").await?;
    let message = stage.message("member2", EXPORT, "echo", "Conflict").await?;
    stage.check(!message.is_empty(), "the condition says what is wrong")?;
    let tally = stage.calls(CONSUMER, TODAY, 20, "member").await?;
    stage.check(!tally.to_string().contains("failed"), "the import stays as the oldest export has it")?;
    stage.patch("member2", SERVICE, "echo", port(80)).await?;
    for cluster in EXPORTERS {
        stage.condition(cluster, EXPORT, "echo", "Conflict", "False").await?;
    }
    stage.condition("member2", FIRST_EXPORT, "echo", "Exported", "True").await
}

async fn stay_local(stage: &Stage) -> Result<(), Failure> {
    expose(stage, "member1", "near").await?;
    let local = json!({"spec": {"internalTrafficPolicy": "Local"}});
    stage.patch("member1", SERVICE, "near", local).await?;
    start_client(stage, "member1", "node2").await?;
    stage
        .until("somebody answers on node2", async || {
            stage.answers("member1", "http://near/").await.then_some(())
        })
        .await?;
    let tally = stage.calls("member1", "http://near/", 20, "node").await?;
    stage.check(tally.is(&["node2"], 20), "only the pod on the client's own node answered")
}

async fn prefer_local(stage: &Stage) -> Result<(), Failure> {
    let strategy = ("discovery.karmada.io/strategy", "LocalFirst");
    stage.annotate("hub", SHARED, "echo", strategy).await?;
    let consumers = json!({"spec": {"serviceConsumptionClusters": ["member1", "member3"]}});
    stage.patch("hub", SHARED, "echo", consumers).await?;
    stage.condition("hub", SHARED, "echo", "EndpointSliceApplied", "True").await?;
    let tally = stage.calls("member1", "http://echo/", 20, "member").await?;
    stage.check(tally.is(&["member1"], 20), "only the own pods of member1 answered")?;
    stage.scale("member1", "echo", 0).await?;
    stage.gone("member1", POD, "app=echo").await?;
    let from_elsewhere = async || stage.answers("member1", "http://echo/").await.then_some(());
    stage.until("another cluster answers in member1", from_elsewhere).await?;
    let tally = stage.calls("member1", "http://echo/", 20, "member").await?;
    stage.check(tally.is(&["member2"], 20), "the other cluster stepped in")?;
    stage.scale("member1", "echo", 2).await?;
    stage.rolled_out("member1", "echo").await?;
    stage.note("Pods that come back share the calls until they have been ready for ten seconds.");
    stage.gone("member1", SLICE, &format!("kubernetes.io/service-name=echo,{FROM_MEMBER2}")).await?;
    settle().await;
    let tally = stage.calls("member1", "http://echo/", 20, "member").await?;
    stage.check(tally.is(&["member1"], 20), "only the own pods of member1 answered again")
}

/// A Service for a web server that is also talked to over UDP, with more to say in its metadata and its spec.
fn shop(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}{metadata}}}, spec: {{type: LoadBalancer, \
         selector: {{app: echo}}, {spec}ports: [{{name: web, port: 80, targetPort: 8080}}, \
         {{name: talk, port: 81, protocol: UDP, targetPort: 8081}}]}}}}"
    )
}

/// One that cannot do without all its ports.
fn strict_shop(stage: &Stage) -> String {
    if stage.knows_required_features {
        return shop("strict", "", "requiredLoadBalancerFeatures: [Ports], ");
    }
    shop("strict", &format!(", annotations: {{{REQUIRED_LOAD_BALANCER_FEATURES_ANNOTATION}: Ports}}"), "")
}

async fn ask_for_balancers(stage: &Stage) -> Result<(), Failure> {
    stage.note("The balancers of member2 were told to do TCP and nothing else: --balancer-capabilities member2=TCP-ONLY.");
    stage.create_from(LESSER, SERVICE, &shop("shop", "", "")).await?;
    stage.condition(LESSER, SERVICE, "shop", "LoadBalancerServing", "True").await?;
    let degraded = stage.message(LESSER, SERVICE, "shop", "LoadBalancerDegraded").await?;
    stage.check(degraded.contains("UDP"), "the status says what is missing")?;
    let url = format!("http://{}/", stage.address(LESSER, "shop").await?);
    let reached = async || stage.answers_outside(&url).await.then_some(());
    stage.until("the address is answered outside", reached).await?;
    let answer = stage.call_from_outside(&url).await?;
    stage.check(answer["cluster"] == LESSER, "the cluster of the load balancer answered")?;
    if !stage.knows_required_features {
        stage.note("These API servers have no field yet for what is required; an annotation says the same.");
    }
    stage.create_from(LESSER, SERVICE, &strict_shop(stage)).await?;
    stage.condition(LESSER, SERVICE, "strict", "LoadBalancerServing", "False").await?;
    let refused = stage.message(LESSER, SERVICE, "strict", "LoadBalancerServing").await?;
    let is_clear = refused.starts_with("Unsupported: ") && refused.contains("Ports is required");
    stage.check(is_clear, "the status says why it was refused")?;
    stage.create_from("member1", SERVICE, &strict_shop(stage)).await?;
    stage.condition("member1", SERVICE, "strict", "LoadBalancerServing", "True").await
}

/// Proxies gather changes for some milliseconds before they write them.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

async fn cut_off(stage: &Stage) -> Result<(), Failure> {
    stage.fault("partition member2", Fault::Partition("member2".to_owned())).await?;
    stage.note("Its heartbeat stands still; when its lease runs out, nobody sends it calls any more.");
    stage.gone(CONSUMER, SLICE, FROM_MEMBER2).await?;
    settle().await;
    let tally = stage.calls(CONSUMER, TODAY, 100, "member").await?;
    stage.check(tally.is(&["member1"], 100), "not one call failed after the lease had run out")?;
    stage.fault("heal member2", Fault::Heal("member2".to_owned())).await?;
    let back = async || {
        stage.names(CONSUMER, SLICE, FROM_MEMBER2).await.ok().filter(|all| !all.is_empty()).map(drop)
    };
    stage.until("the endpoints of member2 are back", back).await?;
    settle().await;
    let tally = stage.calls(CONSUMER, TODAY, 40, "member").await?;
    stage.check(tally.is(&EXPORTERS, 40), "both clusters answer again")
}
