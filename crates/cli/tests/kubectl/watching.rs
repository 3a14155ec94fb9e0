//! `kubectl get -w`: changes as they happen, in order.

use crate::playground::Playground;

#[test]
fn a_watch_shows_rows_in_the_order_of_changes() {
    let playground = Playground::bare();
    playground.run("create cm first --from-literal=a=1").succeeds();
    let mut watch = playground.kubectl.start("get cm -w");
    watch.next_is("NAME DATA AGE");
    watch.next_is("first 1 *");
    playground.run("create cm second").succeeds();
    watch.next_is("second 0 *");
    playground.run(r#"patch cm second -p '{"data":{"a":"1","b":"2"}}'"#).succeeds();
    watch.next_is("second 2 *");
    playground.run("delete cm first").succeeds();
    watch.next_is("first 1 *");
}

#[test]
fn a_watch_can_name_the_kind_of_event() {
    let playground = Playground::bare();
    let mut watch = playground.kubectl.start("get cm -w --output-watch-events -l color");
    playground.run("create cm seen").succeeds();
    playground.run("label cm seen color=red").succeeds();
    watch.next_is("EVENT NAME DATA AGE");
    watch.next_is("ADDED seen 0 *");
    playground.run("label cm seen color=blue --overwrite").succeeds();
    watch.next_is("MODIFIED seen 0 *");
    playground.run("label cm seen color-").succeeds();
    watch.next_is("DELETED seen 0 *");
}

#[test]
fn a_watch_of_one_object_starts_with_it() {
    let playground = Playground::bare();
    playground.run("create cm one").succeeds();
    playground.run("create cm other").succeeds();
    let mut watch = playground.kubectl.start("get cm one -w -o jsonpath='{.metadata.name}={.data}{\"\\n\"}'");
    assert_eq!(watch.next_line(), "one=");
    playground.run(r#"patch cm other --type=merge -p '{"data":{"a":"1"}}'"#).succeeds();
    playground.run(r#"patch cm one --type=merge -p '{"data":{"a":"1"}}'"#).succeeds();
    assert_eq!(watch.next_line(), r#"one={"a":"1"}"#);
}

#[test]
fn watch_only_leaves_out_what_was_there() {
    let playground = Playground::bare();
    let mut watch =
        playground.kubectl.start_watching("get svc --watch-only --output-watch-events --no-headers -A");
    playground.run("create service externalname new --external-name=example.com").succeeds();
    watch.next_is("ADDED default new ExternalName <none> example.com <none> *");
}
