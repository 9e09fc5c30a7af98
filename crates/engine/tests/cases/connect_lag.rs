//! The delay that the event loop adds to connect times is measured with the kernel's own figures. Its size is tested
//! on a simulated network.

use webstone_model::spec::ServerSpec;
use webstone_server::{ServeOptions, Server};
use webstone_workload::load::ConnectionPolicy::PerRequest;

use super::peer::{file, one_page, run, spec};

#[test]
fn one_connection_in_seventeen_is_compared_with_the_kernel() {
    let options = ServeOptions::new(ServerSpec { threads: 1, ..ServerSpec::default() });
    let server = Server::start(ServeOptions { test_handlers: true, ..options }).unwrap();
    let workload = one_page(vec![file("/test?size=100", Some(100))]);
    let measured = run(&spec(server.url(), PerRequest, 2000), &workload, 40).measured;
    let asked = measured.generator.connect_lag.len();
    // Not measured after a retransmission.
    assert!(asked > 0 && asked <= measured.counts.connections / 17 + 1, "{asked} of {:?}", measured.counts);
    assert!(measured.generator.connect_lag.max() <= measured.connect.max);
}
