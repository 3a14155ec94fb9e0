//! 12, 13: endpoints that are replaced one after the other under load.

use std::time::Duration;

use serde_json::json;
use tombolo_testkit::lab::Protocol;

use crate::outcome::Outcome;
use crate::traffic::Traffic;
use crate::world::{Endpoint, World, reached_at, ready, terminating};

const ROLLOUTS: usize = 5;
/// Connections that make a rollout worth judging.
const LEAST: u64 = 40;
/// How long a pod goes on serving after it was told to end.
const GRACE: Duration = Duration::from_millis(150);

/// Replaces the pod of every node by its other one: the new one is ready before the old one ends.
async fn roll(world: &World, running: &mut [usize; 3]) {
    for node in 0..3 {
        let (old, new) = (running[node], 1 - running[node]);
        let others: Vec<Endpoint> =
            (0..3).filter(|other| *other != node).map(|other| ready(other, running[other])).collect();
        let with = |own: &[Endpoint]| [&others[..], own].concat();
        world.endpoints(&with(&[ready(node, old), ready(node, new)])).await;
        tokio::time::sleep(GRACE).await;
        world.endpoints(&with(&[terminating(node, old), ready(node, new)])).await;
        tokio::time::sleep(GRACE).await;
        world.endpoints(&with(&[ready(node, new)])).await;
        running[node] = new;
    }
}

async fn rollout(world: &World, policy: &str) -> Outcome {
    let mut running = [0; 3];
    world.endpoints(&[ready(0, 0), ready(1, 0), ready(2, 0)]).await;
    let service = world.provision(json!({ "externalTrafficPolicy": policy })).await?;
    let to = reached_at(&service, 80)[0];
    world.until_reachable(to, Protocol::Tcp).await;
    let traffic = Traffic::start(&world.lab.client, to);
    for round in 1..=ROLLOUTS {
        traffic.take();
        roll(world, &mut running).await;
        // A connection that waits for a second holds up all others: count until there is something to judge.
        let (mut good, mut bad) = traffic.take();
        while good + bad < LEAST {
            tokio::time::sleep(GRACE).await;
            let more = traffic.take();
            (good, bad) = (good + more.0, bad + more.1);
        }
        assert!(good > 0 && good * 100 >= (good + bad) * 95, "rollout {round}: {good} good, {bad} bad");
    }
    Ok(())
}

pub(super) async fn with_cluster(world: &World) -> Outcome {
    rollout(world, "Cluster").await
}

pub(super) async fn with_local(world: &World) -> Outcome {
    rollout(world, "Local").await
}
