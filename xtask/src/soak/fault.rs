//! What goes wrong, for a while, and what users do meanwhile.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;
use tombolo_runtime::with_causes;

use super::fleet::{Fleet, id};
use super::flood::Flood;
use super::report::Seen;
use super::throttle::Throttle;
use crate::servers::Failure;

/// Long enough for a lease of 30 s to run out and be noticed.
const LONG: Duration = Duration::from_secs(50);
/// Several leases.
const VERY_LONG: Duration = Duration::from_secs(150);
/// Much longer than an API server takes to start, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The agent that leads is killed, and another started.
    AgentKilled(usize),
    /// The agent that leads stands still for longer than its leadership lasts, and then goes on beside the one that took over.
    AgentFrozen(usize),
    /// All agents of a member stand still until the others have given it up.
    Silence(usize),
    /// The hub's API server is killed and away for minutes.
    HubLostForLong,
    /// The same for longer than any lease.
    HubLost,
    /// The hub's API server comes back with a certificate that has run out, which is replaced while it runs.
    CertificateExpired,
    /// A member's API server is killed.
    ServerKilled(usize),
    /// etcd is killed, for all clusters but the one that is spared.
    StoreKilled,
    /// The hub answers all that the agents of a member ask with 429.
    Throttled(usize),
    /// Many large objects and slices that nobody of us cares for.
    Flood,
}

/// What users do while something is wrong, and what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meanwhile {
    /// Everything, as always. What comes of it is looked at afterwards.
    Churn,
    /// They move services. No member may lose an endpoint even for a moment.
    Hold,
    /// Nothing, so that what every member should hold is known before it is over: nothing of the member that is given up.
    GiveUp(usize),
}

impl Fault {
    /// How it is called in tables.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Fault::AgentKilled(_) => "the agent that leads killed",
            Fault::AgentFrozen(_) => "the agent that leads frozen for 25 s, then two alive",
            Fault::Silence(_) => "all agents of a member silent for 50 s",
            Fault::HubLostForLong => "hub's API server away for 150 s",
            Fault::HubLost => "hub's API server away for 50 s",
            Fault::CertificateExpired => "hub's certificate run out for 30 s",
            Fault::ServerKilled(_) => "member's API server killed, away for 10 s",
            Fault::StoreKilled => "etcd of all clusters but the spared one killed, away for 5 s",
            Fault::Throttled(_) => "hub at its rate limit for a member for 20 s",
            Fault::Flood => "unrelated writes for 20 s",
        }
    }

    pub(super) fn lasts(self) -> Duration {
        match self {
            Fault::StoreKilled => Duration::from_secs(5),
            // Longer than a leadership.
            Fault::AgentKilled(_) | Fault::AgentFrozen(_) => Duration::from_secs(25),
            Fault::HubLostForLong => VERY_LONG,
            Fault::Silence(_) | Fault::HubLost => LONG,
            Fault::CertificateExpired => Duration::from_secs(30),
            Fault::ServerKilled(_) => Duration::from_secs(10),
            Fault::Throttled(_) | Fault::Flood => Duration::from_secs(20),
        }
    }

    pub(super) fn meanwhile(self) -> Meanwhile {
        match self {
            Fault::Silence(member) => Meanwhile::GiveUp(member),
            Fault::HubLostForLong | Fault::HubLost | Fault::CertificateExpired => Meanwhile::Hold,
            _ => Meanwhile::Churn,
        }
    }

    /// The member in which two agents are alive afterwards, of which one may write.
    pub(super) fn leaves_two_alive(self) -> Option<usize> {
        match self {
            Fault::AgentFrozen(member) => Some(member),
            _ => None,
        }
    }

    pub(super) async fn begin(self, fleet: &mut Fleet) -> Result<Course, Failure> {
        match self {
            Fault::AgentKilled(member) => {
                let former = Leader::find(fleet, member).await?;
                fleet.replace_agent(member, former.replica).await?;
                return Ok(Course::Led(self, former));
            }
            Fault::AgentFrozen(member) => {
                let former = Leader::find(fleet, member).await?;
                fleet.signal(member, &[former.replica], Signal::STOP)?;
                return Ok(Course::Led(self, former));
            }
            Fault::Silence(member) => fleet.signal(member, &[0, 1], Signal::STOP)?,
            Fault::HubLostForLong | Fault::HubLost => fleet.servers.planes[0].kill(),
            Fault::CertificateExpired => fleet.servers.planes[0].expire()?,
            Fault::ServerKilled(member) => fleet.servers.planes[member + 1].kill(),
            Fault::StoreKilled => fleet.servers.etcd.kill(),
            Fault::Throttled(member) => {
                return Ok(Course::Throttled(Throttle::begin(fleet, member).await?));
            }
            Fault::Flood => return Ok(Course::Flooded(Flood::begin(&fleet.hub, &fleet.members))),
        }
        Ok(Course::Plain(self))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Fault::AgentKilled(member)
            | Fault::AgentFrozen(member)
            | Fault::Silence(member)
            | Fault::Throttled(member)
            | Fault::ServerKilled(member) => write!(f, " ({})", id(*member)),
            _ => Ok(()),
        }
    }
}

