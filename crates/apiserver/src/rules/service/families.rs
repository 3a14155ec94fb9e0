//! Which address families a Service has, and whether this network can serve them.
//!
//! `ipFamilyPolicy`, `ipFamilies` and `clusterIPs` say the same thing three times; a client may give any of them and
//! the others follow. A headless Service without a selector is the exception that gets both families everywhere,
//! because nobody knows what its hand-made endpoints will be.

use serde_json::{Value, json};

use super::{NONE, Network, cluster_ips, is_headless, kind, validation};
use crate::invalid::FieldError;
use crate::rules::{field, ip};

const POLICY: &str = "spec.ipFamilyPolicy";
const FAMILIES: &str = "spec.ipFamilies";

/// Fills the policy and the families of `new`, or says why they cannot be had.
pub(super) fn settle(new: &mut Value, old: Option<&Value>, network: &Network) -> Result<(), Vec<FieldError>> {
    if kind(new) == "ExternalName" || old.is_some_and(|old| keeps_preference(new, old)) {
        return Ok(());
    }
    choose_policy(new, old);
    refuse(validation::cluster_ips_and_families(new, old))?;
    let mut wrong = old.map(|old| follow_policy(new, old)).unwrap_or_default();
    wrong.extend(too_many_for_single_stack(new));
    wrong.extend(infer_families(new, network));
    refuse(wrong)?;
    if field::text(new, "spec.clusterIP") == NONE && selects_nothing(new) {
        complete(new, network.primary_family(), true);
        return Ok(());
    }
    refuse(unavailable(new, network))?;
    complete(new, network.primary_family(), network.is_dual_stack());
    Ok(())
}

fn refuse(wrong: Vec<FieldError>) -> Result<(), Vec<FieldError>> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// A Service that prefers two families stays as it is when the network has gained or lost one meanwhile.
fn keeps_preference(new: &Value, old: &Value) -> bool {
    let prefers = |service: &Value| field::text(service, POLICY) == "PreferDualStack";
    let same = |path: &str| field::list(new, path) == field::list(old, path);
    kind(new) == kind(old) && prefers(new) && prefers(old) && same("spec.clusterIPs") && same(FAMILIES)
}

fn choose_policy(new: &mut Value, old: Option<&Value>) {
    if field::at(new, POLICY).is_some() {
        return;
    }
    let stored = old.map(|old| field::text(old, POLICY)).unwrap_or_default();
    let policy = if !stored.is_empty() {
        stored
    } else if field::text(new, "spec.clusterIP") == NONE && selects_nothing(new) {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    field::set(new, POLICY, policy);
}

/// Going to one family is enough to give up the second address; giving it up takes going to one family.
fn follow_policy(new: &mut Value, old: &Value) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let policy = field::text(new, POLICY).to_owned();
    for (path, what) in [("spec.clusterIPs", "cluster IP"), (FAMILIES, "IP family")] {
        let (before, after) = (field::list(old, path), field::list(new, path));
        if policy == "SingleStack" {
            if before == after && after.len() > 1 {
                let first = after[0].clone();
                field::set(new, path, json!([first]));
            }
        } else if !after.is_empty() && after.len() < before.len() {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            wrong.push(FieldError::invalid(POLICY, policy.clone(), detail));
        }
    }
    wrong
}

fn too_many_for_single_stack(new: &Value) -> Vec<FieldError> {
    if field::text(new, POLICY) != "SingleStack" {
        return Vec::new();
    }
    [("spec.clusterIPs", "cluster IPs"), (FAMILIES, "IP families")]
        .into_iter()
        .filter(|(path, _)| field::list(new, path).len() == 2)
        .map(|(_, what)| {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            FieldError::invalid(POLICY, "SingleStack", detail)
        })
        .collect()
}

/// An address tells its family.
fn infer_families(new: &mut Value, network: &Network) -> Vec<FieldError> {
    if is_headless(new) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let mut families: Vec<String> = field::texts(new, FAMILIES).into_iter().map(str::to_owned).collect();
    let ips = cluster_ips(new);
    for (index, text) in ips.iter().enumerate().skip(families.len()) {
        let family = text.parse().map_or("unknown", ip::family);
        if network.cidr(family).is_some() {
            families.push(family.to_owned());
        } else {
            let path = format!("spec.clusterIPs[{index}]");
            let detail = format!("{family} is not configured on this cluster");
            wrong.push(FieldError::invalid(path, ips.clone(), detail));
        }
    }
    if !families.is_empty() {
        field::set(new, FAMILIES, families);
    }
    wrong
}

fn unavailable(new: &Value, network: &Network) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    if field::text(new, POLICY) == "RequireDualStack" && !network.is_dual_stack() {
        let detail = "this cluster is not configured for dual-stack services";
        wrong.push(FieldError::invalid(POLICY, "RequireDualStack", detail));
    }
    for (index, family) in field::texts(new, FAMILIES).into_iter().enumerate() {
        if network.cidr(family).is_none() {
            let path = format!("{FAMILIES}[{index}]");
            wrong.push(FieldError::invalid(path, family, "not configured on this cluster"));
        }
    }
    wrong
}

/// Fills the first family, and the second one where it is wanted and to be had.
fn complete(new: &mut Value, primary: &str, second_is_there: bool) {
    let mut families: Vec<&str> = field::texts(new, FAMILIES);
    if families.is_empty() {
        families.push(primary);
    }
    if families.len() == 1 && second_is_there && field::text(new, POLICY) != "SingleStack" {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" });
    }
    let families: Vec<String> = families.into_iter().map(str::to_owned).collect();
    field::set(new, FAMILIES, families);
}

fn selects_nothing(service: &Value) -> bool {
    field::members(service, "spec.selector").next().is_none()
}
