//! What the event loop adds to connect times is measured against the kernel's own figures.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use webstone_engine::{Control, LevelJob, Plan, run_level};
use webstone_model::metrics::Measured;
use webstone_model::spec::ConnectionPolicy::PerRequest;
use webstone_model::spec::ServerSpec;
use webstone_model::units::Nanos;
use webstone_server::{ServeOptions, Server};

use super::peer::{file, one_page, spec};

/// A level of forty clients with a connection for each request, whose worker stands still for `nap` behind every 1,024th.
fn level(nap: Duration) -> Measured {
    let options = ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() });
    let server = Server::start(ServeOptions { test_handlers: true, ..options }).unwrap();
    let mut spec = spec(server.url(), PerRequest, 0);
    spec.load.pages = None;
    spec.load.duration = Nanos::from_secs(2);
    spec.load.warmup = Nanos::from_millis(100);
    let plan = Arc::new(Plan::compile(&spec, &one_page(vec![file("/test?size=100", Some(100))])).unwrap());
    // Nobody waits in this channel, so the worker waits for its reader.
    let (sender, receiver) = sync_channel(0);
    let reader = std::thread::spawn(move || {
        while receiver.recv().is_ok() {
            std::thread::sleep(nap);
        }
    });
    let job = LevelJob { plan, clients: 40, rate: None, trace: None, transactions: Some(sender) };
    let outcome = run_level(&job, &Control::new()).unwrap();
    drop(job);
    reader.join().unwrap();
    outcome.measured
}

#[test]
fn one_connection_in_seventeen_is_held_against_the_kernel() {
    let measured = level(Duration::ZERO);
    let asked = measured.generator.connect_lag.len();
    // None where a segment was sent again, and the first may have been asked in the warm-up.
    assert!(asked > 0 && asked <= measured.counts.connections / 17 + 1, "{asked} of {:?}", measured.counts);
    assert!(measured.generator.connect_lag.max() <= measured.connect.max);
}

#[test]
fn a_worker_that_sleeps_shows_in_the_connect_lag() {
    // Among forty connections that stand while it sleeps there are two sampled ones.
    let nap = Duration::from_millis(200);
    let longest = (0..10).map(|_| level(nap).generator.connect_lag.max());
    assert!(
        longest.into_iter().any(|longest| longest >= nap.as_nanos() as u64 / 8),
        "none of an eighth of a nap"
    );
}
