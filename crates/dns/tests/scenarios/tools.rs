//! The same questions, asked by the programs people use.
//!
//! A tool that is missing fails the test: `cargo xtask test` installs what it may and names the rest.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use crate::script::{FILES, Outcome, cases, folder};
use crate::world::World;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed (cargo xtask test): {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// What dig makes of a reply.
fn dig(address: SocketAddr, arguments: &[&str]) -> (String, Outcome) {
    let port = address.port().to_string();
    let server = format!("@{}", address.ip());
    let fixed = [server.as_str(), "-p", &port, "+norecurse", "+tries=1", "+time=10"];
    let text = run("dig", &[&fixed[..], arguments].concat());
    let mut outcome = Outcome::default();
    let mut section = "";
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("status: ") {
            outcome.status = rest.split(',').next().unwrap().to_owned();
        }
        if let Some(name) = line.strip_prefix(";; ").and_then(|rest| rest.strip_suffix(" SECTION:")) {
            section = name;
        } else if !line.starts_with(';') && !line.is_empty() {
            let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "IN").collect();
            match section {
                "ANSWER" => drop(outcome.answer.insert(words.join(" "))),
                "AUTHORITY" => outcome.zone = Some(words[0].to_owned()),
                "ADDITIONAL" => drop(outcome.additional.insert(words.join(" "))),
                _ => {}
            }
        }
    }
    (text, outcome.settle())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dig_gets_the_answers_of_the_scenarios() {
    let world = World::new().await;
    let address = world.address;
    let asking = tokio::task::spawn_blocking(move || {
        for case in cases() {
            let (_, outcome) = dig(address, &[&case.name, &case.kind]);
            case.check(&outcome, "dig");
        }
    });
    asking.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dnspython_gets_the_answers_of_the_scenarios_over_udp_and_tcp() {
    let world = World::new().await;
    let port = world.address.port().to_string();
    let asking = tokio::task::spawn_blocking(move || {
        let script = folder().join("check.py").display().to_string();
        let files = FILES.map(|file| folder().join(file).display().to_string());
        let mut arguments = vec![script.as_str(), &port];
        arguments.extend(files.iter().map(String::as_str));
        run("python3", &arguments)
    });
    let said = asking.await.unwrap();
    assert_eq!(said.trim(), format!("{} right", cases().len() * 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_is_transferred_to_those_who_may_have_it_and_refused_to_others() {
    let mut config = crate::world::config();
    config.transfer = vec!["127.0.0.2".parse().unwrap()];
    let world = World::with(config).await;
    let address = world.address;
    let asking = tokio::task::spawn_blocking(move || {
        let (refused, _) = dig(address, &["clusterset.local", "AXFR"]);
        assert!(refused.contains("Transfer failed"), "{refused}");
        let (zone, _) = dig(address, &["-b", "127.0.0.2", "clusterset.local", "AXFR"]);
        let lines: BTreeSet<String> = zone
            .lines()
            .filter(|line| !line.starts_with(';') && !line.is_empty())
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for record in [
            "web.shop.svc.clusterset.local. 5 IN A 10.96.1.1",
            "db-0.west.prod.db.shop.svc.clusterset.local. 5 IN AAAA fd00:2::1",
            "_pg._tcp.db.shop.svc.clusterset.local. 5 IN SRV 0 100 5432 db-0.east.db.shop.svc.clusterset.local.",
            "dns-version.clusterset.local. 28800 IN TXT \"1.0.0\"",
        ] {
            assert!(lines.contains(record), "{record} is not in\n{zone}");
        }
        assert!(zone.contains("XFR size"), "{zone}");
    });
    asking.await.unwrap();
}
