//! Which endpoint goes into which slice.
//!
//! An endpoint stays where it is: whoever watches slices pays for every one that is rewritten. New endpoints go where
//! something changes anyway, then into the fullest slice that has room for all of them, then into a new one.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

/// The most endpoints in one slice.
const MOST: usize = 100;

/// New contents, by position of the existing slice; what is left over needs slices of its own.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Packed {
    /// As many as there were slices: what each holds now, and whether that is something else than before.
    pub(super) kept: Vec<(Vec<Endpoint>, bool)>,
    pub(super) new: Vec<Vec<Endpoint>>,
}

/// Spreads `wanted` over `slices`. Endpoints are the same when they are of the same pod.
pub(super) fn pack(slices: &[&EndpointSlice], mut wanted: Vec<Endpoint>) -> Packed {
    let mut kept: Vec<(Vec<Endpoint>, bool)> = slices
        .iter()
        .map(|slice| keep(slice.endpoints.as_deref().unwrap_or_default(), &mut wanted))
        .collect();
    for (endpoints, _) in kept.iter_mut().filter(|(_, changed)| *changed) {
        fill(endpoints, &mut wanted);
    }
    let fits = |endpoints: &[Endpoint]| endpoints.len() + wanted.len() <= MOST;
    let roomy = kept.iter_mut().filter(|(endpoints, _)| !wanted.is_empty() && fits(endpoints));
    // The first of equals, so that the choice does not depend on anything else.
    let fullest = roomy.reduce(|best, next| if next.0.len() > best.0.len() { next } else { best });
    if let Some((endpoints, changed)) = fullest {
        fill(endpoints, &mut wanted);
        *changed = true;
    }
    let mut new = Vec::new();
    while !wanted.is_empty() {
        let mut endpoints = Vec::new();
        fill(&mut endpoints, &mut wanted);
        new.push(endpoints);
    }
    Packed { kept, new }
}

/// What stays of `present`, in its newest form, taken out of `wanted`.
fn keep(present: &[Endpoint], wanted: &mut Vec<Endpoint>) -> (Vec<Endpoint>, bool) {
    let mut endpoints = Vec::new();
    let mut changed = false;
    for old in present {
        match wanted.iter().position(|new| is_same(old, new)) {
            Some(place) if endpoints.len() < MOST => {
                let new = wanted.remove(place);
                changed |= *old != new;
                endpoints.push(new);
            }
            _ => changed = true,
        }
    }
    (endpoints, changed)
}

fn is_same(a: &Endpoint, b: &Endpoint) -> bool {
    let uid = |endpoint: &Endpoint| endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
    uid(a) == uid(b) && uid(a).is_some()
}

fn fill(endpoints: &mut Vec<Endpoint>, wanted: &mut Vec<Endpoint>) {
    let room = MOST.saturating_sub(endpoints.len()).min(wanted.len());
    endpoints.extend(wanted.drain(..room));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_value, json};

    use super::*;

    fn endpoint(number: u32, ready: bool) -> Endpoint {
        from_value(json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready},
            "targetRef": {"uid": number.to_string()}}))
        .unwrap()
    }

    fn slice(endpoints: Vec<Endpoint>) -> EndpointSlice {
        EndpointSlice { endpoints: Some(endpoints), ..EndpointSlice::default() }
    }

    fn range(numbers: std::ops::Range<u32>) -> Vec<Endpoint> {
        numbers.map(|number| endpoint(number, true)).collect()
    }

    #[test]
    fn only_the_slice_with_the_changed_endpoint_changes() {
        let slices = [slice(range(0..100)), slice(range(100..150))];
        let mut wanted = range(0..150);
        wanted[7] = endpoint(7, false);
        let packed = pack(&slices.iter().collect::<Vec<_>>(), wanted);
        assert_eq!(packed.kept.iter().map(|(_, changed)| *changed).collect::<Vec<_>>(), [true, false]);
        assert_eq!(packed.kept[0].0[7], endpoint(7, false));
        assert!(packed.new.is_empty());
    }

    #[test]
    fn new_endpoints_go_where_something_changes_then_where_there_is_room() {
        let slices = [slice(range(0..100)), slice(range(100..150)), slice(range(150..160))];
        let slices: Vec<&EndpointSlice> = slices.iter().collect();
        let sizes = |packed: &Packed| {
            packed.kept.iter().map(|(kept, changed)| (kept.len(), *changed)).collect::<Vec<_>>()
        };
        let grown = pack(&slices, range(0..170));
        assert_eq!(sizes(&grown), [(100, false), (60, true), (10, false)]);
        let mut replaced = range(1..160);
        replaced.extend(range(200..201));
        assert_eq!(sizes(&pack(&slices, replaced)), [(100, true), (50, false), (10, false)]);
        let many = pack(&slices, range(0..400));
        assert_eq!(sizes(&many), [(100, false), (50, false), (10, false)]);
        assert_eq!(many.new.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 40]);
    }

    proptest! {
        #[test]
        fn every_endpoint_is_in_exactly_one_slice_and_packing_again_changes_nothing(
            before in proptest::collection::vec(0_u32..300, 0..250),
            after in proptest::collection::btree_set(0_u32..300, 0..250),
        ) {
            let slices: Vec<EndpointSlice> = before
                .chunks(60)
                .map(|numbers| slice(numbers.iter().map(|number| endpoint(*number, true)).collect()))
                .collect();
            let wanted: Vec<Endpoint> = after.iter().map(|number| endpoint(*number, true)).collect();
            let packed = pack(&slices.iter().collect::<Vec<_>>(), wanted.clone());
            let contents: Vec<Vec<Endpoint>> =
                packed.kept.into_iter().map(|(kept, _)| kept).chain(packed.new).filter(|kept| !kept.is_empty()).collect();
            prop_assert!(contents.iter().all(|endpoints| endpoints.len() <= MOST));
            let mut found: Vec<u32> = contents.iter().flatten()
                .map(|endpoint| endpoint.target_ref.as_ref().unwrap().uid.as_ref().unwrap().parse().unwrap())
                .collect();
            found.sort_unstable();
            prop_assert_eq!(found, after.into_iter().collect::<Vec<u32>>());
            let slices: Vec<EndpointSlice> = contents.into_iter().map(slice).collect();
            let again = pack(&slices.iter().collect::<Vec<_>>(), wanted);
            prop_assert!(again.new.is_empty() && again.kept.iter().all(|(_, changed)| !changed));
        }
    }
}
