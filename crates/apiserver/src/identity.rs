//! What clients know a cluster by: its authority, the administrator's token, the key that signs tokens.
//!
//! A cluster that is kept on disk keeps these, too: whoever could talk to it before it was started again still can.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::auth::{Auth, fresh_key, fresh_token};
use crate::serve::{Authority, Issued};
use crate::store::{DataError, Folder};

const NAME: &str = "identity";

/// The file, as JSON.
#[derive(Serialize, Deserialize)]
struct Identity {
    /// The cluster's name: the authority's is made of it.
    cluster: String,
    authority_certificate: String,
    authority_key: String,
    admin_token: String,
    /// PKCS #8, base64.
    token_key: String,
}

/// Who the cluster in `folder` is, made up when it is new.
pub(crate) fn open(folder: &Folder, cluster: &str, rbac: bool) -> Result<(Auth, Authority), DataError> {
    let identity = match folder.read(NAME)? {
        Some(text) => {
            serde_json::from_str(&text).map_err(|error| folder.misunderstood(NAME, &error.to_string()))?
        }
        None => {
            let made = fresh(cluster).ok_or_else(|| folder.misunderstood(NAME, "no keys could be made"))?;
            folder.write(NAME, &serde_json::to_string_pretty(&made).expect("text encodes"))?;
            made
        }
    };
    revive(identity, rbac).ok_or_else(|| folder.misunderstood(NAME, "a key is not one"))
}

fn fresh(cluster: &str) -> Option<Identity> {
    let authority = Authority::new(cluster).ok()?.keep();
    Some(Identity {
        cluster: cluster.to_owned(),
        authority_certificate: authority.certificate,
        authority_key: authority.key,
        admin_token: fresh_token(),
        token_key: STANDARD.encode(fresh_key()?),
    })
}

fn revive(identity: Identity, rbac: bool) -> Option<(Auth, Authority)> {
    let Identity { cluster, authority_certificate: certificate, authority_key: key, .. } = identity;
    let authority = Authority::again(&cluster, Issued { certificate, key }).ok()?;
    let auth = Auth::again(rbac, identity.admin_token, &STANDARD.decode(identity.token_key).ok()?)?;
    Some((auth, authority))
}
