//! What DNS would answer for a service in each member, worked out by the code that answers there.

use std::time::Duration;

use futures_util::future::join_all;
use tombolo_api::tombolo::{Dialect, ServiceRef};
use tombolo_dns::{Config, Name, presentation, record_type};

use super::domain_name;
use super::picture::Answers;
use crate::survey::{Place, Places, Seen, Survey};

pub(super) async fn ask(places: &Places, survey: &Survey, service: &ServiceRef, edition: Dialect) -> Answers {
    let name = domain_name(service, edition);
    let reached = survey.members.iter().filter(|member| member.facts.is_ok());
    let asking = reached.filter_map(|member| {
        let place = places.others.iter().find(|place| Some(&place.context) == member.context.as_ref())?;
        let name = name.clone();
        Some(async move { (member.id.clone(), ask_one(place, places.timeout, &name).await) })
    });
    join_all(asking).await.into_iter().collect()
}

async fn ask_one(place: &Place, timeout: Duration, name: &str) -> Seen<Vec<String>> {
    let client = place.client.as_ref().map_err(Clone::clone)?;
    let name = Name::parse(name).map_err(|_| format!("{name:?} is no domain name"))?;
    let (config, address) = (Config::default(), record_type("A").unwrap_or(1));
    let explained =
        tokio::time::timeout(timeout, tombolo_dns::explain(&config, client, &name, address)).await;
    let explained = explained.map_err(|_| "the cluster could not be read in time".to_owned())?;
    let explained = explained.map_err(|error| error.to_string())?;
    let reply = explained.reply.map(|reply| presentation(&reply)).unwrap_or_default();
    let mut addresses: Vec<String> = reply.iter().filter_map(|line| address_of(line)).collect();
    addresses.sort();
    Ok(addresses)
}

/// The address in a line such as `name. 5 IN A 10.96.0.1`.
fn address_of(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip(3);
    (words.next()? == "A" && !line.starts_with(';')).then(|| words.next().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_of_addresses_count() {
        let cases = [
            ("echo.demo.svc.clusterset.local. 5 IN A 10.96.0.1", Some("10.96.0.1")),
            ("clusterset.local. 5 IN SOA ns.dns.clusterset.local. x. 1 2 3 4 5", None),
            ("; NOERROR", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(address_of(line).as_deref(), expected, "{line}");
        }
    }
}
