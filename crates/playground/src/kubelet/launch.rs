//! What it takes to run a container: program, environment, identity. Pure but for being sent to the process.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

use super::image::{self, Program};
use super::names::Names;

/// Where commands are, if nobody says.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Who a pod is; the built-in servers tell it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) node: String,
    pub(crate) pod: String,
    pub(crate) address: String,
}

/// What the process of a container is told before it becomes the container.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: Program,
    pub(crate) identity: Identity,
    /// Shown to the container in place of this computer's.
    pub(crate) names: Option<Names>,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) input: Listening,
    /// It has a terminal.
    pub(crate) tty: bool,
}

/// Whether a container can be spoken to.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) enum Listening {
    #[default]
    No,
    /// Until the first who attaches has said everything.
    Once,
    Always,
}

impl Listening {
    fn of(container: &Container) -> Self {
        match (container.stdin, container.stdin_once) {
            (Some(true), Some(true)) => Self::Once,
            (Some(true), _) => Self::Always,
            _ => Self::No,
        }
    }
}

/// Where a pod is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) cluster: String,
    pub(crate) node: String,
    pub(crate) host: Ipv4Addr,
    pub(crate) address: Ipv4Addr,
    pub(crate) names: Option<Names>,
    /// Last on the path of every container.
    pub(crate) tools: PathBuf,
    /// What every container of the cluster finds in its environment.
    pub(crate) api: Option<(String, u16)>,
}

impl Launch {
    /// What a container of a pod runs, or why it cannot.
    pub(crate) fn new(pod: &Pod, container: &Container, place: &Place) -> Result<Self, String> {
        let environment = environment(pod, container, place)?;
        let words = |given: &Option<Vec<String>>| -> Vec<String> {
            given.iter().flatten().map(|word| expand(word, &environment)).collect()
        };
        let image = container.image.as_deref().unwrap_or_default();
        let program = image::program(image, &words(&container.command), &words(&container.args))?;
        Ok(Self {
            program,
            identity: Identity {
                cluster: place.cluster.clone(),
                node: place.node.clone(),
                pod: pod.name_any(),
                address: place.address.to_string(),
            },
            names: place.names.clone(),
            working_directory: container.working_dir.clone().map(PathBuf::from),
            environment,
            input: Listening::of(container),
            tty: container.tty.unwrap_or(false),
        })
    }
}

/// Longer than anything that is told.
const MOST_BYTES: u32 = 1 << 20;

impl Launch {
    /// Tells the process of a container what it is; what follows on the same pipe is for the container itself.
    pub(crate) fn send(&self, to: &mut impl Write) -> io::Result<()> {
        let told = serde_json::to_vec(self)?;
        let length = u32::try_from(told.len()).ok().filter(|length| *length <= MOST_BYTES);
        let length = length.ok_or_else(|| io::Error::other("there is too much to tell"))?;
        to.write_all(&length.to_be_bytes())?;
        to.write_all(&told)
    }

    /// The other end of it. Reads not a byte too much.
    pub(crate) fn receive(from: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length).min(MOST_BYTES);
        let mut told = vec![0; usize::try_from(length).unwrap_or_default()];
        from.read_exact(&mut told)?;
        Ok(serde_json::from_slice(&told)?)
    }
}

fn environment(pod: &Pod, container: &Container, place: &Place) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::from([("HOSTNAME".to_owned(), pod.name_any())]);
    let path = std::env::var("PATH").unwrap_or_else(|_| USUAL_PATH.to_owned());
    all.insert("PATH".to_owned(), format!("{path}:{}", place.tools.display()));
    if let Some((host, port)) = &place.api {
        all.insert("KUBERNETES_SERVICE_HOST".to_owned(), host.clone());
        all.insert("KUBERNETES_SERVICE_PORT".to_owned(), port.to_string());
    }
    for variable in container.env.iter().flatten() {
        let value = value_of(pod, variable, place, &all)?;
        all.insert(variable.name.clone(), value);
    }
    Ok(all)
}

