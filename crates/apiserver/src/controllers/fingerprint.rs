//! A few letters that tell one pod template from another.

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// FNV-1a over the template's JSON, whose fields are in a fixed order, in letters that make no words.
pub(super) fn of(template: &PodTemplateSpec, salt: i32) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let json = serde_json::to_value(template).unwrap_or_default().to_string();
    let salted = json.into_bytes().into_iter().chain(salt.to_le_bytes());
    let mut hash =
        salted.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let mut text = String::new();
    for _ in 0..8 {
        text.push(char::from(ALPHABET[hash as usize % ALPHABET.len()]));
        hash /= ALPHABET.len() as u32;
    }
    text
}
