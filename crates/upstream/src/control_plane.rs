//! One cluster's API server, and the controllers beside it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use tokio::time::sleep;
use tombolo_apiserver::{Authority, Context, Issued, kubeconfig};

use crate::etcd::{free, late};
use crate::{Error, Folder, Process, Programs};

/// Much longer than a start takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What kube-controller-manager does: what makes objects follow each other. Nodes and volumes are others' business.
const CONTROLLERS: [&str; 14] = [
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "service-cidr-controller",
    "statefulset-controller",
];

/// What hardly anybody watches here, and API servers therefore keep no caches of: each takes the processor once a second, which
/// together is half of what an idle server needs.
const UNCACHED: [&str; 31] = [
    "certificatesigningrequests.certificates.k8s.io",
    "clustertrustbundles.certificates.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "horizontalpodautoscalers.autoscaling",
    "ingressclasses.networking.k8s.io",
    "ingresses.networking.k8s.io",
    "limitranges",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "persistentvolumeclaims",
    "persistentvolumes",
    "podtemplates",
    "priorityclasses.scheduling.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "replicationcontrollers",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourcequotas",
    "resourceslices.resource.k8s.io",
    "runtimeclasses.node.k8s.io",
    "storageclasses.storage.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
];

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// On a free port of the loopback; the cluster's `kubernetes` Service leads nowhere.
    Loopback,
    /// At this address, where pods find it, too.
    At(SocketAddr),
}

/// The settings of a cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shows in the kubeconfig and in the authority's name.
    pub name: String,
    /// One range, or one per family; the first is the default family.
    pub service_cidrs: Vec<IpNet>,
    pub place: Place,
    /// Where etcd is, and the prefix there that nobody else uses.
    pub etcd: String,
    pub prefix: String,
}

/// A cluster's API server that runs, with kube-controller-manager if there is one.
#[derive(Debug)]
pub struct ControlPlane {
    /// How the administrator reaches it.
    pub context: Context,
    programs: Programs,
    settings: Settings,
    address: SocketAddr,
    authority: Arc<Authority>,
    files: Files,
    folder: Folder,
    api: Process,
    manager: Option<Process>,
}

/// What is written for the programs to read.
#[derive(Clone, Debug)]
struct Files {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    /// Signs the tokens of service accounts, and proves them.
    account_key: PathBuf,
    account_certificate: PathBuf,
    tokens: PathBuf,
    kubeconfig: PathBuf,
    /// What nodes know the API server by.
    client: PathBuf,
    client_key: PathBuf,
}

impl ControlPlane {
    /// Starts the API server in `folder` and waits until it is ready; then the controllers.
    pub async fn start(programs: &Programs, settings: Settings, folder: Folder) -> Result<Self, Error> {
        let address = match settings.place {
            Place::Loopback => free(IpAddr::V4(Ipv4Addr::LOCALHOST)).await?,
            Place::At(address) => address,
        };
        let authority = Arc::new(Authority::new(&settings.name)?);
        let (context, files) = prepare(&settings, &authority, address, &folder)?;
        let arguments = api_arguments(&settings, address, &files);
        let api = Process::start(&programs.apiserver, arguments, folder.path())?;
        let programs = programs.clone();
        let mut plane =
            Self { context, programs, settings, address, authority, files, folder, api, manager: None };
        plane.ready().await?;
        plane.start_manager()?;
        Ok(plane)
    }

    /// Whether kube-controller-manager does its work here.
    pub fn has_controllers(&self) -> bool {
        self.programs.controller_manager.is_some()
    }

    /// The cluster's authority: for the certificates of nodes, which the API server asks for what only they know.
    pub fn authority(&self) -> Arc<Authority> {
        self.authority.clone()
    }

    /// Ends both servers at once. The data stays in etcd.
    pub fn kill(&mut self) {
        self.manager = None;
        self.api.kill();
    }

    /// Starts them where they were before, with a new certificate of the same authority.
    pub async fn revive(&mut self) -> Result<(), Error> {
        self.kill();
        certify(&self.settings, &self.authority, self.address, &self.folder)?;
        self.start_api()?;
        self.ready().await?;
        self.start_manager()
    }

    /// Starts the API server anew with a certificate that has run out: whoever connects turns away. It is not waited for.
    pub fn expire(&mut self) -> Result<(), Error> {
        self.kill();
        let addresses = addresses(&self.settings, self.address);
        write_certificate(&self.authority.issue_expired(&addresses)?, &self.folder)?;
        self.start_api()
    }

    /// Puts a good certificate in the place of the one that has run out; the API server notices it by itself.
    pub async fn renew(&mut self) -> Result<(), Error> {
        certify(&self.settings, &self.authority, self.address, &self.folder)?;
        self.ready().await?;
        self.start_manager()
    }

    /// Ends kube-controller-manager at once.
    pub fn kill_controllers(&mut self) {
        self.manager = None;
    }

    /// Starts kube-controller-manager, unless it runs. It is not waited for.
    pub fn revive_controllers(&mut self) -> Result<(), Error> {
        if self.manager.is_some() { Ok(()) } else { self.start_manager() }
    }

