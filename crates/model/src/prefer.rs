//! `tombolo.dev/prefer`: which tiers of endpoints traffic prefers, nearest first.
//!
//! `zone,region,any` means: those in the client's zone as long as one is ready, else those in its region, else all. A list
//! that does not end with `any` goes no farther than its last tier. So a word that is not understood cannot be passed
//! over: `zone,all` would become `zone`, and clients elsewhere would reach nothing. A wrong list counts as none.

use tombolo_api::UnknownWord;
use tombolo_api::tombolo::{PREFER_ANNOTATION, Tier};

use crate::complaint::Complaint;

/// Reads the annotation; blanks around the commas do not count. An empty one prefers nothing.
pub(crate) fn read(text: &str) -> Result<Vec<Tier>, Complaint> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let tiers: Vec<Tier> = words.map(str::parse).collect::<Result<_, UnknownWord>>().map_err(unknown)?;
    let repeated = (1..tiers.len()).any(|end| tiers[..end].contains(&tiers[end]));
    let goes_on = tiers.iter().rev().skip(1).any(|tier| *tier == Tier::Any);
    match (repeated, goes_on) {
        (true, _) => Err(wrong("a tier is named twice")),
        (_, true) => Err(wrong("nothing can follow \"any\"")),
        _ => Ok(tiers),
    }
}

fn unknown(error: UnknownWord) -> Complaint {
    wrong(&error.to_string())
}

fn wrong(problem: &str) -> Complaint {
    Complaint::new(PREFER_ANNOTATION, format!("{problem}; the annotation is ignored"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tiers_is_read_as_it_stands() {
        assert_eq!(read("zone, region ,cluster,any"), Ok(Tier::ALL.to_vec()));
        assert_eq!(read("region"), Ok(vec![Tier::Region]));
        assert_eq!(read(" , "), Ok(Vec::new()));
    }

    #[test]
    fn a_wrong_list_counts_as_none_and_never_as_a_shorter_one() {
        for (text, problem) in [
            ("zone,all", "unknown Tier \"all\", expected one of zone, region, cluster, any"),
            ("Zone", "unknown Tier \"Zone\", expected one of zone, region, cluster, any"),
            ("zone,region,zone", "a tier is named twice"),
            ("any,any", "a tier is named twice"),
            ("any,zone", "nothing can follow \"any\""),
        ] {
            let said = read(text).unwrap_err().to_string();
            assert_eq!(said, format!("tombolo.dev/prefer: {problem}; the annotation is ignored"), "{text}");
        }
    }
}
