//! How an installation is fitted to the cluster it comes to: what is seldom needed, and then by everybody there.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::Args;
use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tombolo_install::{Part, Settings};

use crate::quantity::billionths;

#[derive(Debug, Args)]
pub(crate) struct Fitting {
    /// A Secret with which the image is fetched; may be given several times.
    #[arg(long = "image-pull-secret", value_name = "NAME")]
    pull_secrets: Vec<String>,
    /// A taint that pods stand which are not on every node; may be given several times. The others stand all.
    #[arg(long = "toleration", value_name = "KEY[=VALUE][:EFFECT]", value_parser = toleration)]
    tolerations: Vec<Toleration>,
    /// What a pod of a part asks for, such as dns:cpu=1; may be given several times.
    #[arg(long = "request", value_name = "PART:RESOURCE=AMOUNT")]
    requests: Vec<Amount>,
    /// What a pod of a part may use, such as member:memory=4Gi, or =none for no limit; may be given several times.
    #[arg(long = "limit", value_name = "PART:RESOURCE=AMOUNT")]
    limits: Vec<Amount>,
    /// A label for the ServiceMonitor, for a Prometheus that looks for it; may be given several times.
    #[arg(long = "monitor-label", value_name = "KEY=VALUE", value_parser = label, requires = "monitoring")]
    monitor_labels: Vec<(String, String)>,
}

/// Where nothing is said of a resource.
const NONE: &str = "none";

/// How much of a resource a pod of a part has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Amount {
    part: Part,
    resource: String,
    /// Nothing is said of it without.
    amount: Option<String>,
}

impl Fitting {
    /// Nothing is fitted that could not run, or that nobody installs.
    pub(crate) fn fit(&self, settings: &mut Settings, chosen: &[Part]) -> Result<(), String> {
        settings.pull_secrets.clone_from(&self.pull_secrets);
        settings.tolerations.clone_from(&self.tolerations);
        settings.monitor_labels = self.monitor_labels.iter().cloned().collect();
        for (amounts, is_limit) in [(&self.requests, false), (&self.limits, true)] {
            for amount in amounts {
                if !chosen.contains(&amount.part) {
                    let part = amount.part.flag();
                    return Err(format!("{amount} is for a part that is not chosen: say --{part}, too"));
                }
                let mut resources = settings.resources(amount.part);
                let all = if is_limit { &mut resources.limits } else { &mut resources.requests };
                amount.write(all.get_or_insert_default());
                settings.resources.insert(amount.part, resources);
            }
        }
        chosen.iter().try_for_each(|part| expect_enough(*part, &settings.resources(*part)))
    }
}

/// Kubernetes takes no pod that asks for more than it may use.
fn expect_enough(part: Part, resources: &ResourceRequirements) -> Result<(), String> {
    let (requests, limits) = (resources.requests.iter().flatten(), resources.limits.as_ref());
    for (name, Quantity(request)) in requests {
        let Some(Quantity(limit)) = limits.and_then(|limits| limits.get(name)) else { continue };
        if billionths(request) > billionths(limit) {
            let part = part.flag();
            return Err(format!(
                "a pod of {part} would ask for {request} of {name} and may use {limit}: see --request and --limit \
                 {part}:{name}"
            ));
        }
    }
    Ok(())
}

