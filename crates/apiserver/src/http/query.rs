//! The query of a request, read into typed options.

use std::collections::BTreeMap;
use std::num::IntErrorKind;

use jiff::Timestamp;

use super::selectable;
use crate::invalid::{FieldError, Problem};
use crate::operation::{FieldValidation, ListQuery, VersionMatch, WriteOptions, parse_revision};
use crate::registry::Resource;
use crate::selector::{self, Selector};
use crate::status::Status;
use crate::types::parse_time;

/// The longest name of a manager, in octets.
const MOST_OF_A_MANAGER: usize = 128;

/// The parameters of a request; the first of several with one name counts.
#[derive(Debug, Default)]
pub(super) struct Query {
    first: BTreeMap<String, String>,
    /// All that were given, in their order, for the few that may be given several times.
    all: Vec<(String, String)>,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let all: Vec<(String, String)> = form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        let mut first = BTreeMap::new();
        for (key, value) in &all {
            first.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Self { first, all }
    }

    pub(super) fn text(&self, key: &str) -> &str {
        self.first.get(key).map_or("", String::as_str)
    }

    /// Every value of a parameter.
    pub(super) fn all(&self, key: &str) -> Vec<String> {
        self.all.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.first.contains_key(key)
    }

    /// Whatever is given means yes, but for two words that mean no: `watch`, `watch=` and `watch=f` are all watches.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.first.get(key).is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.first.get(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    }

    pub(super) fn time(&self, key: &str) -> Result<Option<Timestamp>, Status> {
        match self.text(key) {
            "" => Ok(None),
            text => parse_time(text).map(Some).map_err(Status::bad_request),
        }
    }

    /// The options of a write; `kind` is what they are called where they are refused.
    pub(super) fn write_options(&self, agent: &str, kind: &str) -> Result<WriteOptions, Status> {
        let named = self.text("fieldManager");
        let mut wrong = Vec::new();
        if named.len() > MOST_OF_A_MANAGER {
            wrong.push(FieldError::new("fieldManager", Problem::TooLong(MOST_OF_A_MANAGER), ""));
        }
        wrong.extend(self.wrong_dry_run());
        let validation = match self.text("fieldValidation") {
            "" => FieldValidation::default(),
            "Ignore" => FieldValidation::Ignore,
            "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                wrong.push(FieldError::not_supported("fieldValidation", other, &known));
                FieldValidation::default()
            }
        };
        if !wrong.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", &wrong));
        }
        Ok(WriteOptions {
            manager: if named.is_empty() { manager_of(agent) } else { named.to_owned() },
            validation,
            dry_run: self.has("dryRun"),
            force: self.flag("force"),
            duplicates: Vec::new(),
        })
    }

    fn wrong_dry_run(&self) -> Option<FieldError> {
        let asked = self.all("dryRun");
        let known = asked.iter().all(|word| word == "All");
        (!known).then(|| FieldError::not_supported("dryRun", asked, &["All"]))
    }

    pub(super) fn list(&self, resource: &Resource) -> Result<ListQuery, Status> {
        let revision_match = self.version_match()?;
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
            revision_match,
        })
    }

    /// How `resourceVersion` of a list is meant; everything that is wrong with it at once, as a real server says it.
    fn version_match(&self) -> Result<Option<VersionMatch>, Status> {
        let field = "resourceVersionMatch";
        let (version, matching) = (self.text("resourceVersion"), self.text(field));
        let forbidden = |detail: &str| FieldError::forbidden(field, detail);
        let mut wrong = Vec::new();
        if !matching.is_empty() && version.is_empty() {
            wrong.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !matching.is_empty() && !self.text("continue").is_empty() {
            wrong.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
        if !["", "Exact", "NotOlderThan"].contains(&matching) {
            wrong.push(FieldError::not_supported(field, matching, &["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && version == "0" {
            wrong.push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
        if self.has("sendInitialEvents") {
            let detail = "sendInitialEvents is forbidden for list";
            wrong.push(FieldError::forbidden("sendInitialEvents", detail));
        }
        match matching {
            _ if !wrong.is_empty() => Err(list_options_invalid(&wrong)),
            "Exact" => Ok(Some(VersionMatch::Exact)),
            "NotOlderThan" => Ok(Some(VersionMatch::NotOlderThan)),
            _ => Ok(None),
        }
    }

    /// Whether a watch wants the current state first; `None`: what the resource version says.
    pub(super) fn initial_events(&self) -> Result<Option<bool>, Status> {
        let wanted = if self.has("sendInitialEvents") { Some(self.flag("sendInitialEvents")) } else { None };
        let field = "resourceVersionMatch";
        let matching = self.text(field);
        let mut wrong = Vec::new();
        if wanted.is_some() && matching != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            wrong.push(FieldError::forbidden(field, detail));
        }
        if wanted.is_none() && !matching.is_empty() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            wrong.push(FieldError::forbidden(field, detail));
        }
        if !["", "NotOlderThan"].contains(&matching) {
            wrong.push(FieldError::not_supported(field, matching, &["NotOlderThan"]));
        }
        if wrong.is_empty() { Ok(wanted) } else { Err(list_options_invalid(&wrong)) }
    }

    pub(super) fn selector(&self, resource: &Resource) -> Result<Selector, Status> {
        let labels = selector::parse_labels(self.text("labelSelector")).map_err(Status::bad_request)?;
        let fields = selector::parse_fields(self.text("fieldSelector")).map_err(Status::bad_request)?;
        let fields = fields.into_iter().map(|term| selectable::resolve(resource, term));
        Ok(Selector { labels, fields: fields.collect::<Result<_, _>>()? })
    }
}

/// What a client calls itself, as the name of a manager: without its version, what cannot be printed, and what is too long.
fn manager_of(agent: &str) -> String {
    let is_printable = |letter: char| letter == ' ' || !(letter.is_control() || letter.is_whitespace());
    let name = agent.split('/').next().unwrap_or_default().chars();
    let name: String = name.filter(|&letter| is_printable(letter)).collect();
    name[..name.floor_char_boundary(MOST_OF_A_MANAGER)].to_owned()
}

fn list_options_invalid(wrong: &[FieldError]) -> Status {
    Status::invalid("meta.k8s.io", "ListOptions", "", wrong)
}
