//! What only a playground can be asked: whether packets go between pods of its clusters, and whether its parts are ready.

use futures_util::future::join_all;
use tombolo_playground::{Directory, Found, Inquiry, inquire};

use crate::parts::waits_for;
use crate::survey::Seen;

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    /// Between each two clusters, each way.
    pub(super) ways: Seen<Vec<Found>>,
    /// All parts that run: the cluster, the part, and what it waits for.
    pub(super) parts: Vec<(String, String, Option<String>)>,
}

/// Nothing without a playground that has networks.
pub(super) async fn try_out(playground: Option<&Directory>) -> Option<Tried> {
    let directory = playground?.clone();
    let endpoints = directory.endpoints().ok()?;
    endpoints.outside.as_ref()?;
    let ways = tokio::task::spawn_blocking(move || inquire(&directory, Inquiry::Ways)).await.ok()?;
    let asked = endpoints.parts().into_iter().map(|part| async move {
        let waits_for = waits_for(&part).await;
        (part.cluster, part.name, waits_for)
    });
    Some(Tried { ways: ways.map_err(|error| error.to_string()), parts: join_all(asked).await })
}
