//! How busy parts are: what their counters gained between two looks. Pure.

use std::collections::BTreeMap;
use std::time::Instant;

/// The sums of counters by name, whatever their labels.
pub(super) type Counters = BTreeMap<String, f64>;

/// All parts at one time; a part that did not answer has no counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) at: Option<Instant>,
    pub(super) parts: Vec<(String, Option<Counters>)>,
}

/// What a part does in a second.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Busy {
    pub(super) name: String,
    pub(super) answers: bool,
    pub(super) queries: Option<f64>,
    pub(super) writes: Option<f64>,
    pub(super) elements: Option<f64>,
}

const QUERIES: [&str; 1] = ["coredns_dns_requests_total"];
const WRITES: [&str; 2] = ["tombolo_agent_writes_total", "tombolo_hub_work_writes_total"];
const ELEMENTS: [&str; 1] = ["tombolo_proxy_elements_written_total"];

/// Counters from a page of metrics.
pub(super) fn read(page: &str) -> Counters {
    let mut counters = Counters::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let value =
            line.rsplit('}').next().and_then(|rest| rest.split_whitespace().last()?.parse::<f64>().ok());
        if let Some(value) = value.filter(|_| name.ends_with("_total")) {
            *counters.entry(name.to_owned()).or_insert(0.0) += value;
        }
    }
    counters
}

pub(super) fn busy(before: Option<&Sample>, now: &Sample) -> Vec<Busy> {
    let seconds = before.and_then(|before| Some(now.at?.duration_since(before.at?).as_secs_f64()));
    let one = |(name, counters): &(String, Option<Counters>)| {
        let earlier =
            before.and_then(|before| before.parts.iter().find(|(other, _)| other == name)?.1.as_ref());
        let rate = |names: &[&str]| {
            let sum = |of: &Counters| {
                let found: Vec<f64> = names.iter().filter_map(|name| of.get(*name).copied()).collect();
                (!found.is_empty()).then(|| found.iter().sum::<f64>())
            };
            let (then, now) = (sum(earlier?).unwrap_or(0.0), sum(counters.as_ref()?)?);
            // A part that began anew counts from nothing.
            Some((now - then).max(0.0) / seconds.filter(|seconds| *seconds > 0.0)?)
        };
        Busy {
            name: name.clone(),
            answers: counters.is_some(),
            queries: rate(&QUERIES),
            writes: rate(&WRITES),
            elements: rate(&ELEMENTS),
        }
    };
    now.parts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels_and_rates_are_what_they_gained() {
        let page = "# TYPE x counter\ncoredns_dns_requests_total{zone=\"a b\",type=\"A\"} 10\n\
                    coredns_dns_requests_total{zone=\"c\"} 5\nup 1\nbroken\n";
        let first = read(page);
        assert_eq!(first, Counters::from([("coredns_dns_requests_total".to_owned(), 15.0)]));
        let begun = Instant::now();
        let sample = |at, value: f64| Sample {
            at: Some(at),
            parts: vec![("dns".to_owned(), Some(Counters::from([(QUERIES[0].to_owned(), value)])))],
        };
        let (before, now) = (sample(begun, 15.0), sample(begun + Duration::from_secs(2), 35.0));
        assert_eq!(busy(Some(&before), &now)[0].queries, Some(10.0));
        assert_eq!(busy(Some(&before), &now)[0].writes, None);
        assert_eq!(busy(Some(&now), &sample(begun + Duration::from_secs(3), 0.0))[0].queries, Some(0.0));
        assert_eq!(busy(None, &now)[0].queries, None, "one look is no rate");
    }
}
