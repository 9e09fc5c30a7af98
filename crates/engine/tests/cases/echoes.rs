//! A worker answers echoes while it makes its load, and no figure of the load has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use webstone_engine::{Control, Echo, LevelJob, Plan, run_level};
use webstone_measure::identities::{Expectation, check};
use webstone_measure::units::Nanos;
use webstone_model::spec::ServerSpec;
use webstone_server::{ServeOptions, Server};
use webstone_workload::load::ConnectionPolicy::KeepAlive;

use super::peer::{counted, file, one_page, spec};

/// Levels that are tried on a busy machine until a worker has its CPU when it is asked.
const TRIES: u32 = 60;

#[test]
fn a_worker_answers_echoes_beside_its_load_and_counts_none_of_them() {
    let server = Server::start(ServeOptions {
        test_handlers: true,
        ..ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() })
    })
    .unwrap();
    let workload = one_page(vec![file("/test?size=500", Some(500))]);
    let mut task = spec(server.url(), KeepAlive, 0);
    (task.load.pages, task.load.duration) = (None, Nanos::from_millis(400));
    let plan = Arc::new(Plan::compile(&task, &workload).unwrap());
    let mut requests = 0;
    let answered = (0..TRIES).any(|_| {
        let mut echo = Echo::listen().unwrap();
        let job = LevelJob { echoes: vec![echo.address().unwrap()], ..LevelJob::new(Arc::clone(&plan), 4) };
        let over = AtomicBool::new(false);
        let (measured, times) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let mut times = Vec::new();
                while !over.load(Relaxed) {
                    times.extend(echo.ask());
                    std::thread::sleep(Duration::from_millis(5));
                }
                times
            });
            let outcome = run_level(&job, &Control::new()).unwrap();
            over.store(true, Relaxed);
            (outcome.measured, asking.join().unwrap())
        });
        // The time of each client is accounted for with echoes, too.
        for identity in
            check(&measured, &Expectation { clients: 4, one_request_each: false, server_bytes: None })
        {
            assert!(identity.holds, "{identity:?}");
        }
        requests += measured.counts.started;
        assert_eq!(measured.counts.failed, 0);
        // Answering is in the time of no request's CPU.
        let answering_ns: u64 = times.iter().map(|time| time.as_nanos() as u64).sum();
        assert!(measured.generator.workers[0].spun_ns > 0 || answering_ns == 0, "{measured:?}");
        !times.is_empty()
    });
    assert!(answered, "no echo was answered in {TRIES} levels");
    assert_eq!(counted(&server).requests, requests, "the server was asked for nothing else");
}
