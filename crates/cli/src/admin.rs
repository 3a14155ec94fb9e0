//! The admin endpoint of a part that runs as a process.

use std::net::SocketAddr;

use prometheus_client::registry::Registry;
use tombolo_runtime::{Admin, Readiness};

use crate::failure::Failure;

/// Opens it, or says what to do.
pub(crate) async fn bind(
    address: SocketAddr,
    registry: Registry,
    readiness: Readiness,
) -> Result<Admin, Failure> {
    let cannot = |cause: std::io::Error| {
        Failure::new(format!("cannot listen on {address}"))
            .because(cause)
            .hint("choose another --admin-address; port 0 takes any free one")
    };
    let admin = Admin::bind(address, registry, readiness).await.map_err(cannot)?;
    let address = admin.address().map_err(cannot)?;
    tracing::info!(%address, "admin endpoint");
    Ok(admin)
}
