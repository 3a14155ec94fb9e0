//! Which endpoints are near enough to keep to them.
//!
//! Two mechanisms, never both. Topology hints are what the slice controller makes of `trafficDistribution`, which a proxy
//! itself does not read: they count only if every ready endpoint has one and one of them names us, so that no endpoint is
//! overlooked while hints are being written. `tombolo.dev/prefer` is for imports, whose slices have no hints.

use tombolo_api::tombolo::Tier as Preference;

use super::endpoint::Endpoint;
use super::node::Node;
use super::route::Nearness;

/// The endpoints that hints keep this node to; `None`: they keep it to nothing.
pub(super) fn hinted<'e, 'a>(
    ready: &[&'e Endpoint<'a>],
    node: &Node,
) -> Option<(Vec<&'e Endpoint<'a>>, Nearness)> {
    let by_node = keep(ready, Some(&node.name), |endpoint| &endpoint.node_hints);
    let by_zone = || keep(ready, node.zone(), |endpoint| &endpoint.zone_hints);
    by_node.map(|kept| (kept, Nearness::Node)).or_else(|| by_zone().map(|kept| (kept, Nearness::Zone)))
}

fn keep<'e, 'a>(
    ready: &[&'e Endpoint<'a>],
    here: Option<&str>,
    hints: impl Fn(&'e Endpoint<'a>) -> &'e [&'a str],
) -> Option<Vec<&'e Endpoint<'a>>> {
    let here = here?;
    if ready.iter().any(|endpoint| hints(endpoint).is_empty()) {
        return None;
    }
    let kept: Vec<_> = ready.iter().copied().filter(|endpoint| hints(endpoint).contains(&here)).collect();
    (!kept.is_empty()).then_some(kept)
}

/// The endpoints of the first tier that has any; none at all if no tier of the list has: who wants to go on to the rest
/// of the world ends the list with `any`. The nearness is `None` for `any`.
pub(super) fn preferred<'e, 'a>(
    tiers: &[Preference],
    endpoints: &[&'e Endpoint<'a>],
    node: &Node,
) -> (Vec<&'e Endpoint<'a>>, Option<Nearness>) {
    for tier in tiers {
        let inside = |endpoint: &&Endpoint<'_>| is_within(*tier, endpoint, node);
        let kept: Vec<_> = endpoints.iter().copied().filter(inside).collect();
        if !kept.is_empty() {
            return (kept, nearness(*tier));
        }
    }
    (Vec::new(), None)
}

fn nearness(tier: Preference) -> Option<Nearness> {
    match tier {
        Preference::Zone => Some(Nearness::Zone),
        Preference::Region => Some(Nearness::Region),
        Preference::Cluster => Some(Nearness::Cluster),
        Preference::Any => None,
    }
}

pub(super) fn is_within(tier: Preference, endpoint: &Endpoint<'_>, node: &Node) -> bool {
    let same_region = endpoint.region.is_some() && endpoint.region == node.region();
    let other_region = endpoint.region.is_some() && node.region().is_some() && !same_region;
    match tier {
        // Zones of different regions may have the same name where nobody hands out the names.
        Preference::Zone => endpoint.zone.is_some() && endpoint.zone == node.zone() && !other_region,
        Preference::Region => same_region,
        Preference::Cluster => endpoint.own,
        Preference::Any => true,
    }
}
