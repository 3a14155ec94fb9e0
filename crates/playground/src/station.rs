//! A thread that lives in one network namespace, with a runtime: whatever it runs has its sockets there.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

use crate::namespace::Namespace;

/// Where parts of the playground run. Clones are the same place; the last of them ends it.
#[derive(Clone)]
pub(crate) struct Station {
    inner: Arc<Inner>,
}

struct Inner {
    handle: Handle,
    stop: watch::Sender<bool>,
    thread: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Station {
    /// Starts a thread in `namespace`, or where the process itself is.
    pub(crate) async fn start(name: &str, namespace: Option<&Namespace>) -> io::Result<Self> {
        let (stop, mut stopping) = watch::channel(false);
        let (ready, started) = oneshot::channel();
        let namespace = namespace.cloned();
        let body = move || {
            let entered = namespace.map_or(Ok(()), |namespace| namespace.enter());
            let runtime = entered.and_then(|()| Builder::new_current_thread().enable_all().build());
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(runtime.handle().clone()));
            let _ = runtime.block_on(stopping.wait_for(|stop| *stop));
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        let handle = started.await.map_err(io::Error::other)??;
        let thread = std::sync::Mutex::new(Some(thread));
        Ok(Self { inner: Arc::new(Inner { handle, stop, thread }) })
    }

    /// Runs a future there and waits for what comes of it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        self.inner.handle.spawn(future).await.map_err(io::Error::other)
    }

    /// Runs a future there that goes on; it ends with the task that is returned.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(Some(self.inner.handle.spawn(future)))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        // The thread may be the one that drops the last clone: nobody can wait for oneself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// Something that runs at a station; dropped, it is cut off.
pub(crate) struct Task(Option<tokio::task::JoinHandle<()>>);

impl Task {
    /// Something that runs where the caller does.
    pub(crate) fn here(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(future)))
    }

    /// Cuts it off and waits until nothing of it is left.
    pub(crate) async fn kill(mut self) {
        if let Some(handle) = self.0.take() {
            handle.abort();
            let _ = handle.await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}
