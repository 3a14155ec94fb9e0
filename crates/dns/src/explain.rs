//! Why an answer is what it is, for a person.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::base::iana::Rtype;
use domain::base::{Message, ParsedRecord};
use domain::rdata::AllRecordData;
use kube::Client;
use tokio::task::JoinSet;
use tombolo_runtime::{Boxed, Clock, Key};

use crate::answer::{Answerer, Found, Kind, Scratch, Transport, Verdict, look_up};
use crate::config::{Config, Error};
use crate::message::TCP_LIMIT;
use crate::metrics::Metrics;
use crate::view::View;
use crate::zone::{Labels, Name, Realm, Service, Zones};

/// What would be answered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The reply as it would be sent over TCP; `None` if there would be none, or somebody else would give it.
    pub reply: Option<Vec<u8>>,
    /// What led to it, one step a line.
    pub steps: Vec<String>,
}

/// Reads the cluster behind `client` once and answers `name` from it as a server with this configuration would.
pub fn explain<'a>(
    config: &'a Config,
    client: &'a Client,
    name: &'a Name,
    qtype: u16,
) -> Boxed<'a, Result<Explanation, Error>> {
    Box::pin(read_and_answer(config, client, name, qtype))
}

async fn read_and_answer(
    config: &Config,
    client: &Client,
    name: &Name,
    qtype: u16,
) -> Result<Explanation, Error> {
    let settings = Arc::new(config.settings(&config.listen)?);
    let answerer = Answerer { zones: Zones::new(), settings: settings.clone() };
    let view = View::new(&settings);
    let mut tasks = JoinSet::new();
    view.follow(client, &mut tasks);
    tasks.spawn(view.clone().publish(answerer.zones.clone(), Metrics::default(), Clock::wall()));
    for realm in view.realms() {
        while !answerer.zones.is_complete(realm) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let mut steps = Vec::new();
    describe(&answerer, &view, name, &mut steps);
    Ok(Explanation { reply: ask(&answerer, name, qtype), steps })
}

fn ask(answerer: &Answerer, name: &Name, qtype: u16) -> Option<Vec<u8>> {
    let message = query(name, qtype);
    let mut reply = vec![0; TCP_LIMIT];
    let from = IpAddr::from([127, 0, 0, 1]);
    match answerer.answer(&mut Scratch::new(0), &message, from, Transport::Tcp, &mut reply) {
        Verdict::Reply(facts) | Verdict::Follow(facts) => {
            reply.truncate(facts.size);
            Some(reply)
        }
        Verdict::Ignore | Verdict::Forward | Verdict::Transfer(_) => None,
    }
}

fn describe(answerer: &Answerer, view: &View, name: &Name, steps: &mut Vec<String>) {
    let Answerer { zones, settings } = answerer;
    let Some((place, before)) = settings.zone(name) else {
        let then = if settings.forward { "it is asked upstream" } else { "it is refused" };
        steps
            .push(format!("{name} is in none of the zones, so {then} unless it is an address that is known"));
        return;
    };
    let apex = &settings.zones[place];
    let Kind::Services(realm) = apex.kind else {
        steps.push(format!("{name} is in the reverse zone {}", apex.name));
        return;
    };
    steps.push(format!("{name} is in the zone {} of realm {}", apex.name, realm.as_str()));
    if before >= 3 && name.label(before - 1) == b"svc" {
        service(view, zones, realm, name, before, steps);
    }
    steps.push(look_up(zones, apex, name, before, |found| verdict(&found)));
}

fn service(view: &View, zones: &Zones, realm: Realm, name: &Name, before: usize, steps: &mut Vec<String>) {
    let text = |label: usize| String::from_utf8_lossy(name.label(label)).into_owned();
    let key = Key::new(text(before - 2), text(before - 3));
    let kind = match realm {
        Realm::Kep => "ImportedService",
        Realm::Mcs => "ServiceImport",
        Realm::Cluster => "Service",
    };
    if !zones.has_namespace(name.labels(before - 2, before - 1)) {
        steps.push(format!(
            "namespace {} does not exist in this cluster, so nothing in it does",
            key.namespace
        ));
        return;
    }
    match view.state(realm, &key) {
        None => steps.push(format!(
            "there is no {kind} {key}: is the service exported, and has the agent imported it?"
        )),
        Some(state) => steps.push(format!("{kind} {key}: {state}")),
    }
    for slice in view.slices_of(realm, &key) {
        let endpoints = slice.endpoints.as_deref().unwrap_or_default();
        let ready = |e: &&k8s_openapi::api::discovery::v1::Endpoint| {
            e.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true)
        };
        let source =
            slice.metadata.labels.as_ref().and_then(|l| l.get(tombolo_api::mcs::SOURCE_CLUSTER_LABEL));
        steps.push(format!(
            "EndpointSlice {}{}: {} endpoints, {} ready",
            slice.metadata.name.as_deref().unwrap_or_default(),
            source.map(|source| format!(" from cluster {source}")).unwrap_or_default(),
            endpoints.len(),
            endpoints.iter().filter(ready).count(),
        ));
    }
}

fn verdict(found: &Found<'_>) -> String {
    match found {
        Found::Nothing => "nothing has this name, nor any name below it: NXDOMAIN".to_owned(),
        Found::Empty => "there are names below it, but it has no records itself".to_owned(),
        Found::Apex => "it is the top of the zone".to_owned(),
        Found::Version => "it tells the version of the naming scheme".to_owned(),
        Found::Server => "it is this server".to_owned(),
        Found::Service(Service::Alias(target)) => format!("it is an alias of {}", Labels(target)),
        Found::Service(Service::Address { v4: None, v6: None, .. }) => {
            "the service has no address yet, so it has no A or AAAA records".to_owned()
        }
        Found::Service(service) => format!("it is a service with the addresses {:?}", service.addresses()),
        Found::Port(_) => "it is a port of the service: it has SRV records".to_owned(),
        Found::Host(host) => {
            format!("it is an endpoint with the addresses {:?}", host.addresses.iter().collect::<Vec<_>>())
        }
        Found::Unknown => "not everything has been listed yet: SERVFAIL".to_owned(),
        Found::Reverse => "it is the name of an address".to_owned(),
    }
}

/// A question for one type of records of a name, as it is sent.
pub fn query(name: &Name, qtype: u16) -> Vec<u8> {
    let mut message = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name.bytes());
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

/// The number of a type of records by its name.
pub fn record_type(word: &str) -> Option<u16> {
    word.to_ascii_uppercase().parse::<Rtype>().ok().map(|kind| kind.to_int())
}

/// A reply as people read it: its code, then its records section by section.
pub fn presentation(reply: &[u8]) -> Vec<String> {
    let Ok(message) = Message::from_octets(reply) else { return vec!["; it cannot be read".to_owned()] };
    let mut lines = vec![format!("; {}", message.header().rcode())];
    let Ok((_, answer, authority, additional)) = message.sections() else { return lines };
    for (title, section) in [("answer", answer), ("authority", authority), ("additional", additional)] {
        let records: Vec<String> = section.flatten().filter_map(|record| line(&record)).collect();
        if !records.is_empty() {
            lines.push(format!("; {title}"));
            lines.extend(records);
        }
    }
    lines
}

fn line(record: &ParsedRecord<'_, &[u8]>) -> Option<String> {
    let data = record.to_any_record::<AllRecordData<_, _>>().ok()?;
    let (owner, ttl, kind) = (record.owner(), record.ttl().as_secs(), record.rtype());
    Some(format!("{owner}. {ttl} IN {kind} {}", data.data()))
}
