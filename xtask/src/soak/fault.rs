//! What goes wrong, for a while, and what must hold meanwhile.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::fleet::{Fleet, id, object};
use crate::servers::Failure;

/// The first member is spared, so that its agents show what a long life does to them.
const SPARED: usize = 1;
/// Long enough for a lease of 30 s to run out and be noticed.
const LONG: Duration = Duration::from_secs(50);
/// Bytes of one object that has nothing to do with us, and how often such a one is written in each of two clusters.
const BALLAST: usize = 250_000;
const BALLAST_EVERY: Duration = Duration::from_millis(50);

/// The name of what makes the hub refuse.
const THROTTLE: &str = "soak";

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// An agent is killed, and another started.
    AgentKilled(usize, usize),
    /// An agent stands still for longer than its leadership lasts, and then goes on beside the one that took over.
    AgentFrozen(usize, usize),
    /// All agents of a member stand still until the others have given it up.
    Silence(usize),
    /// The hub's API server is killed and away for longer than any lease.
    HubLost,
    /// A member's API server is killed.
    ServerKilled(usize),
    /// etcd is killed, for all clusters.
    StoreKilled,
    /// The hub answers all that the agents of a member ask with 429.
    Throttled(usize),
    /// 10 MB/s of objects that nobody of us cares for.
    Flood,
}

impl Fault {
    pub(super) fn pick(random: &mut Rng, members: usize) -> Self {
        let member = random.usize(SPARED..members);
        match random.u8(..8) {
            0 => Fault::AgentKilled(member, random.usize(..2)),
            1 => Fault::AgentFrozen(member, random.usize(..2)),
            2 => Fault::Silence(member),
            3 => Fault::HubLost,
            4 => Fault::ServerKilled(member),
            5 => Fault::StoreKilled,
            6 => Fault::Throttled(member),
            _ => Fault::Flood,
        }
    }

    /// How it is called in tables.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Fault::AgentKilled(..) => "agent killed",
            Fault::AgentFrozen(..) => "agent frozen for 25 s, then two alive",
            Fault::Silence(_) => "all agents of a member silent for 50 s",
            Fault::HubLost => "hub's API server away for 50 s",
            Fault::ServerKilled(_) => "member's API server killed, away for 10 s",
            Fault::StoreKilled => "etcd of all clusters killed, away for 5 s",
            Fault::Throttled(_) => "hub at its rate limit for a member, 429 for 20 s",
            Fault::Flood => "10 MB/s of unrelated writes for 20 s",
        }
    }

    pub(super) fn lasts(self) -> Duration {
        match self {
            Fault::AgentKilled(..) => Duration::from_secs(5),
            Fault::AgentFrozen(..) => Duration::from_secs(25),
            Fault::Silence(_) | Fault::HubLost => LONG,
            Fault::ServerKilled(_) => Duration::from_secs(10),
            Fault::StoreKilled => Duration::from_secs(5),
            Fault::Throttled(_) | Fault::Flood => Duration::from_secs(20),
        }
    }

    /// Whether users do nothing meanwhile, so that what every member should hold is known before it is over.
    pub(super) fn wants_calm(self) -> bool {
        matches!(self, Fault::Silence(_) | Fault::HubLost)
    }

    /// The member that the others have given up before it is over.
    pub(super) fn given_up(self) -> Option<usize> {
        match self {
            Fault::Silence(member) => Some(member),
            _ => None,
        }
    }

    pub(super) async fn begin(self, fleet: &mut Fleet, tasks: &mut JoinSet<()>) -> Result<(), Failure> {
        match self {
            Fault::AgentKilled(member, replica) => fleet.replace_agent(member, replica).await?,
            Fault::AgentFrozen(member, replica) => fleet.signal(member, &[replica], Signal::STOP)?,
            Fault::Silence(member) => fleet.signal(member, &[0, 1], Signal::STOP)?,
            Fault::HubLost => fleet.servers.planes[0].kill(),
            Fault::ServerKilled(member) => fleet.servers.planes[member + 1].kill(),
            Fault::StoreKilled => fleet.servers.etcd.kill(),
            Fault::Throttled(member) => throttle(&fleet.hub, member).await?,
            Fault::Flood => {
                for client in [&fleet.hub, &fleet.members[0]] {
                    tasks.spawn(flood(client.clone()));
                }
            }
        }
        Ok(())
    }

    pub(super) async fn end(self, fleet: &mut Fleet, tasks: &mut JoinSet<()>) -> Result<(), Failure> {
        match self {
            Fault::AgentKilled(..) => {}
            Fault::AgentFrozen(member, replica) => fleet.signal(member, &[replica], Signal::CONT)?,
            Fault::Silence(member) => fleet.signal(member, &[0, 1], Signal::CONT)?,
            Fault::HubLost => fleet.servers.planes[0].revive().await?,
            Fault::ServerKilled(member) => fleet.servers.planes[member + 1].revive().await?,
            Fault::StoreKilled => fleet.servers.etcd.revive().await?,
            Fault::Throttled(_) => unthrottle(&fleet.hub).await?,
            Fault::Flood => tasks.shutdown().await,
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::AgentKilled(member, _)
            | Fault::AgentFrozen(member, _)
            | Fault::Silence(member)
            | Fault::Throttled(member)
            | Fault::ServerKilled(member) => write!(f, "{} ({})", self.kind(), id(*member)),
            Fault::HubLost | Fault::StoreKilled | Fault::Flood => f.write_str(self.kind()),
        }
    }
}

/// Leaves no seat for what a member's agents ask of the hub.
async fn throttle(hub: &Client, member: usize) -> Result<(), Failure> {
    let level: PriorityLevelConfiguration = object(json!({
        "metadata": {"name": THROTTLE},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    }));
    Api::all(hub.clone()).create(&PostParams::default(), &level).await?;
    let group = format!("system:serviceaccounts:tombolo-{}", id(member));
    let schema: FlowSchema = object(json!({
        "metadata": {"name": THROTTLE},
        "spec": {
            "priorityLevelConfiguration": {"name": THROTTLE}, "matchingPrecedence": 10,
            "rules": [{
                "subjects": [{"kind": "Group", "group": {"name": group}}],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
                }],
            }],
        },
    }));
    Api::all(hub.clone()).create(&PostParams::default(), &schema).await?;
    Ok(())
}

async fn unthrottle(hub: &Client) -> Result<(), Failure> {
    Api::<FlowSchema>::all(hub.clone()).delete(THROTTLE, &DeleteParams::default()).await?;
    Api::<PriorityLevelConfiguration>::all(hub.clone()).delete(THROTTLE, &DeleteParams::default()).await?;
    Ok(())
}

/// Writes an object with other content again and again.
async fn flood(client: Client) {
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let mut ticks = interval(BALLAST_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 0_u64.. {
        ticks.tick().await;
        let text = format!("{round:016}").repeat(BALLAST / 16);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ballast"}, "data": {"text": text},
        });
        let params = PatchParams::apply("soak").force();
        let _ = api.patch("ballast", &params, &Patch::Apply(object)).await;
    }
}
