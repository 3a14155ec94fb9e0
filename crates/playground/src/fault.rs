//! What is broken on purpose, and how it is mended.

use std::time::Duration;

use crate::Playground;
use crate::control::Fault;
use crate::control_plane::ControlPlane;
use crate::error::{Doing as _, Error};
use crate::fabric::Fabric;
use crate::node::Node;

impl Playground {
    /// Breaks something, or mends it, and says what was done.
    pub(crate) async fn inflict(&mut self, fault: &Fault) -> Result<String, Error> {
        match fault {
            Fault::Partition(name) => self.partition(name).await,
            Fault::Heal(name) => self.heal(name).await,
            Fault::KillNode(name) => self.kill_node(name).await,
            Fault::KillApiserver(name) => {
                self.plane(name)?.kill().await;
                Ok(format!("the API server of {name} is gone; `heal {name}` brings it back with its data"))
            }
            Fault::Slow(name, delay) => self.slow_down(name, Duration::from_millis(*delay)).await,
        }
    }

    async fn partition(&mut self, name: &str) -> Result<String, Error> {
        self.plane(name)?;
        self.network()?.cut(name).await.doing("the link cannot be cut")?;
        Ok(format!("the link of {name} is cut"))
    }

    async fn slow_down(&mut self, name: &str, delay: Duration) -> Result<String, Error> {
        self.plane(name)?;
        self.speed_up(name).await?;
        let detour = self.network()?.detour(name, delay).await.doing("the link cannot be made slow")?;
        self.slow.insert(name.to_owned(), detour);
        Ok(format!("what leaves {name} takes {} ms longer", delay.as_millis()))
    }

    async fn speed_up(&mut self, name: &str) -> Result<(), Error> {
        if self.slow.remove(name).is_some() {
            self.network()?.straighten(name).await.doing("the link cannot be mended")?;
        }
        Ok(())
    }

    async fn kill_node(&mut self, name: &str) -> Result<String, Error> {
        let node = self.node(name)?;
        node.kill().await;
        let plan = node.plan;
        self.network()?.cut_node(&plan).await.doing("the link cannot be cut")?;
        Ok(format!("nothing runs on {name} any more"))
    }

    async fn heal(&mut self, name: &str) -> Result<String, Error> {
        if name.contains('/') {
            let plan = self.node(name)?.plan;
            self.network()?.mend_node(&plan).await.doing("the link cannot be mended")?;
            self.node(name)?.revive().await?;
            return Ok(format!("{name} runs again"));
        }
        self.plane(name)?.revive().await?;
        self.speed_up(name).await?;
        if let Some(fabric) = &self.fabric {
            fabric.mend(name).await.doing("the link cannot be mended")?;
        }
        Ok(format!("{name} is whole again"))
    }

    fn network(&self) -> Result<&Fabric, Error> {
        self.fabric
            .as_ref()
            .ok_or_else(|| Error::new("this playground has no networks, so nothing can be cut"))
    }

    fn plane(&mut self, name: &str) -> Result<&mut ControlPlane, Error> {
        if name == "hub" {
            return Ok(&mut self.hub.plane);
        }
        let found = self.members.iter_mut().find(|member| member.plan.name() == name);
        found.map(|member| &mut member.plane).ok_or_else(|| Error::new(format!("there is no cluster {name}")))
    }

    fn node(&mut self, name: &str) -> Result<&mut Node, Error> {
        let found = self.nodes.iter_mut().find(|node| node.name() == name);
        found.ok_or_else(|| Error::new(format!("there is no node {name}: write member1/node1")))
    }
}
