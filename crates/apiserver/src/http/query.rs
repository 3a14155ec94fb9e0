//! The query of a request, read into typed options.

use std::collections::BTreeMap;

use crate::invalid::FieldError;
use crate::operation::{FieldValidation, ListQuery, VersionMatch, WriteOptions, parse_revision};
use crate::registry::Resource;
use crate::selector::{self, FieldTerm, Selector};
use crate::status::Status;

/// The parameters of a request; the first of several with one name counts.
#[derive(Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let mut found = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            found.entry(key.into_owned()).or_insert_with(|| value.into_owned());
        }
        Self(found)
    }

    pub(super) fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Status> {
        match self.text(key) {
            "" => Ok(false),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            other => Err(Status::bad_request(format!("invalid boolean value {other:?} for {key:?}"))),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.text(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax ({key})"))
            }),
        }
    }

    pub(super) fn write_options(&self, agent: &str) -> Result<WriteOptions, Status> {
        let manager = match self.text("fieldManager") {
            "" => agent.split('/').next().unwrap_or_default(),
            named => named,
        };
        if manager.len() > 128 {
            let error = FieldError::new("fieldManager", crate::invalid::Problem::TooLong(128), "");
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        Ok(WriteOptions {
            manager: manager.to_owned(),
            validation: self.field_validation()?,
            dry_run: self.dry_run()?,
            force: self.flag("force")?,
        })
    }

    fn field_validation(&self) -> Result<FieldValidation, Status> {
        match self.text("fieldValidation") {
            "" => Ok(FieldValidation::default()),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            other => {
                let error =
                    FieldError::not_supported("fieldValidation", other, &["Ignore", "Strict", "Warn"]);
                Err(Status::invalid("meta.k8s.io", "CreateOptions", "", &[error]))
            }
        }
    }

    pub(super) fn dry_run(&self) -> Result<bool, Status> {
        match self.text("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                let error = FieldError::not_supported("dryRun", other, &["All"]);
                Err(Status::invalid("meta.k8s.io", "CreateOptions", "", &[error]))
            }
        }
    }

    pub(super) fn list(&self, resource: &Resource) -> Result<ListQuery, Status> {
        let limit = self.number("limit")?.unwrap_or(0).max(0);
        let token = self.text("continue");
        let revision = parse_revision(self.text("resourceVersion"))?;
        if !token.is_empty() && revision.is_some_and(|revision| revision > 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(ListQuery {
            selector: self.selector(resource)?,
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: (!token.is_empty()).then(|| token.to_owned()),
            revision,
            revision_match: self.version_match(revision)?,
        })
    }

    pub(super) fn version_match(&self, revision: Option<u64>) -> Result<Option<VersionMatch>, Status> {
        let refuse = |error| Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[error]));
        let field = "resourceVersionMatch";
        match self.text(field) {
            "" => Ok(None),
            _ if revision.is_none() => refuse(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
            "Exact" if revision == Some(0) => {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                refuse(FieldError::forbidden(field, detail))
            }
            "Exact" => Ok(Some(VersionMatch::Exact)),
            "NotOlderThan" => Ok(Some(VersionMatch::NotOlderThan)),
            other => refuse(FieldError::not_supported(field, other, &["Exact", "NotOlderThan", ""])),
        }
    }

    pub(super) fn selector(&self, resource: &Resource) -> Result<Selector, Status> {
        let labels = selector::parse_labels(self.text("labelSelector")).map_err(Status::bad_request)?;
        let fields = selector::parse_fields(self.text("fieldSelector")).map_err(Status::bad_request)?;
        for term in &fields {
            check_field(resource, term)?;
        }
        Ok(Selector { labels, fields })
    }
}

/// The fields by which objects of a kind may be selected, beyond name and namespace.
fn selectable(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("" | "events.k8s.io", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "secrets") => &["type"],
        ("apps", "replicasets") | ("", "replicationcontrollers") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    }
}

fn check_field(resource: &Resource, term: &FieldTerm) -> Result<(), Status> {
    let path = term.path.as_str();
    let namespaced = resource.namespaced && path == "metadata.namespace";
    let custom = resource
        .custom_version()
        .is_some_and(|version| version.selectable_fields.iter().any(|field| field.name == path));
    if path == "metadata.name" || namespaced || custom || selectable(resource).contains(&path) {
        return Ok(());
    }
    if resource.is("", "configmaps") || resource.group == "discovery.k8s.io" {
        return Err(Status::bad_request(format!(
            "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )));
    }
    Err(Status::bad_request(format!("field label not supported: {path}")))
}
