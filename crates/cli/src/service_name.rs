//! `NAMESPACE/NAME` on the command line.

use tombolo_runtime::Key;

pub(crate) fn parse(text: &str) -> Result<Key, String> {
    match text.split_once('/') {
        Some((namespace, name)) if is_label(namespace) && is_label(name) => Ok(Key::new(namespace, name)),
        _ => Err("write NAMESPACE/NAME, such as demo/echo".to_owned()),
    }
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_namespace_and_a_name() {
        assert_eq!(parse("demo/echo"), Ok(Key::new("demo", "echo")));
        for text in ["echo", "demo/", "/echo", "", "/", "demo/echo/x", "Demo/echo", "demo/ec ho"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
