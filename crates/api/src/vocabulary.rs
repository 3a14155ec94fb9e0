//! Enums that are one word on the wire.
//!
//! Condition types, reasons, strategies and the like have a fixed spelling that other programs read. The macro here makes
//! an enum of them with one place per spelling, and a parser that refuses what it does not know instead of guessing.

use thiserror::Error;

/// A text that is none of the words of its vocabulary.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown {vocabulary} {word:?}, expected one of {}", .known.join(", "))]
pub struct UnknownWord {
    /// The name of the enum that was asked for.
    pub vocabulary: &'static str,
    /// What was read.
    pub word: String,
    /// What would have been understood.
    pub known: &'static [&'static str],
}

/// Declares an enum whose variants are words: `as_str`, `ALL`, `Display`, `FromStr`, serde and a JSON schema.
macro_rules! vocabulary {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every word, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word as it is written in the API.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word).ok_or_else(|| $crate::UnknownWord {
                    vocabulary: stringify!($name),
                    word: word.to_owned(),
                    known: Self::WORDS,
                })
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::WORDS })
            }
        }
    };
}

pub(crate) use vocabulary;

#[cfg(test)]
mod tests {
    vocabulary! {
        /// Two words.
        Answer {
            Yes = "Yes",
            NotYet = "not-yet",
        }
    }

    #[test]
    fn a_word_reads_back_as_what_it_was_written_from() {
        for &answer in Answer::ALL {
            assert_eq!(answer.as_str().parse(), Ok(answer));
            assert_eq!(answer.to_string(), answer.as_str());
            assert_eq!(serde_json::to_value(answer).unwrap(), answer.as_str());
            assert_eq!(serde_json::from_value::<Answer>(answer.as_str().into()).unwrap(), answer);
        }
    }

    #[test]
    fn an_unknown_or_empty_word_is_refused_with_the_words_that_are_known() {
        for word in ["", "yes", "NotYet", "Yes "] {
            let error = word.parse::<Answer>().unwrap_err();
            assert_eq!(error.to_string(), format!("unknown Answer {word:?}, expected one of Yes, not-yet"));
        }
    }
}
