//! A certificate authority of the cluster's own, made in about a millisecond.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

/// Names by which a cluster's API server is known, wherever it listens.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// What went wrong while making certificates.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("a certificate could not be made")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS could not be set up")]
    Tls(#[from] rustls::Error),
    #[error("the authority's own certificate cannot be read")]
    Unreadable(#[from] rustls::pki_types::pem::Error),
    #[error("clients could not be told apart")]
    Clients(#[from] VerifierBuilderError),
}

/// The authority: signs the server's certificate, and is what clients trust.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    /// A fresh one for a cluster of this name.
    pub fn new(cluster: &str) -> Result<Self, AuthorityError> {
        let (params, key) = (parameters(cluster)?, KeyPair::generate()?);
        let certificate = params.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), issuer: Issuer::new(params, key) })
    }

    /// The one that was made for this cluster before.
    pub(crate) fn again(cluster: &str, issued: Issued) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(&issued.key)?;
        Ok(Self { pem: issued.certificate, issuer: Issuer::new(parameters(cluster)?, key) })
    }

    /// What it takes to be the same authority again.
    pub(crate) fn keep(&self) -> Issued {
        Issued { certificate: self.pem.clone(), key: self.issuer.key().serialize_pem() }
    }

    /// The authority's certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server at these addresses, with its key.
    pub fn issue(&self, addresses: &[IpAddr]) -> Result<Issued, AuthorityError> {
        let (certificate, key) = self.sign(addresses)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// The same, but it has run out long ago: what a server shows that somebody forgot.
    pub fn issue_expired(&self, addresses: &[IpAddr]) -> Result<Issued, AuthorityError> {
        let mut params = describe(addresses)?;
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    fn sign(&self, addresses: &[IpAddr]) -> Result<(Certificate, KeyPair), AuthorityError> {
        let (params, key) = (describe(addresses)?, KeyPair::generate()?);
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }

    /// TLS for a server at `address`.
    pub(crate) fn server_config(&self, address: IpAddr) -> Result<ServerConfig, AuthorityError> {
        self.config(address, Arc::new(NoClientAuth))
    }

    /// The same, for clients only that show a certificate of this authority.
    pub(crate) fn mutual_config(&self, address: IpAddr) -> Result<ServerConfig, AuthorityError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes())?)?;
        let known = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        self.config(address, known.build()?)
    }

    fn config(
        &self,
        address: IpAddr,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<ServerConfig, AuthorityError> {
        let (certificate, key) = self.sign(&[address])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What every certificate of a server says.
fn describe(addresses: &[IpAddr]) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    params
        .subject_alt_names
        .extend(loopback.iter().chain(addresses).map(|address| SanType::IpAddress(*address)));
    Ok(params)
}

/// What every authority of a cluster of this name says about itself.
fn parameters(cluster: &str) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, format!("tombolo {cluster}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}
