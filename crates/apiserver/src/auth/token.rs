//! Service-account tokens: JSON web tokens signed with a key that lives as long as the cluster's data.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};

/// Who signs tokens, and whom they are for when they name nobody: this server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// What a token says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claims {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
}

/// Signs and checks tokens; the key is made when it is first needed.
#[derive(Default)]
pub(super) struct Signer(OnceLock<Option<EcdsaKeyPair>>);

impl std::fmt::Debug for Signer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Signer")
    }
}

/// A key for signing tokens, PKCS #8.
pub(crate) fn fresh_key() -> Option<Vec<u8>> {
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    made.ok().map(|document| document.as_ref().to_vec())
}

fn key_pair(document: &[u8]) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &SystemRandom::new()).ok()
}

impl Signer {
    /// Signs with a key that was made before.
    pub(super) fn with(document: &[u8]) -> Option<Self> {
        Some(Self(OnceLock::from(Some(key_pair(document)?))))
    }

    fn key(&self) -> Option<&EcdsaKeyPair> {
        self.0.get_or_init(|| key_pair(&fresh_key()?)).as_ref()
    }

    pub(super) fn sign(&self, claims: &Claims) -> Option<String> {
        let header = json!({"alg": "ES256", "typ": "JWT"});
        let text = format!("{}.{}", encode(&header), encode(&claims.to_value()));
        let signature = self.key()?.sign(&SystemRandom::new(), text.as_bytes()).ok()?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// The claims of a token that we signed and that is still good.
    pub(super) fn verify(&self, token: &str, now: Timestamp) -> Option<Claims> {
        let (text, signature) = token.rsplit_once('.')?;
        let (_, payload) = text.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key()?.public_key().as_ref());
        public.verify(text.as_bytes(), &signature).ok()?;
        let payload: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        Claims::from_value(&payload).filter(|claims| now < claims.expires)
    }
}

fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

impl Claims {
    fn to_value(&self) -> Value {
        json!({
            "iss": ISSUER,
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.name),
            "aud": self.audiences,
            "iat": self.issued.as_second(),
            "nbf": self.issued.as_second(),
            "exp": self.expires.as_second(),
            "kubernetes.io": {
                "namespace": self.namespace,
                "serviceaccount": {"name": self.name, "uid": self.uid},
            },
        })
    }

    fn from_value(value: &Value) -> Option<Self> {
        let account = value.get("kubernetes.io")?;
        let text = |value: &Value, field: &str| Some(value.get(field)?.as_str()?.to_owned());
        let time = |field: &str| Timestamp::from_second(value.get(field)?.as_i64()?).ok();
        let audiences = value.get("aud")?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned);
        Some(Self {
            namespace: text(account, "namespace")?,
            name: text(account.get("serviceaccount")?, "name")?,
            uid: text(account.get("serviceaccount")?, "uid")?,
            audiences: audiences.collect(),
            issued: time("iat")?,
            expires: time("exp")?,
        })
    }
}

/// A token nobody can guess.
pub fn fresh_token() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the operating system has randomness");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Compares in a time that does not tell how much of it was right.
pub(super) fn is_same(given: &str, known: &str) -> bool {
    let differences = given.bytes().zip(known.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == known.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(expires: i64) -> Claims {
        Claims {
            namespace: "a".into(),
            name: "b".into(),
            uid: "c".into(),
            audiences: vec!["d".into()],
            issued: Timestamp::from_second(100).unwrap(),
            expires: Timestamp::from_second(expires).unwrap(),
        }
    }

    #[test]
    fn a_token_is_good_until_it_expires() {
        let signer = Signer::default();
        let token = signer.sign(&claims(200)).unwrap();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(signer.verify(&token, at(199)), Some(claims(200)));
        assert_eq!(signer.verify(&token, at(200)), None);
    }

    #[test]
    fn a_token_of_another_cluster_or_a_changed_one_is_worth_nothing() {
        let (ours, theirs) = (Signer::default(), Signer::default());
        let now = Timestamp::from_second(150).unwrap();
        let token = theirs.sign(&claims(200)).unwrap();
        assert_eq!(ours.verify(&token, now), None);
        let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
        parts[1] = encode(&claims(900).to_value());
        assert_eq!(theirs.verify(&parts.join("."), now), None);
        for rubbish in ["", ".", "..", "a.b.c"] {
            assert_eq!(ours.verify(rubbish, now), None);
        }
    }
}
