//! One service in one edition of the API, with what was seen of it everywhere: what the hops are judged by.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::{Dialect, OFFER_LABEL, ServiceOffer, ServiceRef};
use tombolo_model::{ClusterId, names};

use crate::survey::{
    ExportSeen, HubFacts, ImportSeen, MemberFacts, MemberSeen, Seen, Survey, exports, imports,
};

/// What DNS and proxies say and do, by member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// What DNS would answer, worked out from the member's objects.
    pub(crate) names: BTreeMap<String, Seen<Vec<String>>>,
    /// What asking and trying brought, where somebody can: in a playground.
    pub(crate) heard: BTreeMap<String, Heard>,
}

/// What the processes of a member really do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// What the DNS server told each node.
    pub(crate) names: Vec<(String, Seen<Vec<String>>)>,
    /// Whether each node got a connection to the import's address; empty if that was not tried.
    pub(crate) connections: Vec<(String, Seen<()>)>,
    /// Parts that are not ready, each with what it waits for.
    pub(crate) waiting: Vec<(String, String)>,
}

/// What is judged.
pub(crate) struct Picture<'a> {
    pub(crate) survey: &'a Survey,
    pub(crate) service: &'a ServiceRef,
    pub(crate) edition: Dialect,
    pub(crate) answers: &'a Answers,
}

impl<'a> Picture<'a> {
    pub(crate) fn now(&self) -> Timestamp {
        self.survey.now
    }

    pub(crate) fn hub(&self) -> Option<&'a HubFacts> {
        self.survey.hub.facts.as_ref().ok()
    }

    /// `kubectl` for a member, as a person would type it.
    pub(crate) fn kubectl(&self, member: &MemberSeen) -> String {
        let context = member.context.as_deref().unwrap_or(&member.id);
        format!("kubectl --context {context} -n {}", self.service.namespace)
    }

    pub(crate) fn is_it(&self, namespace: &str, name: &str) -> bool {
        namespace == self.service.namespace && name == self.service.name
    }

    pub(crate) fn own_service(&self, facts: &'a MemberFacts) -> Option<&'a Service> {
        self.find_service(facts, &self.service.name)
    }

    /// The Service that holds the import's address.
    pub(crate) fn derived_service(&self, facts: &'a MemberFacts) -> Option<&'a Service> {
        self.find_service(facts, &names::derived_service(self.edition, self.service))
    }

    fn find_service(&self, facts: &'a MemberFacts, name: &str) -> Option<&'a Service> {
        let namespace = self.service.namespace.as_str();
        let is_it = |one: &&Service| one.name_any() == name && one.namespace().as_deref() == Some(namespace);
        facts.services.iter().find(is_it)
    }

    pub(crate) fn export(&self, facts: &MemberFacts) -> Option<ExportSeen> {
        let is_it = |one: &ExportSeen| one.edition == self.edition && self.is_it(&one.namespace, &one.name);
        exports(facts).into_iter().find(is_it)
    }

    pub(crate) fn import(&self, facts: &MemberFacts) -> Option<ImportSeen> {
        let is_it = |one: &ImportSeen| one.edition == self.edition && self.is_it(&one.namespace, &one.name);
        imports(facts).into_iter().find(is_it)
    }

    /// The offer of a member at the hub.
    pub(crate) fn offer(&self, member: &str) -> Option<&'a ServiceOffer> {
        let (namespace, name) = self.offer_key(member)?;
        self.hub()?
            .offers
            .iter()
            .find(|offer| offer.name_any() == name && offer.namespace().as_deref() == Some(&namespace))
    }

    /// What the member offers of its endpoints, at the hub.
    pub(crate) fn offered_slices(&self, member: &str) -> Vec<&'a EndpointSlice> {
        let (Some(hub), Some((namespace, name))) = (self.hub(), self.offer_key(member)) else {
            return Vec::new();
        };
        let belongs = |slice: &&EndpointSlice| {
            slice.namespace().as_deref() == Some(&namespace) && slice.labels().get(OFFER_LABEL) == Some(&name)
        };
        hub.slices.iter().filter(belongs).collect()
    }

    fn offer_key(&self, member: &str) -> Option<(String, String)> {
        let id: ClusterId = member.parse().ok()?;
        Some((names::hub_namespace(&id), names::offer(self.edition, self.service)))
    }

    /// The slices of a Service of a member.
    pub(crate) fn slices_of(&self, facts: &'a MemberFacts, service: &Service) -> Vec<&'a EndpointSlice> {
        let belongs = |slice: &&EndpointSlice| {
            slice.namespace() == service.namespace()
                && slice.labels().get(SERVICE_NAME_LABEL) == Some(&service.name_any())
        };
        facts.slices.iter().filter(belongs).collect()
    }

    /// Members that export it, or once did.
    pub(crate) fn exporters(&self) -> Vec<&'a MemberSeen> {
        let exports = |member: &&MemberSeen| {
            let has = member.facts.as_ref().is_ok_and(|facts| self.export(facts).is_some());
            has || self.offer(&member.id).is_some()
        };
        self.survey.members.iter().filter(exports).collect()
    }
}
