//! Asks what only the doctor wants to know: versions, kinds, clocks, rights.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, Error, ResourceExt as _};

use super::rights::{self, Granted};
use crate::survey::{Place, Places, Seen, Survey};

/// What was found at one API server.
#[derive(Clone, Debug)]
pub(super) struct Examined {
    pub(super) version: String,
    /// How far its clock is ahead of this computer's, in seconds.
    pub(super) ahead: Option<f64>,
    /// The definitions that are established, with the versions they serve.
    pub(super) kinds: BTreeMap<String, BTreeSet<String>>,
    /// Where its Services have their addresses, as far as it tells.
    pub(super) services: Vec<IpNet>,
    /// What the accounts of parts may do there.
    pub(super) rights: Vec<Granted>,
}

/// What was found everywhere.
#[derive(Clone, Debug)]
pub(super) struct Examinations {
    /// As the hub. The same cluster may be a member, too, of which other things are asked.
    pub(super) hub: Seen<Examined>,
    /// By context.
    pub(super) members: BTreeMap<String, Seen<Examined>>,
}

pub(super) async fn examine(places: &Places, survey: &Survey) -> Examinations {
    let hub = at(&places.hub, places.timeout, |client| async move {
        let mut found = look(client).await?;
        found.rights = rights::at_hub(client, &survey.members).await;
        Ok(found)
    });
    let members = survey.members.iter().filter(|member| member.facts.is_ok());
    let members = members.filter_map(|member| {
        let place = places.others.iter().find(|place| Some(&place.context) == member.context.as_ref())?;
        let examining = at(place, places.timeout, |client| async move {
            let mut found = look(client).await?;
            found.rights = rights::in_member(client).await;
            Ok(found)
        });
        Some(async move { (place.context.clone(), examining.await) })
    });
    let (hub, members) = tokio::join!(hub, join_all(members));
    Examinations { hub, members: members.into_iter().collect() }
}

async fn at<'a, F>(place: &'a Place, timeout: Duration, ask: impl FnOnce(&'a Client) -> F) -> Seen<Examined>
where
    F: Future<Output = Result<Examined, Error>>,
{
    let client = place.client.as_ref().map_err(Clone::clone)?;
    match tokio::time::timeout(timeout, ask(client)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("it did not answer in time".to_owned()),
    }
}

async fn look(client: &Client) -> Result<Examined, Error> {
    let version = client.apiserver_version().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let kinds = definitions.list(&ListParams::default()).await?.items;
    let kinds = kinds.iter().filter(|one| is_established(one)).map(|one| (one.name_any(), served(one)));
    Ok(Examined {
        version: version.git_version,
        ahead: clock(client).await?,
        kinds: kinds.collect(),
        services: service_cidrs(client).await,
        rights: Vec::new(),
    })
}

/// Older servers do not tell, and not everybody may ask.
async fn service_cidrs(client: &Client) -> Vec<IpNet> {
    let api: Api<ServiceCIDR> = Api::all(client.clone());
    let found = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let texts = found.iter().filter_map(|one| one.spec.as_ref()?.cidrs.as_ref()).flatten();
    texts.filter_map(|text| text.parse().ok()).collect()
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Established" && one.status == "True")
}

fn served(definition: &CustomResourceDefinition) -> BTreeSet<String> {
    let served = definition.spec.versions.iter().filter(|version| version.served);
    served.map(|version| version.name.clone()).collect()
}

/// Seconds by which the server's clock is ahead, from the date of an answer. It is told in whole seconds.
async fn clock(client: &Client) -> Result<Option<f64>, Error> {
    let request = http::Request::get("/version").body(Vec::<u8>::new()).map_err(Error::HttpError)?;
    let before = Timestamp::now();
    let answer = client.send(request.map(kube::client::Body::from)).await?;
    let middle = before + Timestamp::now().duration_since(before) / 2;
    let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    Ok(date.and_then(read_date).map(|date| date.duration_since(middle).as_secs_f64() + 0.5))
}

/// A date as HTTP writes it: `Mon, 16 Nov 2026 04:45:01 GMT`.
pub(super) fn read_date(text: &str) -> Option<Timestamp> {
    let civil = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(civil.timestamp())
}
