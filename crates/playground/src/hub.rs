//! The hub that runs: an API server where members meet, and the hub's own part beside it.

use prometheus_client::registry::Registry;
use tombolo_hub::Metrics;
use tombolo_model::ClusterId;
use tombolo_runtime::Readiness;

use crate::control_plane::{ControlPlane, connect_part};
use crate::error::{Doing as _, Error};
use crate::joining;
use crate::pace::Pace;
use crate::part::Part;
use crate::plan::Plan;

const CANNOT: &str = "the hub cannot be started";

/// Where members meet.
pub(crate) struct Hub {
    pub(crate) plane: ControlPlane,
    pub(crate) parts: Vec<Part>,
}

impl Hub {
    /// Prepares an API server to be the hub, and starts the hub's part.
    pub(crate) async fn start(plane: ControlPlane, plan: &Plan, pace: &Pace) -> Result<Self, Error> {
        let client = plane.client();
        joining::prepare_hub(&client).await.doing(CANNOT)?;
        for member in &plan.members {
            let id: ClusterId = member.name().parse().doing(CANNOT)?;
            joining::admit(&client, &id).await.doing(CANNOT)?;
        }
        let parts = vec![start_part(&plane, pace).await?];
        Ok(Self { plane, parts })
    }
}

/// It looks after clusters and MultiClusterServices, as `tombolo hub` does.
async fn start_part(plane: &ControlPlane, pace: &Pace) -> Result<Part, Error> {
    let (readiness, metrics) = (Readiness::default(), Metrics::default());
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut config = tombolo_hub::Config::new("playground");
    (config.heartbeat, config.dead_after) = (pace.heartbeat, pace.dead_after);
    let (inner, gate) = (plane.inner.clone(), readiness.clone());
    let prepare = async move {
        let client = connect_part(&inner).await?;
        Ok::<_, Error>(tombolo_hub::Hub::new(config, client).with_metrics(&metrics).with_readiness(&gate))
    };
    let hub = plane.station.run(prepare).await.doing(CANNOT)??;
    let work = plane.station.spawn(hub.run(std::future::pending()));
    Part::start("hub hub".to_owned(), registry, readiness, work).await
}
