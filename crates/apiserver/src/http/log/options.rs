//! Which part of a log is wanted: a query, judged by the rules of `PodLogOptions`. Pure.

use crate::http::query::Query;
use crate::invalid::FieldError;
use crate::nodes::{LogOptions, Since};
use crate::status::Status;

/// How a real server writes the path of what no single field is to blame for here.
const NO_FIELD: &str = "[]";

/// Reads what is wanted of the log of a container of `pod`; everything that is wrong with it at once.
pub(super) fn read(query: &Query, pod: &str) -> Result<LogOptions, Status> {
    let (tail, most_bytes) = (query.number("tailLines")?, query.number("limitBytes")?);
    let (seconds, time) = (query.number("sinceSeconds")?, query.time("sinceTime")?);
    let both = "at most one of `sinceTime` or `sinceSeconds` may be specified";
    let wrong: Vec<FieldError> = [
        at_least(0, "tailLines", tail, "must be greater than or equal to 0"),
        at_least(1, "limitBytes", most_bytes, "must be greater than 0"),
        match time {
            Some(_) => seconds.map(|_| FieldError::forbidden(NO_FIELD, both)),
            None => at_least(1, "sinceSeconds", seconds, "must be greater than 0"),
        },
    ]
    .into_iter()
    .flatten()
    .collect();
    if !wrong.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", pod, &wrong));
    }
    let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(LogOptions {
        follow: query.flag("follow"),
        timestamps: query.flag("timestamps"),
        previous: query.flag("previous"),
        tail: tail.map(count),
        most_bytes: most_bytes.map(count),
        since: time.map(Since::Time).or(seconds.map(|seconds| Since::SecondsAgo(seconds.unsigned_abs()))),
    })
}

fn at_least(least: i64, field: &str, given: Option<i64>, detail: &str) -> Option<FieldError> {
    given.filter(|given| *given < least).map(|given| FieldError::invalid(field, given, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Result<LogOptions, String> {
        read(&Query::parse(query), "p").map_err(|status| format!("{} {}", status.code, status.message))
    }

    #[test]
    fn what_is_not_asked_for_leaves_nothing_out() {
        assert_eq!(asked(""), Ok(LogOptions::default()));
        assert_eq!(asked("container=c&previous=false&sinceTime="), Ok(LogOptions::default()));
    }

    #[test]
    fn every_option_is_read() {
        let all = "follow=true&timestamps=1&previous=true&tailLines=0&limitBytes=1&sinceSeconds=60";
        let options = LogOptions {
            follow: true,
            timestamps: true,
            previous: true,
            tail: Some(0),
            most_bytes: Some(1),
            since: Some(Since::SecondsAgo(60)),
        };
        assert_eq!(asked(all), Ok(options));
        let time = Since::Time("2026-11-15T10:00:00Z".parse().unwrap());
        // Clients may send fractions, which a real server leaves out when it asks the node.
        let read = asked("sinceTime=2026-11-15T12:00:00.9%2B02:00").unwrap();
        assert_eq!(read.since, Some(time));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_in_the_words_of_a_real_server() {
        let invalid = "422 PodLogOptions \"p\" is invalid: ";
        let cases = [
            ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
            (
                "sinceSeconds=0&sinceTime=2026-11-15T10:00:00Z",
                "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            (
                "tailLines=-1&limitBytes=-2",
                "[tailLines: Invalid value: -1: must be greater than or equal to 0, \
                 limitBytes: Invalid value: -2: must be greater than 0]",
            ),
        ];
        for (query, why) in cases {
            assert_eq!(asked(query), Err(format!("{invalid}{why}")), "{query}");
        }
        for query in ["tailLines=few", "sinceSeconds=1m", "sinceTime=yesterday"] {
            assert!(asked(query).unwrap_err().starts_with("400 "), "{query}");
        }
        assert!(
            asked("previous=perhaps").is_ok_and(|options| options.previous),
            "all but two words mean yes"
        );
    }
}
