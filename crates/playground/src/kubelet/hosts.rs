//! The nodes of a cluster, as its API server finds them: for what only they know.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use tombolo_apiserver::{Connection, ContainerPlace, ExecOptions, LogOptions, Nodes, Session};

use super::log::{Line, Log};
use super::{ContainerKey, Host, attach, exec, lock};

/// How often somebody who follows a log looks whether the container still runs.
const LOOK: Duration = Duration::from_millis(500);

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
            let key = (place.pod, place.container);
            let log = host.find_log(&key);
            let log = log.ok_or_else(|| format!("container {:?} is waiting to start", key.1))?;
            Ok(lines(Arc::downgrade(&host), key, log, &options))
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
            let log = host.find_log(&key);
            // Who listens first and looks then hears the end.
            let heard = log.map(|log| log.listen());
            let (heard, container) = heard
                .zip(host.container(&key))
                .ok_or_else(|| format!("container {:?} does not run", key.1))?;
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

/// What is there, and if asked what comes.
fn lines(
    host: Weak<Host>,
    key: ContainerKey,
    log: Arc<Log>,
    options: &LogOptions,
) -> BoxStream<'static, Bytes> {
    let timestamps = options.timestamps;
    let (there, next) = log.since(0);
    let skip = options.tail.map_or(0, |tail| there.len().saturating_sub(tail));
    let first = stream::iter([show(&there[skip..], timestamps)]);
    if !options.follow {
        return first.boxed();
    }
    let rest = stream::unfold((next, log, host), move |(from, log, host)| {
        let key = key.clone();
        async move {
            let next = more(&log, from, || host.upgrade().is_some_and(|host| host.is_running(&key))).await?;
            Some((show(&next.0, timestamps), (next.1, log, host)))
        }
    });
    first.chain(rest).boxed()
}

/// Waits for further lines; nothing once the container has ended and all was told.
async fn more(log: &Log, from: u64, is_running: impl Fn() -> bool) -> Option<(Vec<Line>, u64)> {
    let mut count = log.follow();
    loop {
        // Asked before looking: what was written until the end is told.
        let running = is_running();
        let (found, next) = log.since(from);
        if !found.is_empty() {
            return Some((found, next));
        }
        if !running {
            return None;
        }
        let _ = tokio::time::timeout(LOOK, count.wait_for(|count| *count > from)).await;
    }
}

fn show(lines: &[Line], timestamps: bool) -> Bytes {
    let mut out = Vec::new();
    for line in lines {
        if timestamps {
            out.extend_from_slice(format!("{:.9} ", line.time).as_bytes());
        }
        out.extend_from_slice(&line.text);
        out.push(b'\n');
    }
    out.into()
}
