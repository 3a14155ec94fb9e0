//! `tombolo dns query NAME [TYPE]`: what would be answered, and why.

use std::time::Duration;

use clap::Args;
use kube::Client;
use tombolo_dns::{Config, Name, explain, presentation, record_type};

use crate::failure::Failure;

/// A cluster that has not been read by then cannot be.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The name, such as web.shop.svc.clusterset.local
    #[arg(value_name = "NAME")]
    name: String,
    /// The type of records, such as A, AAAA, SRV, PTR
    #[arg(value_name = "TYPE", default_value = "A")]
    kind: String,
}

#[expect(clippy::print_stdout, reason = "the answer is for the person who asked")]
pub(super) async fn run(arguments: &Arguments, config: &Config, client: &Client) -> Result<(), Failure> {
    let name = Name::parse(&arguments.name)
        .map_err(|_| Failure::new(format!("{:?} is no domain name", arguments.name)))?;
    let kind = record_type(&arguments.kind).ok_or_else(|| {
        Failure::new(format!("{:?} is no type of records", arguments.kind)).hint("A, AAAA, SRV, PTR, TXT")
    })?;
    let explained = tokio::time::timeout(PATIENCE, explain(config, client, &name, kind)).await;
    let explained = explained
        .map_err(|_| {
            Failure::new("the cluster could not be read in time")
                .hint("are the CRDs installed, and may you read imports, endpointslices and namespaces?")
        })?
        .map_err(super::cannot)?;
    for step in &explained.steps {
        println!("; {step}");
    }
    match &explained.reply {
        Some(reply) => presentation(reply).iter().for_each(|line| println!("{line}")),
        None => println!("; there is no answer of our own"),
    }
    Ok(())
}
