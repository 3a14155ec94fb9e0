//! The host a part runs on.

use crate::failure::Failure;

/// The name of the Node: as given, or that of the host.
pub(crate) fn node_name(given: Option<&str>) -> Result<String, Failure> {
    let host =
        || std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_lowercase());
    let name = given.map(str::to_owned).or_else(host).filter(|name| !name.is_empty());
    name.ok_or_else(|| Failure::new("the name of the node is not known").hint("give it with --node-name"))
}
