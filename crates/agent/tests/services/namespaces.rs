//! Where a service is imported.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use tombolo_testkit::until;

use crate::fleet::{Fleet, make_namespace};

/// Users who work in a namespace that the last member does not have, and a service of the first one.
async fn where_one_has_no_namespace(size: usize) -> Fleet {
    let mut fleet = Fleet::of(size).await;
    fleet.members.iter_mut().for_each(|member| member.namespace = "late");
    for member in &fleet.members[..size - 1] {
        make_namespace(&member.cluster.client(), "late").await;
    }
    let a = &fleet.members[0];
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    a.export_mcs().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_service_is_imported_wherever_its_namespace_is_and_as_soon_as_it_is() {
    let fleet = where_one_has_no_namespace(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    for member in [a, b] {
        until("imported, by the exporter, too", || async {
            member.kep_import().await.is_some() && member.mcs_import().await.is_some()
        })
        .await;
    }
    until("a missing namespace is no failure", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
    assert!(c.kep_import().await.is_none() && c.mcs_import().await.is_none());
    assert!(Api::<Namespace>::all(c.cluster.client()).get_opt("late").await.unwrap().is_none());
    make_namespace(&c.cluster.client(), "late").await;
    until("imported there, too", || async {
        c.imported(None).await.len() == 2 && c.derived().await.len() == 2
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_told_to_makes_the_namespace() {
    let mut fleet = where_one_has_no_namespace(2).await;
    fleet.restart(1, |config| config.create_namespaces = true);
    let b = &fleet.members[1];
    until("imported", || async { b.imported(None).await.len() == 2 }).await;
    assert!(Api::<Namespace>::all(b.cluster.client()).get_opt("late").await.unwrap().is_some());
}
