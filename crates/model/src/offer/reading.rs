//! Reading the texts of a Service: words become values, and what is no word is complained about.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use k8s_openapi::api::core::v1::{ServicePort as Declared, ServiceSpec};
use tombolo_api::UnknownWord;
use tombolo_api::service::{HEADLESS, IpFamily, Protocol, ServicePort};

use crate::complaint::Complaint;

pub(super) fn word<T: FromStr<Err = UnknownWord>>(
    field: &str,
    text: &Option<String>,
    complaints: &mut Vec<Complaint>,
) -> Option<T> {
    let text = text.as_deref().filter(|text| !text.is_empty())?;
    text.parse().map_err(|error: UnknownWord| complaints.push(unknown(field, &error))).ok()
}

pub(super) fn words<T: FromStr<Err = UnknownWord>>(
    field: &str,
    texts: &[String],
    complaints: &mut Vec<Complaint>,
) -> Vec<T> {
    texts.iter().filter_map(|text| word(field, &Some(text.clone()), complaints)).collect()
}

fn unknown(field: &str, error: &UnknownWord) -> Complaint {
    Complaint::new(field, format!("{error}; it is ignored"))
}

/// A list in an annotation is comma-separated; blanks around the commas do not count.
pub(super) fn list(annotations: Option<&BTreeMap<String, String>>, key: &str) -> Vec<String> {
    let text = annotations.and_then(|annotations| annotations.get(key)).map_or("", String::as_str);
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn ports(spec: &ServiceSpec, complaints: &mut Vec<Complaint>) -> Vec<ServicePort> {
    spec.ports.iter().flatten().filter_map(|port| read_port(port, complaints)).collect()
}

fn read_port(port: &Declared, complaints: &mut Vec<Complaint>) -> Option<ServicePort> {
    let protocol = match port.protocol.as_deref() {
        None | Some("") => Protocol::Tcp,
        Some(text) => text.parse().map_err(|error| complaints.push(unknown("spec.ports", &error))).ok()?,
    };
    Some(ServicePort {
        name: port.name.clone(),
        protocol,
        app_protocol: port.app_protocol.clone(),
        port: port.port,
    })
}

/// The families the Service declares; on a server too old to say so, those of its addresses.
pub(crate) fn families(spec: &ServiceSpec, complaints: &mut Vec<Complaint>) -> Vec<IpFamily> {
    let declared: Vec<IpFamily> =
        words("spec.ipFamilies", spec.ip_families.as_deref().unwrap_or_default(), complaints);
    if !declared.is_empty() {
        return declared;
    }
    let addresses = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let mut families = Vec::new();
    for family in addresses.filter(|ip| *ip != HEADLESS).filter_map(|ip| ip.parse().ok()).map(family_of) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    families
}

fn family_of(address: IpAddr) -> IpFamily {
    if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 }
}