/// A fault that is there.
pub(super) enum Course {
    Plain(Fault),
    /// Something was done to the agent that led.
    Led(Fault, Leader),
    Throttled(Throttle),
    Flooded(Flood),
}

impl Course {
    /// Ends it. How it was seen to be there, where it does not show by itself; an error if it was not.
    pub(super) async fn end(self, fleet: &mut Fleet) -> Result<Option<Seen>, Failure> {
        let fault = match self {
            Course::Led(fault, former) => {
                former.succeeded(fleet).await?;
                if let Fault::AgentFrozen(member) = fault {
                    fleet.signal(member, &[former.replica], Signal::CONT)?;
                }
                return Ok(None);
            }
            Course::Throttled(throttle) => return throttle.end().await.map(Some),
            Course::Flooded(flood) => return Ok(flood.end().await.map(Some)?),
            Course::Plain(fault) => fault,
        };
        match fault {
            Fault::Silence(member) => fleet.signal(member, &[0, 1], Signal::CONT)?,
            Fault::HubLostForLong | Fault::HubLost => fleet.servers.planes[0].revive().await?,
            Fault::CertificateExpired => {
                see_expired(fleet).await?;
                fleet.servers.planes[0].renew().await?;
            }
            Fault::ServerKilled(member) => fleet.servers.planes[member + 1].revive().await?,
            Fault::StoreKilled => fleet.servers.etcd.revive().await?,
            Fault::AgentKilled(_) | Fault::AgentFrozen(_) | Fault::Throttled(_) | Fault::Flood => {}
        }
        Ok(None)
    }
}

/// The agent that led a member when something was done to it.
pub(super) struct Leader {
    member: usize,
    replica: usize,
    identity: String,
}

impl Leader {
    /// Waits until one leads: after the fault before, that may take as long as a leadership.
    async fn find(fleet: &Fleet, member: usize) -> Result<Self, Failure> {
        let begin = Instant::now();
        loop {
            if let Some((replica, identity)) = fleet.leader(member).await? {
                return Ok(Self { member, replica, identity });
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("no agent of {} leads", id(member)).into());
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until another leads.
    async fn succeeded(&self, fleet: &Fleet) -> Result<(), Failure> {
        let begin = Instant::now();
        while fleet.leader(self.member).await?.is_none_or(|(_, identity)| identity == self.identity) {
            if begin.elapsed() > PATIENCE {
                return Err(format!("nobody took over from {}", self.identity).into());
            }
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

/// Somebody who connects now must be told that the hub's certificate has run out. A server may still be about to start.
async fn see_expired(fleet: &Fleet) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let client = fleet.servers.planes[0].context.client()?;
        let Err(refused) = client.apiserver_version().await else {
            return Err("the hub was asked in spite of its certificate, which has run out".into());
        };
        let said = with_causes(&refused);
        if said.to_lowercase().contains("expired") {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("the hub's certificate has run out, but: {said}").into());
        }
        sleep(Duration::from_millis(200)).await;
    }
}
