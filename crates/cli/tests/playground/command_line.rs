//! `status`, `export`, `explain`, `doctor`, `completions` and the plugin, against a playground's clusters.

use std::os::unix::fs::symlink;

use serde_json::Value;
use tombolo_testkit::{Kubectl, eventually};

use crate::world::{Playground, shared_echo, tombolo};

/// Echo, with a Service.
fn deploy(playground: &Playground, cluster: &str) {
    playground.deploy_echo(cluster);
    playground.at(cluster).run("expose deployment echo --port=80 --target-port=8080").succeeds();
}

/// A `tombolo` command for the playground's kubeconfig: exit code, standard output, standard error.
fn run(playground: &Playground, words: &[&str]) -> (Option<i32>, String, String) {
    let kubeconfig = playground.dir().join("kubeconfig");
    let output = tombolo(words).env("KUBECONFIG", kubeconfig).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn succeeds(playground: &Playground, words: &[&str]) -> String {
    let (code, out, err) = run(playground, words);
    assert_eq!(code, Some(0), "{words:?}: {out}{err}");
    out
}

/// Nodes and pods only as far as objects go, which is all that these commands look at.
fn playground(clusters: u8) -> Playground {
    Playground::start_with(tombolo(&["up", "--pretend", "--fast"]), clusters, 1)
}

#[test]
fn a_service_is_exported_shown_explained_and_taken_back() {
    let playground = playground(2);
    deploy(&playground, "member1");

    let (code, out, _) = run(&playground, &["explain", "demo/echo"]);
    assert_eq!(code, Some(3), "nobody exports it yet: {out}");
    assert!(out.contains("No cluster exports or imports demo/echo."), "{out}");

    succeeds(&playground, &["export", "demo/echo", "--context", "member1", "--wait", "50s"]);
    assert!(succeeds(&playground, &["export", "demo/echo", "--context", "member1"]).contains("already"));
    eventually("every hop is fine", || run(&playground, &["explain", "demo/echo"]).0 == Some(0));
    let out = succeeds(&playground, &["explain", "demo/echo"]);
    assert!(out.contains("Every hop is as it should be."), "{out}");
    assert!(!out.contains('\u{1b}'), "no colours in a pipe");

    let status: Value = serde_json::from_str(&succeeds(&playground, &["status", "-o", "json"])).unwrap();
    let names: Vec<&str> =
        status["clusters"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["member1", "member2"]);
    assert!(status["clusters"].as_array().unwrap().iter().all(|row| row["state"] == "Live"), "{status}");
    assert_eq!(status["exports"][0]["ready"], "True");
    assert_eq!(status["imports"].as_array().unwrap().len(), 2);
    assert_eq!(status["imports"][1]["readyEndpoints"], 2);
    let table = succeeds(&playground, &["status", "-o", "wide"]);
    assert!(table.contains("demo/echo") && table.contains("WATERMARK"), "{table}");
    assert!(succeeds(&playground, &["status", "-o", "yaml"]).contains("clusters:"));

    succeeds(&playground, &["unexport", "demo/echo", "--context", "member1", "--wait", "50s"]);
    let (code, _, err) = run(&playground, &["unexport", "demo/echo", "--context", "member1"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("error: demo/echo is not exported\nhint: "), "{err}");
    assert_eq!(err.lines().count(), 2, "one line and a hint: {err}");
}

#[test]
fn conflicts_and_lost_clusters_are_named_with_their_hop() {
    let playground = Playground::start_with(tombolo(&["up", "--fast"]), 2, 1);
    for member in ["member1", "member2"] {
        deploy(&playground, member);
        succeeds(&playground, &["export", "demo/echo", "--context", member, "--wait", "50s"]);
    }
    let port = r#"patch service echo --type=merge -p '{"spec":{"ports":[{"port":81,"targetPort":8080}]}}'"#;
    playground.at("member2").run(port).succeeds();
    eventually("the conflict is shown", || {
        succeeds(&playground, &["status"]).contains("PortConflict")
            && run(&playground, &["explain", "demo/echo"]).1.contains("PortConflict")
    });
    playground.at("member2").run(&port.replace("81", "80")).succeeds();

    eventually("every hop is fine, and whoever could be asked says so", || {
        let (code, out, _) = run(&playground, &["explain", "demo/echo"]);
        code == Some(0) && out.contains("so 1 nodes were told") && out.contains("and each got a connection")
    });
    let healthy = succeeds(&playground, &["doctor", "--all"]);
    assert!(healthy.contains("pods reach pods of member2"), "{healthy}");
    assert!(healthy.contains("parts") && healthy.contains("are ready"), "{healthy}");
    playground.does(&["fault", "partition", "member2"]);
    eventually("member2 is given up", || {
        let (code, out, _) = run(&playground, &["explain", "demo/echo"]);
        code == Some(3) && out.contains("Broken at: offer.") && out.contains("its lease ran out")
    });
    let (code, out, _) = run(&playground, &["doctor"]);
    assert_eq!(code, Some(3), "{out}");
    assert!(out.contains("way to the hub") && out.contains("member2"), "{out}");
    assert!(out.contains("pods do not reach pods of member2"), "{out}");
    assert!(succeeds(&playground, &["status"]).contains("silent"));
}

#[test]
fn the_program_is_a_plugin_of_kubectl_and_completes_itself() {
    let playground = playground(1);
    let plugins = playground.dir().join("plugins");
    std::fs::create_dir(&plugins).unwrap();
    symlink(env!("CARGO_BIN_EXE_tombolo"), plugins.join("kubectl-tombolo")).unwrap();
    let path = format!("{}:{}", plugins.display(), std::env::var("PATH").unwrap());
    let kubectl = playground.kubectl.env("PATH", &path);
    let kubectl = kubectl.env("KUBECONFIG", &playground.dir().join("kubeconfig").display().to_string());
    eventually("the cluster is shown", || kubectl.run("tombolo status").stdout.contains("member1"));
    kubectl.run("tombolo status --hub-context nobody").fails(1, &["there is no context"]);

    for shell in ["bash", "zsh", "fish"] {
        let script = tombolo(&["completions", shell]).output().unwrap().stdout;
        assert!(String::from_utf8(script).unwrap().contains("unexport"), "{shell}");
    }
}

#[test]
fn what_cannot_be_done_is_one_line_and_a_hint_and_verbose_tells_the_chain() {
    let nowhere = |words: &[&str]| {
        let output = tombolo(words).env("KUBECONFIG", "/nonexistent/kubeconfig").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for words in [&["status"][..], &["explain", "demo/echo"], &["doctor"], &["export", "demo/echo"]] {
        let (code, err) = nowhere(words);
        assert_eq!(code, Some(1), "{words:?}");
        let lines: Vec<&str> = err.lines().collect();
        assert!(lines[0].starts_with("error: ") && lines[1].starts_with("hint: "), "{words:?}: {err}");
        assert_eq!(lines.len(), 2, "{err}");
    }
    assert_eq!(nowhere(&["explain", "echo"]).0, Some(2), "the command line itself is wrong");
    let home = Kubectl::new();
    let place = |name: &str| format!("{{name: {name}, context: {{cluster: x, user: x}}}}");
    let dead = format!(
        "{{apiVersion: v1, kind: Config, clusters: [{{name: x, cluster: {{server: 'http://127.0.0.1:1'}}}}], \
         users: [{{name: x, user: {{}}}}], contexts: [{}, {}]}}",
        place("hub"),
        place("member1")
    );
    let kubeconfig = home.file("kubeconfig", &dead);
    let output = tombolo(&["explain", "demo/echo"]).env("KUBECONFIG", kubeconfig).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(1), Vec::new()), "{err}");
    for words in ["error: nobody who answers knows demo/echo: hub: ", "; member1: ", "\nhint: "] {
        assert!(err.contains(words), "{words}: {err}");
    }
    let (short, long) = (nowhere(&["status"]).1, nowhere(&["-v", "status"]).1);
    assert!(long.len() >= short.len(), "{long}");
}

#[test]
fn a_service_that_is_shared_under_its_own_name_is_explained_from_hop_to_hop() {
    let playground = playground(2);
    playground.deploy_echo("member1");
    playground.at("hub").feed("apply -f -", &shared_echo("CrossCluster", "member2")).succeeds();
    eventually("every hop is fine", || run(&playground, &["explain", "demo/echo"]).0 == Some(0));
    let out = succeeds(&playground, &["explain", "demo/echo"]);
    for words in
        ["MultiClusterService, under its own name", "member1 provide, member2 consume", "member1 2/2"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }

    playground.at("hub").run("delete service echo").succeeds();
    eventually("it is broken", || run(&playground, &["explain", "demo/echo"]).0 == Some(3));
    let (_, out, _) = run(&playground, &["explain", "demo/echo"]);
    assert!(
        out.contains("Broken at: Service.") && out.contains("no Service of this name at the hub"),
        "{out}"
    );
}
