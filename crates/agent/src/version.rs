//! Which Kubernetes a server is, for the few things that depend on it.

use k8s_openapi::apimachinery::pkg::version::Info;

/// The minor version of a Kubernetes 1. Providers append to it, such as `21+`.
pub(crate) fn minor(version: &Info) -> Option<u32> {
    let minor = version.minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
    minor.filter(|_| version.major == "1")
}
