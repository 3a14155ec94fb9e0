//! A proxy that ends and starts again under load: nobody notices.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use tombolo_proxy::Settings;
use tombolo_proxy::kernel::Kernel;
use tombolo_proxy::plan::Plan;
use tombolo_testkit::lab::{Protocol as Transport, isolated, try_ask};

use crate::world::{PORT, VIP, World, both, ready, service, settings};

#[test]
fn a_restart_under_load_fails_no_connection() {
    isolated(|| {
        let mut world = World::new(&[3, 2]);
        let all = [ready(0, 0), ready(0, 1), ready(1, 0)];
        world.set(&service(json!({})), &all);
        let update = world.update(&service(json!({})), &all, 0);
        let place = world.lab.nodes[0].place.path();
        let (done, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        let client = &world.lab.nodes[0].pods[2];
        std::thread::scope(|scope| {
            let load = |address| {
                let (done, count) = (&done, &count);
                move || {
                    while !done.load(Ordering::Relaxed) {
                        try_ask(client, (address, PORT).into(), Transport::Tcp).unwrap();
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            let clients: Vec<_> = both(VIP).into_iter().map(|address| scope.spawn(load(address))).collect();
            for round in 0..10 {
                // Every third time other rules are wanted, so that the tables are made anew.
                let other = Settings { masquerade_all: true, ..settings(0) };
                let wanted = if round % 3 == 2 { other } else { settings(0) };
                let mut kernel = Kernel::open(Some(&place), &wanted).unwrap();
                let mut plan = Plan::new();
                plan.update([update.clone()]);
                let written = kernel.adopt(&plan).unwrap();
                assert_eq!(
                    written.anew,
                    round % 3 == 2 || (round % 3 == 0 && round > 0),
                    "{round}: {written:?}"
                );
                assert!(written.anew || written.elements == 0, "nothing differs: {written:?}");
                let before = count.load(Ordering::Relaxed);
                while count.load(Ordering::Relaxed) < before + 20 && !clients.iter().any(|c| c.is_finished())
                {
                    std::thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
            clients.into_iter().for_each(|client| client.join().unwrap());
        });
        assert!(count.load(Ordering::Relaxed) > 200);
    });
}
