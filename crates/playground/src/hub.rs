//! The hub that runs: an API server where members meet, and the hub's own part beside it.

use prometheus_client::registry::Registry;
use tombolo_apiserver::Options;
use tombolo_hub::Metrics;
use tombolo_model::ClusterId;
use tombolo_runtime::Readiness;

use crate::control_plane::{ControlPlane, connect};
use crate::error::{Doing as _, Error};
use crate::fabric::Fabric;
use crate::joining;
use crate::pace::Pace;
use crate::part::Part;
use crate::plan::Plan;
use crate::station::Station;

const CANNOT: &str = "the hub cannot be started";

/// Where members meet.
pub(crate) struct Hub {
    pub(crate) plane: ControlPlane,
    pub(crate) parts: Vec<Part>,
}

impl Hub {
    pub(crate) async fn start(plan: &Plan, fabric: Option<&Fabric>, pace: &Pace) -> Result<Self, Error> {
        let namespace = fabric.map(|fabric| fabric.hub.namespace());
        let station = Station::start("hub", namespace).await.doing(CANNOT)?;
        let address = fabric.map(|_| Plan::hub_api());
        let plane = ControlPlane::start(Options::named("hub"), station, address, 0).await?;
        let client = plane.cluster.client();
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
        let client = connect(&inner).await?;
        Ok::<_, Error>(tombolo_hub::Hub::new(config, client).with_metrics(&metrics).with_readiness(&gate))
    };
    let hub = plane.station.run(prepare).await.doing(CANNOT)??;
    let work = plane.station.spawn(hub.run(std::future::pending()));
    Part::start("hub hub".to_owned(), registry, readiness, work).await
}