fn value_of(
    pod: &Pod,
    variable: &EnvVar,
    place: &Place,
    known: &BTreeMap<String, String>,
) -> Result<String, String> {
    let Some(from) = &variable.value_from else {
        return Ok(expand(variable.value.as_deref().unwrap_or_default(), known));
    };
    let path = from.field_ref.as_ref().map(|field| field.field_path.as_str());
    let path =
        path.ok_or_else(|| format!("the source of variable {} is not supported here", variable.name))?;
    field(pod, path, place).ok_or_else(|| format!("variable {}: there is no field {path}", variable.name))
}

/// The downward API.
fn field(pod: &Pod, path: &str, place: &Place) -> Option<String> {
    let spec = pod.spec.as_ref();
    Some(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "spec.nodeName" => place.node.clone(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
        }
        "status.podIP" | "status.podIPs" => place.address.to_string(),
        "status.hostIP" | "status.hostIPs" => place.host.to_string(),
        other => {
            let (map, key) = other.strip_suffix("']")?.split_once("['")?;
            let map = match map {
                "metadata.labels" => pod.labels(),
                "metadata.annotations" => pod.annotations(),
                _ => return None,
            };
            map.get(key).cloned().unwrap_or_default()
        }
    })
}

/// Replaces `$(NAME)` by what is known; `$$` is a dollar, and what is not known stays as it is.
fn expand(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let reference = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        match reference.and_then(|(name, after)| known.get(name).map(|value| (value, after))) {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => out.push('$'),
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn place() -> Place {
        Place {
            cluster: "member1".into(),
            node: "node2".into(),
            host: [172, 20, 1, 12].into(),
            address: [10, 1, 2, 3].into(),
            names: None,
            tools: "/tools".into(),
            api: None,
        }
    }

    #[test]
    fn references_are_expanded_and_what_is_not_known_stays() {
        let known = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let cases = [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$$(A)", "$(A)"),
            ("$(B)", "$(B)"),
            ("$(A", "$(A"),
            ("$", "$"),
            ("$$", "$"),
            ("", ""),
            ("$()", "$()"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }

    #[test]
    fn a_container_knows_its_pod_through_its_environment() {
        let pod: Pod = from_value(json!({
            "metadata": {"name": "p", "namespace": "demo", "uid": "u", "labels": {"app": "echo"}},
            "spec": {"containers": [{"name": "c", "image": "alpine/socat", "args": ["SYSTEM:echo $(IP)"], "env": [
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "BOTH", "value": "$(APP) at $(IP)"}]}]},
        }))
        .unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let launch = Launch::new(&pod, container, &place()).unwrap();
        assert_eq!(launch.program, Program::Socat(vec!["SYSTEM:echo 10.1.2.3".into()]));
        assert_eq!(launch.environment["BOTH"], "echo at 10.1.2.3");
        assert_eq!(launch.environment["HOSTNAME"], "p");
        assert!(launch.environment["PATH"].ends_with(":/tools"));
    }

    #[test]
    fn what_a_container_is_told_arrives_and_nothing_that_follows_is_taken() {
        let pod: Pod = from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "host", "command": ["cat"], "stdin": true, "stdinOnce": true}]},
        }))
        .unwrap();
        let launch = Launch::new(&pod, &pod.spec.as_ref().unwrap().containers[0], &place()).unwrap();
        assert_eq!((launch.input, launch.tty), (Listening::Once, false));
        let mut pipe = Vec::new();
        launch.send(&mut pipe).unwrap();
        pipe.extend_from_slice(b"typed");
        let mut pipe = pipe.as_slice();
        assert_eq!(Launch::receive(&mut pipe).unwrap(), launch);
        assert_eq!(pipe, b"typed");
        assert!(Launch::receive(&mut &b"\xff\xff\xff\xff{"[..]).is_err());
    }

    #[test]
    fn a_source_that_is_not_there_is_said() {
        let pod: Pod = from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "tombolo/echo", "env": [
                {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]},
        }))
        .unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        assert!(Launch::new(&pod, container, &place()).unwrap_err().contains("variable S"));
    }
}
