//! The way to a cluster: a kubeconfig, or the pod's own account.
//!
//! Whoever asks once, a command or a part that starts, has what a busy server refuses repeated; a part at work decides by
//! itself when to try again (`tombolo_runtime::at_own_pace`).

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use clap::Args;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tombolo_runtime::{at_own_pace, notice_silence, unless_there, with_causes};

use crate::failure::Failure;

/// What a person can do about a way that leads nowhere.
const FLAGS: &str = "--kubeconfig and --context";

/// The flags that say which cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct Way {
    /// The kubeconfig of the cluster; without it the default one, or the pod's own account.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; without it the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl Way {
    /// A client of the cluster `whose`, for questions that are asked once.
    pub(crate) async fn connect(&self, whose: &str) -> Result<Client, Failure> {
        let (file, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        connect(whose, FLAGS, file, context).await
    }

    /// A client of the cluster `whose`, for a part that works there.
    pub(crate) async fn connect_part(&self, whose: &str) -> Result<Client, Failure> {
        let (file, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        connect_part(whose, FLAGS, file, context).await
    }
}

/// Says at the start what would never work: a kind that is not there or may not be read. A server that is merely out of reach
/// may come back.
pub(crate) async fn check_kind<K>(client: &Client, who: &str, hint: &str) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::all(client.clone());
    match api.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => {
            let what = format!("{who} cannot read {}", K::plural(&()));
            Err(Failure::new(what).because(kube::Error::Api(status)).hint(hint.to_owned()))
        }
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "the API server is out of reach; trying again");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// The namespace of a part's own objects. In a cluster the part runs in it; elsewhere it may have to be made.
pub(crate) async fn make_namespace(client: &Client, place: &str, name: &str) -> Result<(), Failure> {
    let api: Api<Namespace> = Api::all(client.clone());
    let cannot = |cause: kube::Error| {
        Failure::new(format!("there is no namespace {name} {place}, and it cannot be made"))
            .because(cause)
            .hint("create it, or choose another --namespace")
    };
    if api.get_opt(name).await.map_err(cannot)?.is_some() {
        return Ok(());
    }
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    unless_there(api.create(&PostParams::default(), &namespace).await).map_err(cannot)
}

/// A client of the cluster `whose` for questions that are asked once; `flags` are what a person can do about it when there
/// is none.
pub(crate) async fn connect(
    whose: &str,
    flags: &str,
    file: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, Failure> {
    let cannot = |cause| no_way(whose, flags, cause);
    let config = read(file, context).await.map_err(cannot)?;
    Client::try_from(notice_silence(config)).map_err(|cause| cannot(cause.into()))
}

/// The same for a part that works there.
pub(crate) async fn connect_part(
    whose: &str,
    flags: &str,
    file: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, Failure> {
    let cannot = |cause| no_way(whose, flags, cause);
    let config = read(file, context).await.map_err(cannot)?;
    Client::try_from(at_own_pace(config)).map_err(|cause| cannot(cause.into()))
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

fn no_way(whose: &str, flags: &str, cause: Cause) -> Failure {
    Failure::new(format!("there is no way to the {whose}")).because(cause).hint(format!("see {flags}"))
}

async fn read(file: Option<&Path>, context: Option<&str>) -> Result<kube::Config, Cause> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Ok(match (file, context) {
        (Some(file), _) => {
            let kubeconfig = Kubeconfig::read_from(file)?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?
        }
        (None, Some(_)) => kube::Config::from_kubeconfig(&options).await?,
        (None, None) => kube::Config::infer().await?,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const VERSION: &str = r#"{"major": "1", "minor": "37", "gitVersion": "", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}"#;

    /// A server that says `refusal` once and is well afterwards; the way to it, and how often it was asked.
    async fn server(refusal: &'static str) -> (Way, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, refusal, count.clone()));
            }
        });
        let kubeconfig = format!(
            "{{clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}], contexts: [{{name: a, \
             context: {{cluster: a, user: a}}}}], users: [{{name: a, user: {{}}}}], current-context: a}}"
        );
        let file = std::env::temp_dir().join(format!("tombolo-connect-{}", address.port()));
        std::fs::write(&file, kubeconfig).unwrap();
        (Way { kubeconfig: Some(file), context: None }, asked)
    }

    async fn answer(mut stream: TcpStream, refusal: &str, asked: Arc<AtomicUsize>) {
        let mut request = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            request.push(byte);
            if !request.ends_with(b"\r\n\r\n") {
                continue;
            }
            request.clear();
            let (head, body) = match asked.fetch_add(1, Ordering::SeqCst) {
                0 => (refusal, ""),
                _ => ("200 OK\r\ncontent-type: application/json", VERSION),
            };
            let length = body.len();
            let told = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(told.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_part_hears_at_once_that_a_server_is_busy_and_a_command_asks_again() {
        let refusals = ["503 Service Unavailable", "429 Too Many Requests\r\nretry-after: 1"];
        for (refusal, code) in refusals.into_iter().zip([503, 429]) {
            for is_part in [true, false] {
                let (way, asked) = server(refusal).await;
                let client = if is_part { way.connect_part("test").await } else { way.connect("test").await };
                let heard = client.unwrap().apiserver_version().await;
                std::fs::remove_file(way.kubeconfig.unwrap()).unwrap();
                let busy = matches!(&heard, Err(kube::Error::Api(status)) if status.code == code);
                assert_eq!(
                    (busy, heard.is_ok()),
                    (is_part, !is_part),
                    "{refusal}, a part: {is_part}: {heard:?}"
                );
                let times = if is_part { 1 } else { 2 };
                assert_eq!(asked.load(Ordering::SeqCst), times, "{refusal}, a part: {is_part}");
            }
        }
    }
}