impl Amount {
    fn write(&self, amounts: &mut BTreeMap<String, Quantity>) {
        match &self.amount {
            Some(amount) => drop(amounts.insert(self.resource.clone(), Quantity(amount.clone()))),
            None => drop(amounts.remove(&self.resource)),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.amount.as_deref().unwrap_or(NONE);
        write!(f, "{}:{}={amount}", self.part.flag(), self.resource)
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no amount: write dns:memory=512Mi, or dns:memory=none");
        let (part, rest) = text.split_once(':').ok_or_else(bad)?;
        let (resource, amount) = rest.split_once('=').ok_or_else(bad)?;
        if resource.is_empty() || (amount != NONE && billionths(amount).is_none()) {
            return Err(bad());
        }
        let part = Part::ALL.into_iter().find(|one| one.flag() == part).ok_or_else(|| {
            let known = Part::ALL.map(Part::flag).join(", ");
            format!("{part:?} is no part: {known}")
        })?;
        let amount = Some(amount.to_owned()).filter(|amount| amount != NONE);
        Ok(Self { part, resource: resource.to_owned(), amount })
    }
}

/// As `kubectl taint` writes taints. Without a value any is stood, without an effect all are.
fn toleration(text: &str) -> Result<Toleration, String> {
    let (taint, effect) = match text.split_once(':') {
        Some((taint, effect)) => (taint, Some(effect)),
        None => (text, None),
    };
    let (key, value) = match taint.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (taint, None),
    };
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if key.is_empty() || effect.is_some_and(|effect| !effects.contains(&effect)) {
        return Err(format!("{text:?} is no taint: write dedicated=infra:NoSchedule"));
    }
    Ok(Toleration {
        key: Some(key.to_owned()),
        operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value: value.map(str::to_owned),
        effect: effect.map(str::to_owned),
        ..Toleration::default()
    })
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or_else(|| format!("{text:?} is no label: write release=prometheus"))?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitting(requests: &[&str], limits: &[&str]) -> Fitting {
        let amounts = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Fitting {
            pull_secrets: Vec::new(),
            tolerations: Vec::new(),
            requests: amounts(requests),
            limits: amounts(limits),
            monitor_labels: Vec::new(),
        }
    }

    #[test]
    fn amounts_that_could_not_run_or_are_for_nobody_are_refused() {
        type Case = (&'static [&'static str], &'static [&'static str], &'static str);
        let cases: [Case; 6] = [
            (&["dns:memory=2Gi"], &[], "dns would ask for 2Gi of memory and may use 1Gi"),
            (&[], &["dns:memory=32Mi"], "dns would ask for 64Mi of memory and may use 32Mi"),
            (&["dns:cpu=2"], &["dns:cpu=1500m"], "dns would ask for 2 of cpu and may use 1500m"),
            (&["member:cpu=1"], &[], "member:cpu=1 is for a part that is not chosen"),
            (&[], &["proxy:memory=none"], "proxy:memory=none is for a part that is not chosen"),
            (&["dns:memory=2Gi"], &["dns:memory=2048Mi", "hub:cpu=1"], ""),
        ];
        for (requests, limits, expected) in cases {
            let mut settings = Settings::default();
            let said = fitting(requests, limits).fit(&mut settings, &[Part::Dns, Part::Hub]);
            match expected.is_empty() {
                true => assert_eq!(said, Ok(())),
                false => assert!(said.as_ref().is_err_and(|said| said.contains(expected)), "{said:?}"),
            }
        }
    }

    #[test]
    fn what_is_said_of_a_part_counts_for_it_and_leaves_the_rest_as_usual() {
        let fitting = fitting(&["dns:cpu=1"], &["dns:memory=none", "member:memory=4Gi"]);
        let usual = Settings::default();
        let mut settings = usual.clone();
        fitting.fit(&mut settings, &Part::ALL).unwrap();
        let amount = |text: &str| Some(Quantity(text.to_owned()));
        let dns = settings.resources(Part::Dns);
        assert_eq!(dns.requests.as_ref().unwrap().get("cpu").cloned(), amount("1"));
        assert_eq!(
            dns.requests.unwrap().get("memory"),
            usual.resources(Part::Dns).requests.unwrap().get("memory")
        );
        assert_eq!(dns.limits, Some(BTreeMap::new()));
        assert_eq!(settings.resources(Part::Member).limits.unwrap().get("memory").cloned(), amount("4Gi"));
        assert_eq!(settings.resources(Part::Hub), usual.resources(Part::Hub));
    }

    #[test]
    fn taints_are_written_as_kubectl_writes_them() {
        let of = |text: &str| {
            let one = toleration(text).unwrap();
            [one.key, one.operator, one.value, one.effect].map(Option::unwrap_or_default).join("|")
        };
        assert_eq!(of("dedicated=infra:NoSchedule"), "dedicated|Equal|infra|NoSchedule");
        assert_eq!(of("dedicated:NoExecute"), "dedicated|Exists||NoExecute");
        assert_eq!(of("dedicated"), "dedicated|Exists||");
        for bad in ["", ":NoSchedule", "dedicated:Sometimes"] {
            assert!(toleration(bad).is_err(), "{bad}");
        }
        for bad in [
            "dns:memory",
            "cpu=1",
            "kitchen:cpu=1",
            "dns:=1",
            "dns:cpu=",
            "dns:cpu=lots",
            "dns:memory=-1Gi",
            "dns:memory=1GB",
        ] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
    }
}