    fn start_api(&mut self) -> Result<(), Error> {
        let arguments = api_arguments(&self.settings, self.address, &self.files);
        self.api = Process::start(&self.programs.apiserver, arguments, self.folder.path())?;
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            self.api.check()?;
            if is_ready(&self.context).await {
                return Ok(());
            }
            late(&self.api, begin, PATIENCE)?;
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn start_manager(&mut self) -> Result<(), Error> {
        let Some(program) = &self.programs.controller_manager else { return Ok(()) };
        let arguments = manager_arguments(&self.files);
        self.manager = Some(Process::start(program, arguments, self.folder.path())?);
        Ok(())
    }
}

/// A client of its own for every question: one that was refused once is of no use to anybody.
async fn is_ready(context: &Context) -> bool {
    let Ok(client) = context.client() else { return false };
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    let asked = client.request_text(request);
    tokio::time::timeout(Duration::from_secs(5), asked).await.is_ok_and(|answer| answer.is_ok())
}

/// Writes what the API server shows to clients, and its key.
fn certify(
    settings: &Settings,
    authority: &Authority,
    address: SocketAddr,
    folder: &Folder,
) -> Result<(PathBuf, PathBuf), Error> {
    write_certificate(&authority.issue(&addresses(settings, address))?, folder)
}

fn write_certificate(server: &Issued, folder: &Folder) -> Result<(PathBuf, PathBuf), Error> {
    Ok((folder.write("server.pem", &server.certificate)?, folder.write("server.key", &server.key)?))
}

/// Where clients find an API server, from outside and from pods.
fn addresses(settings: &Settings, address: SocketAddr) -> Vec<IpAddr> {
    let services = settings.service_cidrs.iter().filter_map(|range| range.hosts().next());
    [address.ip()].into_iter().chain(services).collect()
}

fn prepare(
    settings: &Settings,
    authority: &Authority,
    address: SocketAddr,
    folder: &Folder,
) -> Result<(Context, Files), Error> {
    let (certificate, key) = certify(settings, authority, address, folder)?;
    let (accounts, client) = (authority.issue(&[])?, authority.issue(&[])?);
    let token = tombolo_apiserver::fresh_token();
    let context = Context {
        name: settings.name.clone(),
        server: format!("https://{address}"),
        authority: authority.pem().to_owned(),
        token: token.clone(),
    };
    let files = Files {
        authority: folder.write("authority.pem", authority.pem())?,
        certificate,
        key,
        account_key: folder.write("accounts.key", &accounts.key)?,
        account_certificate: folder.write("accounts.pem", &accounts.certificate)?,
        tokens: folder.write("tokens.csv", &format!("{token},kubernetes-admin,admin,system:masters\n"))?,
        kubeconfig: folder.write("kubeconfig", &kubeconfig(std::slice::from_ref(&context)))?,
        client: folder.write("client.pem", &client.certificate)?,
        client_key: folder.write("client.key", &client.key)?,
    };
    Ok((context, files))
}

fn api_arguments(settings: &Settings, address: SocketAddr, files: &Files) -> Vec<String> {
    let ranges: Vec<String> = settings.service_cidrs.iter().map(ToString::to_string).collect();
    let sizes = UNCACHED.map(|resource| format!("{resource}#0"));
    let mut arguments = vec![
        format!("--etcd-servers={}", settings.etcd),
        format!("--etcd-prefix={}", settings.prefix),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        format!("--advertise-address={}", address.ip()),
        format!("--tls-cert-file={}", files.certificate.display()),
        format!("--tls-private-key-file={}", files.key.display()),
        format!("--token-auth-file={}", files.tokens.display()),
        format!("--service-account-key-file={}", files.account_certificate.display()),
        format!("--service-account-signing-key-file={}", files.account_key.display()),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-cluster-ip-range={}", ranges.join(",")),
        "--authorization-mode=RBAC".to_owned(),
        // Nobody would take the taint of a new node away: nodes are others' business.
        "--disable-admission-plugins=TaintNodesByCondition".to_owned(),
        format!("--kubelet-certificate-authority={}", files.authority.display()),
        format!("--kubelet-client-certificate={}", files.client.display()),
        format!("--kubelet-client-key={}", files.client_key.display()),
        // Names of nodes are nowhere to be looked up.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--profiling=false".to_owned(),
        format!("--watch-cache-sizes={}", sizes.join(",")),
        // The parts of several nodes ask this one server all at the same time.
        "--max-requests-inflight=1000".to_owned(),
        "--max-mutating-requests-inflight=500".to_owned(),
    ];
    if matches!(settings.place, Place::Loopback) {
        arguments.push("--endpoint-reconciler-type=none".to_owned());
    }
    arguments
}

fn manager_arguments(files: &Files) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", files.kubeconfig.display()),
        format!("--service-account-private-key-file={}", files.account_key.display()),
        format!("--root-ca-file={}", files.authority.display()),
        format!("--controllers={}", CONTROLLERS.join(",")),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]
}
