//! The smallest use of the engine: one level against a URL, its figures on standard output.
//!
//! `cargo run --release -p webstone-engine --example drive -- URL [per-request|per-page|keep-alive] [clients] [seconds] [cpus] \
//!     [rate] [poisson] [spin] [size=BYTES]`
//!
//! `size=` is the size of the generated file at the URL; its content is then checked.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::sync::Arc;

use webstone_engine::{Control, LevelJob, Plan, run_level};
use webstone_measure::figures::Figures;
use webstone_measure::identities::{Expectation, check};
use webstone_measure::units::Nanos;
use webstone_workload::arrivals::ArrivalProcess;
use webstone_workload::load::{Check, ConnectionPolicy, GeneratorTask};
use webstone_workload::{FileRequest, Page, Workload};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let argument =
        |index: usize, default: &str| args.get(index).cloned().unwrap_or_else(|| default.to_owned());
    let url = argument(1, "http://127.0.0.1:8080/");
    let clients: u32 = argument(3, "64").parse().expect("a number of clients");
    let mut spec = GeneratorTask { target: vec![url.clone()], ..GeneratorTask::default() };
    spec.load.duration = Nanos::from_secs(argument(4, "3").parse().expect("a number of seconds"));
    spec.generator.workers = 1;
    spec.generator.cpus = argument(5, "");
    spec.client.connections = match argument(2, "keep-alive").as_str() {
        "per-request" => ConnectionPolicy::PerRequest,
        "per-page" => ConnectionPolicy::PerPage,
        _ => ConnectionPolicy::KeepAlive,
    };
    let rate = argument(6, "").parse().ok();
    let has = |word: &str| args.iter().any(|argument| argument == word);
    if has("poisson") {
        spec.load.arrivals = ArrivalProcess::Poisson;
    }
    spec.generator.spin = Some(has("spin"));
    let path = url.splitn(4, '/').nth(3).map_or("/".to_owned(), |path| format!("/{path}"));
    let size = args.iter().find_map(|argument| argument.strip_prefix("size=")?.parse().ok());
    spec.client.check = if size.is_some() { Check::Content } else { Check::Status };
    let file = FileRequest { url: path.into(), size, ..FileRequest::default() };
    let page = Page { weight: 1, files: vec![file], think: Nanos::ZERO };
    let workload = Workload { name: "one file".into(), pages: vec![page], ..Workload::default() };
    let plan = Arc::new(Plan::compile(&spec, &workload).expect("a plan"));
    let job = LevelJob { rate, ..LevelJob::new(plan, clients) };
    let outcome = run_level(&job, &Control::new()).expect("a level");
    println!("{:#?}", Figures::of_measured(&outcome.measured));
    println!("{:#?} {:#?}", outcome.measured.counts, outcome.measured.lifetime);
    println!("{:?}", outcome.measured.generator);
    println!("{:#?}", outcome.measured.open_loop);
    for (class, count, first) in outcome.measured.errors.iter() {
        println!("{class:?} {count} {first:?}");
    }
    let expected = Expectation { clients: clients.into(), one_request_each: true, server_bytes: None };
    for check in check(&outcome.measured, &expected).iter().filter(|check| !check.holds) {
        println!("BROKEN {check:?}");
    }
}
