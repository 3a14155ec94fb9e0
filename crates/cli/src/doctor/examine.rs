//! Asks what only the doctor wants to know: versions, kinds, clocks, rights.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Error, ResourceExt as _};
use tombolo_model::{ClusterId, names};

use crate::survey::{MemberSeen, Place, Places, Seen, Survey};

/// What was found at one API server.
#[derive(Clone, Debug)]
pub(super) struct Examined {
    pub(super) version: String,
    /// How far its clock is ahead of this computer's, in seconds.
    pub(super) ahead: Option<f64>,
    /// The definitions that are established, with the versions they serve.
    pub(super) kinds: BTreeMap<String, BTreeSet<String>>,
    /// What the agent's account may not do there, or why nobody knows.
    pub(super) forbidden: Seen<Vec<String>>,
}

/// Something an account must be allowed.
pub(super) struct Right {
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    pub(super) verb: &'static str,
}

/// What stands for everything in deploy/member/agent-rbac.yaml.
pub(super) const IN_MEMBER: [Right; 6] = [
    Right { group: "", resource: "services", verb: "create" },
    Right { group: "discovery.k8s.io", resource: "endpointslices", verb: "patch" },
    Right { group: "multicluster.x-k8s.io", resource: "serviceexports", verb: "watch" },
    Right { group: "multicluster.x-k8s.io", resource: "serviceimports", verb: "create" },
    Right { group: "multicluster.k8s.io", resource: "importedservices", verb: "create" },
    Right { group: "about.k8s.io", resource: "clusterproperties", verb: "get" },
];
/// What stands for everything in deploy/hub/member-rbac.yaml.
pub(super) const AT_HUB: [Right; 4] = [
    Right { group: "tombolo.dev", resource: "memberships", verb: "patch" },
    Right { group: "tombolo.dev", resource: "serviceoffers", verb: "create" },
    Right { group: "discovery.k8s.io", resource: "endpointslices", verb: "patch" },
    Right { group: "coordination.k8s.io", resource: "leases", verb: "patch" },
];
const MEMBER_ACCOUNT: &str = "system:serviceaccount:tombolo-system:tombolo-agent";

/// By context; the hub's under its own.
pub(super) type Examinations = BTreeMap<String, Seen<Examined>>;

pub(super) async fn examine(places: &Places, survey: &Survey) -> Examinations {
    let hub = at(&places.hub, places.timeout, |client| async move {
        let mut found = look(client).await?;
        found.forbidden = rights_at_hub(client, &survey.members).await;
        Ok(found)
    });
    let members = survey.members.iter().filter(|member| member.facts.is_ok());
    let members = members.filter_map(|member| {
        let place = places.others.iter().find(|place| Some(&place.context) == member.context.as_ref())?;
        Some(at(place, places.timeout, |client| async move {
            let mut found = look(client).await?;
            found.forbidden = forbidden(client, MEMBER_ACCOUNT, None, &IN_MEMBER).await;
            Ok(found)
        }))
    });
    let (hub, members) = tokio::join!(hub, join_all(members));
    members.into_iter().chain([hub]).collect()
}

async fn at<'a, F>(
    place: &'a Place,
    timeout: Duration,
    ask: impl FnOnce(&'a Client) -> F,
) -> (String, Seen<Examined>)
where
    F: Future<Output = Result<Examined, Error>>,
{
    let seen = match &place.client {
        Err(why) => Err(why.clone()),
        Ok(client) => match tokio::time::timeout(timeout, ask(client)).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it did not answer in time".to_owned()),
        },
    };
    (place.context.clone(), seen)
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
        forbidden: Ok(Vec::new()),
    })
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

async fn rights_at_hub(client: &Client, members: &[MemberSeen]) -> Seen<Vec<String>> {
    let mut missing = Vec::new();
    for member in members {
        let Ok(id) = member.id.parse::<ClusterId>() else { continue };
        let namespace = names::hub_namespace(&id);
        let account = format!("system:serviceaccount:{namespace}:agent");
        let found = forbidden(client, &account, Some(&namespace), &AT_HUB).await?;
        missing.extend(found.into_iter().map(|what| format!("{what} in {namespace}")));
    }
    Ok(missing)
}

async fn forbidden(
    client: &Client,
    account: &str,
    namespace: Option<&str>,
    rights: &[Right],
) -> Seen<Vec<String>> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let mut missing = Vec::new();
    for right in rights {
        let attributes = ResourceAttributes {
            group: Some(right.group.to_owned()),
            resource: Some(right.resource.to_owned()),
            verb: Some(right.verb.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(account.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer =
            reviews.create(&PostParams::default(), &review).await.map_err(|error| error.to_string())?;
        if !answer.status.is_some_and(|status| status.allowed) {
            missing.push(format!("{} {}", right.verb, right.resource));
        }
    }
    Ok(missing)
}
