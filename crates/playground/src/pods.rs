//! The way into pods for whoever is in the same process: a command, and what it said.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tombolo_apiserver::{ContainerPlace, ExecOptions, Nodes as _, Output};

use crate::error::{Doing as _, Error};
use crate::kubelet::Hosts;

/// Enough for anything that is looked at; what is said beyond it is not kept.
const MOST_BYTES: usize = 1 << 20;

/// All pods of a playground.
#[derive(Clone)]
pub struct Pods(BTreeMap<String, (Client, Arc<Hosts>)>);

/// How a command in a pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Pods {
    pub(crate) fn new(members: impl Iterator<Item = (String, (Client, Arc<Hosts>))>) -> Self {
        Self(members.collect())
    }

    /// Runs a command in the first container of a pod to its end, as `kubectl exec` does.
    pub async fn run(
        &self,
        cluster: &str,
        namespace: &str,
        pod: &str,
        command: &[&str],
    ) -> Result<Said, Error> {
        let found =
            self.0.get(cluster).ok_or_else(|| Error::new(format!("there is no cluster {cluster}")))?;
        let (client, hosts) = found;
        let cannot = format!("nothing can be run in pod {pod} of {cluster}");
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let place = place(&api.get(pod).await.doing(&cannot)?).ok_or_else(|| Error::new(&cannot))?;
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let options = ExecOptions { command, ..ExecOptions::default() };
        let mut session = hosts.exec(place, options).await.doing(&cannot)?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some((stream, bytes)) = session.output.recv().await {
            let into = if stream == Output::Stdout { &mut stdout } else { &mut stderr };
            let room = MOST_BYTES.saturating_sub(into.len());
            into.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let code = session.ended.await.doing(&cannot)?.doing(&cannot)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Said { code, stdout: text(stdout), stderr: text(stderr) })
    }
}

fn place(pod: &Pod) -> Option<ContainerPlace> {
    let spec = pod.spec.as_ref()?;
    Some(ContainerPlace {
        node: spec.node_name.clone()?,
        pod: pod.metadata.uid.clone()?,
        pod_name: pod.metadata.name.clone()?,
        container: spec.containers.first()?.name.clone(),
    })
}
