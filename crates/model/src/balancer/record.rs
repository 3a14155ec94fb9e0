//! What a provider leaves on a Service for itself: whose it is, what was seen of it, what is served.
//!
//! Without it, a provider that starts anew could not tell a change that it slept through from none, and would either miss
//! the first or move transition times for nothing.

use serde_json::{Value, json};
use tombolo_api::loadbalancer::Service;
use tombolo_api::tombolo::LOAD_BALANCER_RECORD_ANNOTATION;

/// The content of the annotation `tombolo.dev/load-balancer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The class of load balancers that its provider serves; empty: those without one.
    pub class: String,
    /// The fingerprint of what the Service asked for when it was last looked at.
    pub seen: String,
    /// The fingerprint of what is served, and at which addresses; empty: nothing.
    pub serves: String,
}

impl Record {
    /// That of a Service; `None` if there is none, or none that can be read.
    pub fn of(service: &Service) -> Option<Record> {
        let value: Value = serde_json::from_str(service.annotation(LOAD_BALANCER_RECORD_ANNOTATION)?).ok()?;
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        Some(Record { class: text("class")?, seen: text("seen")?, serves: text("serves")? })
    }

    /// As it is written in the annotation.
    pub fn to_text(&self) -> String {
        json!({"class": self.class, "seen": self.seen, "serves": self.serves}).to_string()
    }
}
