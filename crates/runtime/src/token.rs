//! Tokens of service accounts that live for a while (TokenRequest).

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client, Error};

/// Asks the API server for a token of an account. It may live shorter than asked for, as the server likes.
pub async fn request_token(
    client: &Client,
    namespace: &str,
    account: &str,
    seconds: i64,
) -> Result<String, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let spec = TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    let token = answer.status.and_then(|status| status.token).filter(|token| !token.is_empty());
    token.ok_or_else(|| Error::Service("the API server gave no token".into()))
}
