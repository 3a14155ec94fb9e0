//! How an installation is fitted to the cluster it comes to: what is seldom needed, and then by everybody there.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Args;
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tombolo_install::{Part, Settings};

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

/// How much of a resource a pod of a part has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Amount {
    part: Part,
    resource: String,
    /// Nothing is said of it without.
    amount: Option<String>,
}

impl Fitting {
    pub(crate) fn fit(&self, settings: &mut Settings) {
        settings.pull_secrets.clone_from(&self.pull_secrets);
        settings.tolerations.clone_from(&self.tolerations);
        settings.monitor_labels = self.monitor_labels.iter().cloned().collect();
        for (amounts, is_limit) in [(&self.requests, false), (&self.limits, true)] {
            for amount in amounts {
                let mut resources = settings.resources(amount.part);
                let all = if is_limit { &mut resources.limits } else { &mut resources.requests };
                amount.write(all.get_or_insert_default());
                settings.resources.insert(amount.part, resources);
            }
        }
    }
}

impl Amount {
    fn write(&self, amounts: &mut BTreeMap<String, Quantity>) {
        match &self.amount {
            Some(amount) => drop(amounts.insert(self.resource.clone(), Quantity(amount.clone()))),
            None => drop(amounts.remove(&self.resource)),
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no amount: write dns:memory=512Mi, or dns:memory=none");
        let (part, rest) = text.split_once(':').ok_or_else(bad)?;
        let (resource, amount) = rest.split_once('=').ok_or_else(bad)?;
        if resource.is_empty() || amount.is_empty() {
            return Err(bad());
        }
        let part = Part::ALL.into_iter().find(|one| one.flag() == part).ok_or_else(|| {
            let known = Part::ALL.map(Part::flag).join(", ");
            format!("{part:?} is no part: {known}")
        })?;
        let amount = Some(amount.to_owned()).filter(|amount| amount != "none");
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

    #[test]
    fn what_is_said_of_a_part_counts_for_it_and_leaves_the_rest_as_usual() {
        let fitting = Fitting {
            pull_secrets: vec!["registry".to_owned()],
            tolerations: Vec::new(),
            requests: vec!["dns:cpu=1".parse().unwrap()],
            limits: vec!["dns:memory=none".parse().unwrap(), "member:memory=4Gi".parse().unwrap()],
            monitor_labels: Vec::new(),
        };
        let usual = Settings::default();
        let mut settings = usual.clone();
        fitting.fit(&mut settings);
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
        for bad in ["dns:memory", "cpu=1", "kitchen:cpu=1", "dns:=1", "dns:cpu="] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
    }
}
