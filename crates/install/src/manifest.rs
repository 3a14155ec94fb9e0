//! A Kubernetes object as it is applied or written down.

use k8s_openapi::Resource;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Serialize;
use serde_json::{Value, json};
use tombolo_api::crd::{RenderError, plain};

/// One object, with a line for each of its rules that says why it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    value: Value,
    reasons: Vec<&'static str>,
}

impl Manifest {
    /// An object of a kind that Kubernetes has.
    pub(crate) fn of<K: Resource + Serialize>(object: &K) -> Self {
        let mut value = serde_json::to_value(object).expect("Kubernetes objects have a JSON form");
        value["apiVersion"] = json!(K::API_VERSION);
        value["kind"] = json!(K::KIND);
        Self::from_value(value)
    }

    /// An object of any kind; it says which.
    pub(crate) fn from_value(value: Value) -> Self {
        Self { value: plain(value), reasons: Vec::new() }
    }

    pub(crate) fn because(self, reasons: Vec<&'static str>) -> Self {
        Self { reasons, ..self }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn namespace(&self) -> Option<&str> {
        self.value["metadata"]["namespace"].as_str()
    }

    /// Where the API server has objects of this kind.
    pub(crate) fn resource(&self) -> ApiResource {
        let version = self.value["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, self.kind());
        match self.kind() {
            "ClusterProperty" => ApiResource::from_gvk_with_plural(&kind, "clusterproperties"),
            _ => ApiResource::from_gvk(&kind),
        }
    }

    /// As YAML, each rule of a role below the reason for it.
    fn text(&self) -> Result<String, RenderError> {
        let yaml = serde_saphyr::to_string(&self.value)?;
        let mut reasons = self.reasons.iter();
        let mut text = String::new();
        for line in yaml.trim_end().lines() {
            let reason = line.starts_with("- apiGroups:").then(|| reasons.next()).flatten();
            if let Some(reason) = reason {
                text += &format!("# {reason}\n");
            }
            text += line;
            text.push('\n');
        }
        Ok(text)
    }
}

/// Several objects as one text.
pub fn render(manifests: &[Manifest]) -> Result<String, RenderError> {
    let texts: Vec<String> = manifests.iter().map(Manifest::text).collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}
