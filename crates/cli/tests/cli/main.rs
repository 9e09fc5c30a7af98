//! The program as a whole: what is typed, what is printed where, and the exit code. Every message is compared as a
//! whole, because strangers read it.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests: a panic is how they fail")]

mod agents;
#[allow(dead_code, reason = "shared with the front's own tests")]
#[path = "../../../ui/tests/http/asker.rs"]
mod asker;
mod bottlenecks;
mod cluster;
mod comparison;
mod disturbance;
mod duel;
mod early_data;
mod echoes;
mod events;
mod files;
mod find;
mod fleet_numbers;
mod full_link;
mod generators;
mod help;
mod http3;
mod interfaces;
mod interruption;
mod kubernetes;
mod large;
#[path = "../../examples/large_record.rs"]
mod large_record;
mod log;
mod messages;
mod namespace;
mod own_servers;
mod path;
mod preflight;
mod priority;
mod program;
mod proxies;
mod reaching;
#[path = "../../../judge/tests/refuted/mod.rs"]
mod refuted;
mod requests;
mod runs;
mod separate_hosts;
mod series;
mod server;
mod server_hosts;
mod server_tls;
mod slices;
mod slow_machine;
mod source_ports;
mod specification;
mod stored_duels;
mod transactions;
mod trouble;
mod trust;
mod tutorial;
mod ui;
mod verified_series;
mod workout;
