//! `kubectl logs`: the lives of a container, and which part of what it said in one.

use jiff::Timestamp;
use tombolo_testkit::eventually;

use crate::world::Playground;

#[test]
fn kubectl_shows_what_a_container_said_before_it_was_started_again() {
    let playground = Playground::start(1, 1);
    let member = playground.at("member1");
    // Ends the first time, stays the second.
    let known = playground.dir().join("known").display().to_string();
    let script =
        format!("test -e {known} && echo again && exec sleep 3600; echo first; touch {known}; exit 1");
    member.run(&format!("run phoenix --image=host --command -- sh -c '{script}'")).succeeds();
    eventually("it was started again", || member.run("logs phoenix").stdout == "again\n");
    member.run("logs phoenix --previous").prints("first");
    member.run("logs phoenix --previous --follow").prints("first");
    member.run("get pod phoenix -o jsonpath={.status.containerStatuses[0].restartCount}").prints("1");

    member.run("run steady --image=tombolo/client").succeeds();
    member.run("wait pod/steady --for=condition=Ready --timeout=50s").succeeds();
    let missing = "previous terminated container \"steady\" in pod \"steady\" not found";
    member.run("logs steady --previous").fails(1, &["(BadRequest)", missing]);
}

#[test]
fn kubectl_shows_what_a_container_said_since_then_and_no_more_bytes_than_wanted() {
    let playground = Playground::start(1, 1);
    let member = playground.at("member1");
    let begin = Timestamp::now();
    let talker = "run talker --image=host --command -- sh -c 'echo one; echo two; exec sleep 3600'";
    member.run(talker).succeeds();
    eventually("both lines are there", || member.run("logs talker").stdout == "one\ntwo\n");
    member.run("logs talker --since=1h").prints("one\ntwo");
    eventually("they are older than a second", || member.run("logs talker --since=1s").succeeds().is_empty());
    member.run("logs talker --since-time=2001-01-01T00:00:00Z").prints("one\ntwo");
    member.run("logs talker --since-time=2901-01-01T00:00:00+02:00").prints("");
    let stamped = member.run("logs talker --timestamps");
    let lines = stamped.succeeds().lines().map(|line| line.split_once(' ').unwrap());
    let (times, words): (Vec<&str>, Vec<&str>) = lines.unzip();
    assert_eq!(words, ["one", "two"]);
    let times: Vec<Timestamp> = times.iter().map(|time| time.parse().unwrap()).collect();
    assert!(begin <= times[0] && times[0] <= times[1] && times[1] <= Timestamp::now(), "{stamped}");
    member.run("logs talker --limit-bytes=5").prints("one\nt");
    member.run("logs talker --limit-bytes=5 --follow").prints("one\nt");

    let log = "get --raw /api/v1/namespaces/demo/pods/talker/log";
    let both = "at most one of `sinceTime` or `sinceSeconds` may be specified";
    let refusals = [
        ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("sinceSeconds=1&sinceTime=2001-01-01T00:00:00Z", &format!("[]: Forbidden: {both}")),
    ];
    for (query, why) in refusals {
        member.run(&format!("{log}?{query}")).fails(1, &["\"talker\" is invalid", why]);
    }
}
