//! Which program an image stands for. There are no images to pull: a few names are known, and any other runs a command of
//! this computer.

use serde::{Deserialize, Serialize};

/// What a container runs.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Program {
    /// Says who answered, and whom it saw.
    Echo(Vec<String>),
    /// Asks a service again and again, and says what became of it.
    Load(Vec<String>),
    /// The server of agnhost that test suites use.
    Netexec(Vec<String>),
    /// A listener that runs a command for each connection.
    Socat(Vec<String>),
    /// Stays up, so that others can run things in it.
    Idle,
    /// A command of this computer.
    Command(Vec<String>),
}

/// The program of a container, or why there is none.
pub(crate) fn program(image: &str, command: &[String], arguments: &[String]) -> Result<Program, String> {
    if !command.is_empty() {
        return Ok(Program::Command(command.iter().chain(arguments).cloned().collect()));
    }
    let given = arguments.to_vec();
    match short(image) {
        "tombolo/echo" => Ok(Program::Echo(given)),
        "tombolo/load" => Ok(Program::Load(given)),
        "alpine/socat" => Ok(Program::Socat(given)),
        "tombolo/client" | "nicolaka/netshoot" if given.is_empty() => Ok(Program::Idle),
        "tombolo/client" | "nicolaka/netshoot" => Ok(Program::Command(given)),
        name if name.rsplit('/').next() == Some("agnhost") => agnhost(&given),
        name if name.rsplit('/').next() == Some("pause") => Ok(Program::Idle),
        _ => Err(format!(
            "there is no image {image:?} here: give the container a command of this computer, or use tombolo/echo, \
             tombolo/client, agnhost, alpine/socat or nicolaka/netshoot"
        )),
    }
}

fn agnhost(arguments: &[String]) -> Result<Program, String> {
    match arguments.split_first() {
        None => Ok(Program::Idle),
        Some((first, _)) if first == "pause" => Ok(Program::Idle),
        Some((first, rest)) if first == "netexec" => Ok(Program::Netexec(rest.to_vec())),
        Some((first, _)) => Err(format!("of agnhost there are only netexec and pause here, not {first:?}")),
    }
}

/// Without the usual registry, and without tag or digest.
fn short(image: &str) -> &str {
    let image = image.strip_prefix("docker.io/").unwrap_or(image);
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let last = image.rfind('/').map_or(0, |slash| slash + 1);
    image[last..].find(':').map_or(image, |colon| &image[..last + colon])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn known_images_run_what_they_stand_for() {
        let cases = [
            ("tombolo/echo", "", "--http 80", Program::Echo(words("--http 80"))),
            ("docker.io/tombolo/echo:v1", "", "", Program::Echo(vec![])),
            ("alpine/socat:1.7.4.4", "", "TCP-LISTEN:42", Program::Socat(words("TCP-LISTEN:42"))),
            ("nicolaka/netshoot:v0.15", "", "", Program::Idle),
            ("nicolaka/netshoot", "", "sleep 5", Program::Command(words("sleep 5"))),
            ("nicolaka/netshoot", "sh -c", "true", Program::Command(words("sh -c true"))),
            (
                "registry.k8s.io/e2e-test-images/agnhost:2.40",
                "",
                "netexec --http-port=1",
                Program::Netexec(words("--http-port=1")),
            ),
            ("localhost:5000/agnhost", "", "pause", Program::Idle),
            ("registry.k8s.io/pause:3.10", "", "", Program::Idle),
            ("busybox", "sleep", "60", Program::Command(words("sleep 60"))),
        ];
        for (image, command, arguments, expected) in cases {
            assert_eq!(program(image, &words(command), &words(arguments)), Ok(expected), "{image}");
        }
    }

    #[test]
    fn an_unknown_image_without_a_command_is_refused_with_what_to_do() {
        for (image, arguments) in [("nginx", ""), ("nginx:1", "-g"), ("agnhost", "dns-suffix"), ("", "")] {
            assert!(program(image, &[], &words(arguments)).is_err(), "{image}");
        }
    }
}
