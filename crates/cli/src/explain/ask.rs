//! What DNS and proxies do for a service in each member.
//!
//! What DNS would answer is worked out by the code that answers there, which works for any cluster. A playground is asked,
//! too: what its servers tell its nodes, whether the address takes connections, which parts are not ready.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tombolo_api::tombolo::{Dialect, ServiceRef};
use tombolo_dns::{Config, Name, presentation, record_type};
use tombolo_playground::{Directory, Found, Inquiry, inquire};

use super::domain_name;
use super::picture::{Answers, Heard, Picture};
use crate::parts;
use crate::survey::{MemberSeen, Place, Places, Seen, Survey};

pub(super) async fn ask(places: &Places, survey: &Survey, service: &ServiceRef, edition: Dialect) -> Answers {
    let name = domain_name(service, edition);
    let reached: Vec<&MemberSeen> = survey.members.iter().filter(|member| member.facts.is_ok()).collect();
    let asking = reached.iter().filter_map(|member| {
        let place = places.others.iter().find(|place| Some(&place.context) == member.context.as_ref())?;
        let name = name.clone();
        Some(async move { (member.id.clone(), ask_one(place, places.timeout, &name).await) })
    });
    let mut answers = Answers { names: join_all(asking).await.into_iter().collect(), ..Answers::default() };
    if let Some(directory) = &places.playground {
        let nothing = Answers::default();
        let picture = Picture { survey, service, edition, answers: &nothing };
        for member in reached {
            let address = vip(&picture, member);
            answers.heard.extend(
                hear(directory, &member.id, &name, address).await.map(|heard| (member.id.clone(), heard)),
            );
        }
    }
    answers
}

async fn ask_one(place: &Place, timeout: Duration, name: &str) -> Seen<Vec<String>> {
    let client = place.client.as_ref().map_err(Clone::clone)?;
    let name = Name::parse(name).map_err(|_| format!("{name:?} is no domain name"))?;
    let config = Config::default();
    let of_either_family = ["A", "AAAA"].into_iter().filter_map(record_type);
    let explaining = of_either_family.map(|kind| tombolo_dns::explain(&config, client, &name, kind));
    let explained = tokio::time::timeout(timeout, try_join_all(explaining)).await;
    let explained = explained.map_err(|_| "the cluster could not be read in time".to_owned())?;
    let explained = explained.map_err(|error| error.to_string())?;
    let replies = explained.iter().filter_map(|one| one.reply.as_deref());
    let lines: Vec<String> = replies.flat_map(presentation).collect();
    Ok(addresses(lines.iter().map(String::as_str)))
}

/// An address and port of the import that takes TCP connections.
fn vip(picture: &Picture<'_>, member: &MemberSeen) -> Option<SocketAddr> {
    let derived = picture.derived_service(member.facts.as_ref().ok()?)?.spec.as_ref()?;
    let address: IpAddr = derived.cluster_ip.as_ref()?.parse().ok()?;
    let is_tcp = |protocol: Option<&str>| matches!(protocol, None | Some("TCP"));
    let port = derived.ports.iter().flatten().find(|port| is_tcp(port.protocol.as_deref()))?;
    Some(SocketAddr::new(address, u16::try_from(port.port).ok()?))
}

/// Asks a playground; nothing if it does not know the member or has no networks.
async fn hear(directory: &Directory, member: &str, name: &str, vip: Option<SocketAddr>) -> Option<Heard> {
    let endpoints = directory.endpoints().ok()?;
    endpoints.outside.as_ref()?;
    let asked = Inquiry::Name { member: member.to_owned(), name: name.to_owned() };
    let names = find_out(directory, asked).await?;
    let names = names.into_iter().map(|one| (one.from, one.outcome.map(|said| addresses(said.lines()))));
    let connections = match vip {
        Some(to) => find_out(directory, Inquiry::Connection { member: member.to_owned(), to }).await?,
        None => Vec::new(),
    };
    let connections = connections.into_iter().map(|one| (one.from, one.outcome.map(drop)));
    let mut waiting = Vec::new();
    for part in endpoints.parts().into_iter().filter(|part| part.cluster == member) {
        waiting.extend(parts::waits_for(&part).await.map(|what| (part.name, what)));
    }
    Some(Heard { names: names.collect(), connections: connections.collect(), waiting })
}

async fn find_out(directory: &Directory, inquiry: Inquiry) -> Option<Vec<Found>> {
    let directory = directory.clone();
    tokio::task::spawn_blocking(move || inquire(&directory, inquiry)).await.ok()?.ok()
}

/// The addresses in lines such as `name. 5 IN A 10.96.0.1`.
fn addresses<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = lines.filter_map(address_of).collect();
    found.sort();
    found
}

fn address_of(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip(3);
    (["A", "AAAA"].contains(&words.next()?) && !line.starts_with(';'))
        .then(|| words.next().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_of_addresses_count() {
        let cases = [
            ("echo.demo.svc.clusterset.local. 5 IN A 10.96.0.1", Some("10.96.0.1")),
            ("echo.demo.svc.clusterset.local. 5 IN AAAA fd00:96::1", Some("fd00:96::1")),
            ("clusterset.local. 5 IN SOA ns.dns.clusterset.local. x. 1 2 3 4 5", None),
            ("; NOERROR", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(address_of(line).as_deref(), expected, "{line}");
        }
    }
}
