//! The token for the hub, renewed before it runs out.
//!
//! A token of the hub lives for some days and cannot be prolonged, only replaced. The one in use is in a Secret of the
//! member, as a file in the pods of all its agents. When a third of its life is over, the agent that leads asks the hub for
//! another one that lives as long, and puts it there. So the cluster may be away for the other two thirds; after that
//! somebody has to let it join again. A clock that is slow does not delay it: what counts as well is how long the agent has
//! known the token.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Patch;
use kube::{Api, Error};
use serde_json::{Value, json};
use tokio::time::Instant;
use tombolo_api::tombolo::{HUB_ACCOUNT, TOKEN_KEY};
use tombolo_model::names;
use tombolo_runtime::{LONGEST_ATTEMPT, in_time, request_token, with_causes};

use crate::shared::Shared;
use crate::write::merge_params;

/// How long to wait after a failure, and at least between two tokens whatever the clocks say.
const PAUSE: Duration = Duration::from_secs(60);
/// How long to sleep at most: a token may be replaced by hand.
const LOOK_EVERY: Duration = Duration::from_secs(3600);
/// The life of a token that follows one of which nobody knows how long it lives.
const USUAL_LIFE: i64 = 7 * 24 * 3600;
/// No API server gives tokens for less.
const SHORTEST_LIFE: i64 = 600;

/// When a token was made and when it runs out, in seconds since 1970, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    from: i64,
    until: i64,
}

impl Life {
    /// Reads the middle part of a JSON web token. Whether it is genuine is for the hub to say.
    fn of(token: &str) -> Option<Self> {
        let claims = URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        let life = Self { from: claims["iat"].as_i64()?, until: claims["exp"].as_i64()? };
        (life.until > life.from).then_some(life)
    }

    fn seconds(self) -> i64 {
        self.until.saturating_sub(self.from).max(SHORTEST_LIFE)
    }

    /// How long it may still be used before it should be replaced, by one who has `known` it for so long.
    fn rest(self, now: Timestamp, known: Duration) -> Duration {
        let third = self.seconds() / 3;
        let due = Timestamp::from_second(self.from.saturating_add(third)).unwrap_or(now);
        let by_clock = due.duration_since(now).max(SignedDuration::ZERO).unsigned_abs();
        by_clock.min(Duration::from_secs(third.unsigned_abs()).saturating_sub(known))
    }
}

/// The token that an agent found last, and when it did.
#[derive(Default)]
struct Known(Option<(Life, Instant)>);

impl Known {
    /// How long it has known this one.
    fn since(&mut self, life: Life) -> Duration {
        match self.0 {
            Some((known, since)) if known == life => since.elapsed(),
            _ => {
                self.0 = Some((life, Instant::now()));
                Duration::ZERO
            }
        }
    }
}

/// Keeps the token in its Secret good for as long as the agent leads. Does nothing for an agent that was given none.
pub(crate) async fn run(shared: &Shared) {
    let Some(name) = &shared.config.token_secret else { return std::future::pending().await };
    let mut known = Known::default();
    loop {
        let pause = match in_time(LONGEST_ATTEMPT, look(shared, name, &mut known)).await {
            Ok(rest) => rest.clamp(PAUSE, LOOK_EVERY),
            Err(error) => {
                tracing::warn!(error = %with_causes(&error), secret = name, "the token for the hub could not be renewed; trying again");
                PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Replaces the token if it is time. Returns how long the one that is there then may be used.
async fn look(shared: &Shared, name: &str, known: &mut Known) -> Result<Duration, Error> {
    let secrets: Api<Secret> = Api::namespaced(shared.member.clone(), &shared.config.namespace);
    let held = secrets.get(name).await?.data.unwrap_or_default().remove(TOKEN_KEY);
    let life = held.and_then(|token| Life::of(&String::from_utf8_lossy(&token.0)));
    let now = shared.config.clock.now();
    let rest = life.map(|life| life.rest(now, known.since(life)));
    if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
        return Ok(rest);
    }
    let place = names::hub_namespace(&shared.config.cluster);
    let seconds = life.map_or(USUAL_LIFE, Life::seconds);
    let token = request_token(&shared.hub, &place, HUB_ACCOUNT, seconds).await?;
    let data = json!({"data": {TOKEN_KEY: STANDARD.encode(&token)}});
    secrets.patch(name, &merge_params(), &Patch::Merge(&data)).await?;
    let life = Life::of(&token);
    let until = life.and_then(|life| Timestamp::from_second(life.until).ok());
    tracing::info!(secret = name, until = ?until.map(|until| until.to_string()), "the token for the hub is renewed");
    Ok(life.map_or(LOOK_EVERY, |life| life.rest(now, known.since(life))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_token_says_how_long_it_lives_and_rubbish_says_nothing() {
        let life = Life::of(&token(r#"{"iat": 1000, "exp": 4600, "sub": "x"}"#)).unwrap();
        assert_eq!((life, life.seconds()), (Life { from: 1000, until: 4600 }, 3600));
        let rubbish = ["", "a.b", "a.b.c", &token("{}"), &token(r#"{"iat": 5, "exp": 5}"#), &token("[1, 2]")];
        for text in rubbish {
            assert_eq!(Life::of(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_token_is_replaced_when_a_third_of_its_life_is_over() {
        let life = Life { from: 1000, until: 4600 };
        let rest = |second, known| {
            life.rest(Timestamp::from_second(second).unwrap(), Duration::from_secs(known)).as_secs()
        };
        assert_eq!([rest(1000, 0), rest(2199, 0), rest(2200, 0), rest(9999, 0)], [1200, 1, 0, 0]);
        let forever = Life { from: i64::MIN, until: i64::MAX };
        assert!(forever.rest(Timestamp::MAX, Duration::ZERO).is_zero());
        // By a clock that is ten minutes slow.
        assert_eq!([rest(400, 0), rest(1599, 1199), rest(1600, 1200)], [1200, 1, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_known_from_when_it_was_found_first() {
        let (mut known, life) = (Known::default(), Life { from: 1000, until: 4600 });
        assert_eq!(known.since(life).as_secs(), 0);
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(known.since(life).as_secs(), 70);
        assert_eq!(known.since(Life { from: 1070, until: 4670 }).as_secs(), 0);
    }
}
