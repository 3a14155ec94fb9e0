//! The nodes of a cluster, as its API server finds them: for what only they know.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use tombolo_apiserver::{Connection, ContainerPlace, ExecOptions, LogOptions, Nodes, Session};

use super::{Host, attach, excerpt, exec, lock};

/// All nodes that are up, by name.
#[derive(Default)]
pub(crate) struct Hosts(Mutex<BTreeMap<String, Weak<Host>>>);

impl std::fmt::Debug for Hosts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_set().entries(lock(&self.0).keys()).finish()
    }
}

impl Hosts {
    pub(super) fn put(&self, name: String, host: &Arc<Host>) {
        lock(&self.0).insert(name, Arc::downgrade(host));
    }

    fn host(&self, name: &str) -> Result<Arc<Host>, String> {
        let found = lock(&self.0).get(name).and_then(Weak::upgrade);
        found.ok_or_else(|| format!("the node {name} does not answer"))
    }
}

impl Nodes for Hosts {
    fn find(&self, node: &str, namespace: &str, pod: &str) -> Option<ContainerPlace> {
        self.host(node).ok()?.find_pod(namespace, pod)
    }

    fn logs(
        &self,
        place: ContainerPlace,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Bytes>, String>> {
        Box::pin(async move {
            let host = self.host(&place.node)?;
            let ContainerPlace { pod, pod_name, container, .. } = place;
            let log = host.find_log(&(pod, container.clone()), options.previous);
            let log = log.ok_or_else(|| no_log(&pod_name, &container, options.previous))?;
            let host = Arc::downgrade(&host);
            Ok(excerpt::stream(log, &options, Timestamp::now(), move || host.strong_count() > 0))
        })
    }

    fn exec(&self, place: ContainerPlace, options: ExecOptions) -> BoxFuture<'_, Result<Session, String>> {
        Box::pin(async move {
            let host = self.host(&place.node)?;
            let key = (place.pod, place.container);
            let door = host.door(&key).ok_or_else(|| format!("container {:?} does not run", key.1))?;
            exec::start(door, options).map_err(|error| error.to_string())
        })
    }

    fn attach(&self, place: ContainerPlace) -> BoxFuture<'_, Result<Session, String>> {
        Box::pin(async move {
            let host = self.host(&place.node)?;
            let key = (place.pod, place.container);
            let container =
                host.container(&key).ok_or_else(|| format!("container {:?} does not run", key.1))?;
            let heard = container.log().listen();
            attach::start(container, heard).map_err(|error| error.to_string())
        })
    }

    fn connect(
        &self,
        place: ContainerPlace,
        port: u16,
    ) -> BoxFuture<'_, Result<Box<dyn Connection>, String>> {
        Box::pin(async move {
            let host = self.host(&place.node)?;
            let key = (place.pod, place.container);
            let door = host.door(&key).ok_or_else(|| format!("container {:?} does not run", key.1))?;
            let stream = door.connect(port).await;
            let stream =
                stream.map_err(|error| format!("cannot connect to port {port} of the pod: {error}"))?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}

/// Why there is no log, in the words of a kubelet.
fn no_log(pod: &str, container: &str, previous: bool) -> String {
    if previous {
        format!("previous terminated container {container:?} in pod {pod:?} not found")
    } else {
        format!("container {container:?} in pod {pod:?} is waiting to start")
    }
}
