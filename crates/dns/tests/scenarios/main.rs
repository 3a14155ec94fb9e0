//! Scenario files against a server on an embedded cluster: in process, and over the wire with dig and dnspython.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod access;
mod forwarding;
mod fuzz;
mod hostile;
mod live;
mod script;
mod tools;
mod wire;
mod world;

use std::net::IpAddr;

use tombolo_dns::{Scratch, Transport, Verdict};

use self::script::cases;
use self::world::World;

#[tokio::test]
async fn every_scenario_holds_in_process_over_both_transports() {
    let world = World::new().await;
    let (mut scratch, mut out) = (Scratch::new(1), vec![0; 65_535]);
    for case in cases() {
        let message = wire::query(&case.name, &case.kind);
        for transport in [Transport::Udp, Transport::Tcp] {
            let from = IpAddr::from([127, 0, 0, 1]);
            let verdict = world.answerer.answer(&mut scratch, &message, from, transport, &mut out);
            let (Verdict::Reply(facts) | Verdict::Follow(facts)) = verdict else { panic!("{verdict:?}") };
            case.check(&wire::outcome(&out[..facts.size]), "the answerer");
        }
    }
}
