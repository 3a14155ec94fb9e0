//! Which of two states of one slice is the newer one.
//!
//! A slice travels through several hands, and a hub may be restored from an old backup: an older state must never replace
//! a newer one. Generations count the changes of one object; one that was made anew counts from 1 again, so its birth
//! counts first.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tombolo_api::karmada::networking::{SLICE_GENERATION_ANNOTATION, SLICE_ORIGIN_ANNOTATION};

/// The state of a slice in its own cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// When the original was made.
    pub born: Option<Timestamp>,
    /// The UID of the original.
    pub uid: String,
    pub generation: i64,
}

impl Version {
    /// The version of an original.
    pub fn of(slice: &EndpointSlice) -> Self {
        let metadata = &slice.metadata;
        Version {
            born: metadata.creation_timestamp.as_ref().map(|time| time.0),
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
        }
    }

    /// The version of the original that a copy was made of, as its annotations say; an unreadable one is the oldest.
    pub fn of_copy(metadata: &ObjectMeta) -> Self {
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
        let generation = annotation(SLICE_GENERATION_ANNOTATION).and_then(|text| text.parse().ok());
        let origin = annotation(SLICE_ORIGIN_ANNOTATION).map(String::as_str).unwrap_or_default();
        let (born, uid) = origin.split_once(' ').unwrap_or(("", origin));
        Version { born: born.parse().ok(), uid: uid.to_owned(), generation: generation.unwrap_or_default() }
    }

    /// The annotations that tell it.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        let born = self.born.map(|born| born.to_string()).unwrap_or_default();
        BTreeMap::from([
            (SLICE_GENERATION_ANNOTATION.to_owned(), self.generation.to_string()),
            (SLICE_ORIGIN_ANNOTATION.to_owned(), format!("{born} {}", self.uid)),
        ])
    }

    /// Whether this state may take the place of another one.
    pub fn may_replace(&self, held: &Version) -> bool {
        match self.uid == held.uid {
            true => self.generation >= held.generation,
            false => self.born >= held.born,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(born: i64, uid: &str, generation: i64) -> Version {
        Version { born: Timestamp::from_second(born).ok(), uid: uid.to_owned(), generation }
    }

    #[test]
    fn an_older_generation_never_replaces_a_newer_one_and_an_older_object_no_younger_one() {
        let cases = [
            (version(1, "a", 3), version(1, "a", 2), true),
            (version(1, "a", 3), version(1, "a", 3), true),
            (version(1, "a", 2), version(1, "a", 3), false),
            (version(9, "b", 1), version(1, "a", 7), true),
            (version(1, "a", 7), version(9, "b", 1), false),
            (version(1, "a", 1), Version::default(), true),
            (Version::default(), version(1, "a", 1), false),
        ];
        for (new, held, expected) in cases {
            assert_eq!(new.may_replace(&held), expected, "{new:?} over {held:?}");
        }
    }

    #[test]
    fn a_version_survives_its_annotations() {
        let given = version(100, "some-uid", 12);
        let metadata = ObjectMeta { annotations: Some(given.annotations()), ..ObjectMeta::default() };
        assert_eq!(Version::of_copy(&metadata), given);
        assert_eq!(Version::of_copy(&ObjectMeta::default()), Version::default());
    }
}
