//! Schedules drawn from seeds, and single ones with exact results.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn_proto::{ConnectionError, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};

use super::server::{client_tls, client_with, server_tls, server_with};
use super::{MS, Path, Request, SECOND, Server, What, World};
use crate::draws::Draws;
use crate::quic::{
    LossReason, PacketKind, PacketRecord, QuicFailure, Recorder, RecoveryRecord, Settings, Version,
};

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    // The server's probes are not what is tested.
    transport.mtu_discovery_config(None);
    transport
}

fn settings() -> Settings {
    Settings::new(client_tls(false))
}

fn world(latency_ns: u64) -> World {
    World::new(Path::new(1, latency_ns), Server::new(server_tls(), transport(), 1))
}

fn gets(count: usize, answer_bytes: u32) -> Vec<Request> {
    vec![Request { answer_bytes, body_bytes: 60, what: What::Answer }; count]
}

/// How many random schedules run: `WEBSTONE_QUIC_SCHEDULES`.
fn schedules() -> u64 {
    std::env::var("WEBSTONE_QUIC_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

struct Schedule {
    settings: Settings,
    path: Path,
    transport: TransportConfig,
    requests: Vec<Request>,
    parallel: usize,
    ticks: bool,
    retries: bool,
    server_updates_keys: bool,
    connections: u32,
}

fn schedule(seed: u64, tls: &Arc<rustls::ClientConfig>) -> Schedule {
    let mut draws = Draws(seed);
    let mut path = Path::new(seed ^ 0xabcd, [MS / 20, MS, 10 * MS, 50 * MS][draws.below(4) as usize]);
    if draws.per_mille(600) {
        path.loss = [5, 10, 30, 100, 200][draws.below(5) as usize];
    }
    if draws.per_mille(400) {
        path.jitter_ns = draws.below(2 * path.latency_ns) + 1;
    }
    if draws.per_mille(300) {
        path.duplicates = [10, 100, 500][draws.below(3) as usize];
    }
    if draws.per_mille(300) {
        path.marks = [5, 50, 300][draws.below(3) as usize];
    }
    path.bleaches = draws.per_mille(150);
    path.mtu = [1200, 1300, 1452, 1472, 65_535][draws.below(5) as usize];
    let mut settings = Settings::new(tls.clone());
    settings.paces = draws.per_mille(500);
    settings.probes_mtu = draws.per_mille(800);
    settings.uses_ecn = draws.per_mille(800);
    settings.segments_max = [1, 4, 64][draws.below(3) as usize];
    settings.key_update_packets = [u64::MAX, 1, 7, 40][draws.below(4) as usize];
    settings.stream_window = [2000, 20_000, 8 << 20][draws.below(3) as usize];
    settings.connection_window = settings.stream_window * [1, 2, 4][draws.below(3) as usize];
    let mut transport = transport();
    transport.stream_receive_window(VarInt::from_u32([1500, 20_000, 1 << 20][draws.below(3) as usize]));
    transport.receive_window(VarInt::from_u32([3000, 50_000, 1 << 22][draws.below(3) as usize]));
    transport.max_concurrent_bidi_streams(VarInt::from_u32([1, 4, 100][draws.below(3) as usize]));
    transport.max_idle_timeout(Some(IdleTimeout::try_from(Duration::from_secs(200)).unwrap()));
    settings.idle_timeout_ns = 200 * SECOND;
    if draws.per_mille(500) {
        transport.mtu_discovery_config(Some(MtuDiscoveryConfig::default()));
    }
    let count = 1 + draws.below(30) as usize;
    let large = draws.per_mille(200);
    let requests = (0..count).map(|_| Request {
        answer_bytes: match draws.below(10) {
            0 => 0,
            1..5 => draws.below(600) as u32,
            5..9 => draws.below(6000) as u32,
            _ => draws.below(if large { 150_000 } else { 20_000 }) as u32,
        },
        body_bytes: match draws.below(10) {
            0 => 0,
            1..8 => draws.below(90) as usize,
            _ => draws.below(if large { 60_000 } else { 5000 }) as usize,
        },
        what: match draws.below(20) {
            0 => What::ServerResets,
            1 => What::ServerStops,
            2 => What::ClientResets,
            _ => What::Answer,
        },
    });
    let requests = requests.collect();
    Schedule {
        settings,
        path,
        transport,
        requests,
        parallel: [1, 3, 10, 100][draws.below(4) as usize],
        ticks: draws.per_mille(500),
        retries: draws.per_mille(200),
        server_updates_keys: draws.per_mille(300),
        connections: 1 + u32::from(draws.per_mille(250)),
    }
}

/// Returns whether the server fell mute.
fn run(seed: u64, tls: &Arc<rustls::ClientConfig>, server_tls: &Arc<rustls::ServerConfig>) -> bool {
    let drawn = schedule(seed, tls);
    let is_even = drawn.path.jitter_ns == 0 && drawn.path.duplicates == 0;
    let mut world = World::new(drawn.path, Server::new(server_tls.clone(), drawn.transport, seed));
    (world.parallel, world.ticks, world.server.retries) = (drawn.parallel, drawn.ticks, drawn.retries);
    for nth in 0..drawn.connections {
        world.open(&drawn.settings, drawn.requests.clone());
        if drawn.server_updates_keys && world.run_until(|world| world.client.is_confirmed()) {
            for connection in world.server.connections.values_mut() {
                if !connection.is_handshaking() && !connection.is_closed() {
                    connection.force_key_update();
                }
            }
        }
        if !world.run_until(World::is_all_over) && world.server.is_mute() {
            assert_eq!(world.client.failure(), Some(&QuicFailure::Idle));
            return true;
        }
        world.finish();
        let counts = world.client.counts();
        if is_even {
            assert_eq!(counts.packets_lost_spuriously, 0, "{counts:?}");
            assert_eq!(counts.packets_duplicate, 0);
        }
        // The server still speaks on the first connection while the second begins.
        if world.path.lost == 0 && world.path.too_long == 0 && is_even && nth == 0 {
            assert_eq!((counts.packets_lost, counts.packets_undecryptable), (0, 0), "{counts:?}");
        }
        assert_eq!(counts.retries, u64::from(drawn.retries));
        assert!(world.client.mtu() as usize <= world.path.mtu.min(1472));
        if nth == 0 && drawn.connections > 1 {
            // Tickets come with the confirmation, if not lost.
            world.now_ns += SECOND;
            world.path.flying.clear();
        }
    }
    false
}

#[test]
fn random_schedules() {
    let only = std::env::var("WEBSTONE_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = only.map_or(0..schedules(), |seed| seed..seed + 1);
    let server_tls = server_tls();
    let mut mute = 0;
    for seed in seeds {
        // A store of sessions of its own: another schedule's server allows other limits.
        let tls = client_tls(seed % 3 == 0);
        let run = std::panic::AssertUnwindSafe(|| run(seed, &tls, &server_tls));
        match std::panic::catch_unwind(run) {
            Ok(is_mute) => mute += u64::from(is_mute),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map_or("", |text| text);
                panic!("schedule {seed} (again: WEBSTONE_SEED={seed}): {text}");
            }
        }
    }
    assert!(mute <= 1 + schedules() / 1000, "{mute} servers fell mute");
}

#[test]
fn known_delays_are_reported_to_the_nanosecond() {
    let mut world = world(7 * MS);
    world.parallel = 10;
    world.open(&settings(), gets(200, 500));
    assert!(world.run_until(|world| world.client.is_agreed()));
    assert_eq!(world.now_ns, SECOND + 14 * MS);
    assert!(world.run_until(|world| world.client.is_confirmed()));
    assert_eq!(world.now_ns, SECOND + 28 * MS);
    world.finish();
    assert_eq!(world.client.rtt_ns().unwrap().0, 14 * MS);
    let counts = *world.client.counts();
    assert_eq!(counts.received.stream_new, 200 * 500);
    assert_eq!(counts.sent.stream_new, 200 * 65);
    assert_eq!((counts.packets_lost, counts.probe_timeouts, counts.packets_undecryptable), (0, 0, 0));
    assert_eq!((counts.sent.stream_repeated, counts.received.stream_repeated), (0, 0));
    assert_eq!((counts.received.datagrams, counts.received.udp_bytes), world.path.arrived);
    let ended = world.run_until(|world| !world.server.lost.is_empty());
    assert!(!ended, "the client has failed, so it stops");
    let stats = world.server.connections.values().next().unwrap().stats();
    assert_eq!(stats.udp_rx.datagrams + 1, counts.sent.datagrams, "all but the close");
    while world.server.lost.is_empty() && world.step() {}
    assert!(
        matches!(&world.server.lost[0], ConnectionError::ApplicationClosed(close) if close.error_code.into_inner() == 0x100)
    );
}

#[test]
fn retransmissions_are_counted_exactly() {
    let mut world = world(10 * MS);
    world.parallel = 4;
    let mut settings = settings();
    settings.probes_mtu = false;
    world.open(&settings, gets(400, 300));
    assert!(world.run_until(|world| world.client.is_confirmed()));
    world.path.loss = 100;
    world.finish();
    let counts = world.client.counts();
    assert!(world.path.lost > 20, "{}", world.path.lost);
    assert_eq!(counts.packets_lost_spuriously, 0);
    assert!(counts.packets_lost > 5 && counts.sent.stream_repeated > 0);
    assert_eq!((counts.received.stream_new, counts.sent.stream_new), (400 * 300, 400 * 65));
}

#[test]
fn sessions_are_resumed_and_early_data_is_taken() {
    let mut world = world(5 * MS);
    world.parallel = 10;
    let tls = client_tls(true);
    let settings = Settings::new(tls);
    world.open(&settings, gets(10, 100));
    assert_eq!(world.client.early_data(), (false, None));
    world.finish();
    assert!(world.client.counts().tickets > 0);
    assert_eq!(world.client.tls().unwrap().handshake_kind(), Some(rustls::HandshakeKind::Full));
    let begun = world.now_ns;
    world.open(&settings, gets(10, 100));
    assert_eq!(world.client.early_data(), (true, None));
    assert!(world.client.is_open() && !world.client.is_agreed());
    assert!(world.run_until(|world| world.is_all_over()));
    // One round trip for all.
    assert_eq!(world.now_ns - begun, 10 * MS);
    world.finish();
    assert_eq!(world.client.early_data(), (true, Some(true)));
    assert_eq!(world.client.tls().unwrap().handshake_kind(), Some(rustls::HandshakeKind::Resumed));
    assert_eq!(world.client.counts().sent.stream_repeated, 0);
}

/// The first datagrams, with early data in them, are lost: one probe timeout repairs all.
#[test]
fn lost_early_data_is_sent_again_with_the_client_hello() {
    let mut world = world(5 * MS);
    world.parallel = 10;
    let settings = Settings::new(client_tls(true));
    world.open(&settings, gets(3, 100));
    world.finish();
    let begun = world.now_ns;
    world.open(&settings, gets(10, 100));
    world.ask();
    world.path.loss = 1000;
    world.flush();
    world.path.loss = 0;
    assert!(world.run_until(World::is_all_over));
    // The timeout before a round trip was measured, and one round trip.
    assert_eq!(world.now_ns - begun, 999 * MS + 10 * MS);
    assert_eq!(world.client.early_data(), (true, Some(true)));
    assert_eq!(world.client.counts().probe_timeouts, 1);
}

/// A key share of ML-KEM makes the ClientHello longer than a datagram.
#[test]
fn a_long_client_hello_takes_two_datagrams() {
    let kem = |mut provider: CryptoProvider| {
        provider.kx_groups = vec![kx_group::X25519MLKEM768];
        Arc::new(provider)
    };
    let tls = Arc::new(client_with(kem(default_provider())));
    let server = server_with(kem(default_provider()));
    let mut world = World::new(Path::new(1, MS), Server::new(Arc::new(server), transport(), 1));
    world.open(&Settings::new(tls), gets(2, 100));
    world.flush();
    assert_eq!(world.client.counts().sent.datagrams, 2);
    assert_eq!(world.client.counts().sent.udp_bytes, 2400);
    world.finish();
    assert_eq!(world.client.counts().packets_lost, 0);
}

#[test]
fn rejected_early_data_is_sent_again() {
    let mut first = world(5 * MS);
    let settings = Settings::new(client_tls(true));
    first.open(&settings, gets(3, 100));
    first.finish();
    // Another server's tickets.
    let mut second = world(5 * MS);
    second.parallel = 10;
    second.client = first.client;
    second.open(&settings, gets(10, 100));
    assert_eq!(second.client.early_data(), (true, None));
    second.finish();
    assert_eq!(second.client.early_data(), (true, Some(false)));
    assert_eq!(second.client.tls().unwrap().handshake_kind(), Some(rustls::HandshakeKind::Full));
    let counts = second.client.counts();
    assert!(counts.packets_discarded > 0 && counts.packets_lost == 0, "{counts:?}");
    assert_eq!((counts.sent.stream_new, counts.sent.stream_repeated), (650, 650));
}

/// A server that rejects early data may allow less than before (RFC 9000 section 7.4.1).
#[test]
fn rejected_early_data_obeys_the_new_limits() {
    let body = Request { answer_bytes: 1, body_bytes: 60_000, what: What::Answer };
    for (stream_window, is_enough) in [(20_000, true), (3_000, false)] {
        let mut first = world(5 * MS);
        let settings = Settings::new(client_tls(true));
        first.open(&settings, gets(1, 1));
        first.finish();
        let mut smaller = transport();
        smaller.stream_receive_window(VarInt::from_u32(stream_window));
        let mut second = World::new(Path::new(1, 5 * MS), Server::new(server_tls(), smaller, 1));
        second.client = first.client;
        second.open(&settings, vec![body; 2]);
        if is_enough {
            second.finish();
            assert_eq!(second.client.early_data(), (true, Some(false)));
        } else {
            assert!(!second.run_until(World::is_all_over));
            assert_eq!(second.client.failure(), Some(&QuicFailure::EarlyLimits));
        }
    }
}

#[test]
fn early_data_outlives_a_retry() {
    let mut world = world(5 * MS);
    world.parallel = 10;
    world.server.retries = true;
    let settings = Settings::new(client_tls(true));
    world.open(&settings, gets(3, 100));
    world.finish();
    world.open(&settings, gets(10, 100));
    world.finish();
    let counts = world.client.counts();
    assert_eq!((counts.retries, counts.retries_refused), (1, 0));
    assert_eq!(world.client.early_data(), (true, Some(true)));
}

#[test]
fn a_version_that_the_server_does_not_speak_fails_with_its_offers() {
    let mut world = world(MS);
    let mut settings = settings();
    settings.version = Version::V2;
    world.open(&settings, gets(1, 1));
    assert!(!world.run_until(World::is_all_over));
    let Some(QuicFailure::Version(offered)) = world.client.failure() else {
        panic!("{:?}", world.client.failure())
    };
    assert!(offered.contains(&1));
    assert!(world.client.is_closed() && world.client.counts().version_negotiations == 1);
}

#[test]
fn datagrams_grow_to_what_the_path_carries() {
    let sizes = [(1200, 1200), (1240, 1232), (1420, 1400), (1460, 1452), (1472, 1472), (9000, 1472)];
    let cases = sizes.iter().flat_map(|size| [(*size, false), (*size, true)]);
    for ((mtu, found), is_narrow_at_client) in cases {
        let mut world = world(MS);
        world.path.mtu = mtu;
        world.path.is_narrow_at_client = is_narrow_at_client;
        world
            .open(&settings(), vec![Request { answer_bytes: 1, body_bytes: 30_000, what: What::Answer }; 40]);
        world.finish();
        assert_eq!(world.client.mtu(), found, "path of {mtu}");
        // Probes are lost, and nothing else. Of the handshake one packet is discarded.
        let counts = world.client.counts();
        assert_eq!((counts.packets_lost, counts.congestion_events), (0, 0));
        assert_eq!(counts.packets_discarded, world.path.too_long + 1);
        // What did not leave is in no count of bytes.
        assert_eq!(counts.sent.udp_bytes, world.path.left, "path of {mtu}");
    }
}

#[test]
fn a_path_that_shrinks_is_noticed() {
    let mut world = world(MS);
    let body = Request { answer_bytes: 1, body_bytes: 400_000, what: What::Answer };
    world.open(&settings(), vec![body; 2]);
    assert!(world.run_until(|world| world.client.mtu() == 1472));
    world.path.mtu = 1300;
    world.finish();
    // Sizes were tried again after the fall to 1,200.
    assert_eq!(world.client.mtu(), 1232);
}

#[test]
fn marks_reduce_the_window_and_paths_that_remove_them_get_none() {
    let body = Request { answer_bytes: 1, body_bytes: 300_000, what: What::Answer };
    let mut marking = world(5 * MS);
    marking.path.marks = 20;
    marking.open(&settings(), vec![body]);
    marking.finish();
    let counts = marking.client.counts();
    assert!(counts.congestion_events > 0 && counts.packets_lost == 0, "{counts:?}");
    let mut bleaching = world(5 * MS);
    bleaching.path.bleaches = true;
    bleaching.open(&settings(), vec![body]);
    bleaching.finish();
    assert!(!bleaching.client.is_ect);
    assert_eq!(bleaching.client.counts().congestion_events, 0);
    let mut keeping = world(5 * MS);
    keeping.open(&settings(), vec![body]);
    keeping.finish();
    assert!(keeping.client.is_ect);
}

#[test]
fn keys_change_from_both_sides() {
    let mut world = world(MS);
    let mut settings = settings();
    settings.key_update_packets = 5;
    world.open(&settings, gets(100, 100));
    world.finish();
    assert!(world.client.counts().key_updates >= 10, "{}", world.client.counts().key_updates);
    assert_eq!(world.client.counts().packets_undecryptable, 0);
}

#[test]
fn silence_is_idle() {
    let mut world = world(MS);
    let mut settings = settings();
    settings.idle_timeout_ns = 5 * SECOND;
    world.path.loss = 1000;
    world.open(&settings, gets(1, 1));
    assert!(!world.run_until(World::is_all_over));
    assert_eq!(world.client.failure(), Some(&QuicFailure::Idle));
    // Initials are sent again with backoff: 1, 2 s.
    assert_eq!(world.client.counts().probe_timeouts, 2);
    assert!((5..8).contains(&(world.now_ns / SECOND)), "{}", world.now_ns);
    assert!(world.client.is_closed() && world.client.due_ns().is_none());
}

#[test]
fn a_connection_value_is_reused_without_growing() {
    let mut world = world(MS);
    world.parallel = 10;
    let settings = settings();
    let mut kept = Vec::new();
    for _ in 0..20 {
        world.open(&settings, gets(50, 500));
        world.finish();
        kept.push(world.client.heap_bytes());
        while world.server.connections.values().any(|connection| !connection.is_drained()) && world.step() {}
    }
    assert!(kept[1..].iter().all(|bytes| *bytes == kept[1]), "{kept:?}");
    // What 10,000 connections keep each, without TLS and keys.
    assert!(kept[1] + size_of_val(&world.client) < 12_000, "{} and {}", kept[1], size_of_val(&world.client));
}

#[test]
fn large_bodies_pass_in_both_directions() {
    let mut world = world(10 * MS);
    world.parallel = 2;
    world.open(
        &settings(),
        vec![Request { answer_bytes: 1_000_000, body_bytes: 1_000_000, what: What::Answer }; 2],
    );
    world.path.loss = 5;
    world.finish();
    assert_eq!(world.server.request_bytes, 2 * 1_000_005);
}

/// What a recorder was told.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Logged>>);

#[derive(Debug, Default)]
struct Logged {
    sent: Vec<(PacketKind, u64)>,
    sent_bytes: usize,
    received: u64,
    received_bytes: usize,
    /// Content of streams by their frames, sent and received.
    content: [u64; 2],
    lost: Vec<u64>,
    recoveries: Vec<RecoveryRecord>,
    generation: u64,
    closed: Vec<QuicFailure>,
}

impl Recorder for Log {
    fn sent(&mut self, _: u64, packet: &PacketRecord<'_>) {
        let mut log = self.0.lock().unwrap();
        log.sent.push((packet.kind, packet.number));
        log.sent_bytes += packet.bytes;
        assert!(!packet.frames.is_empty());
        let streams = packet.frames.iter().filter(|frame| frame.name == "stream");
        log.content[0] += streams.map(|frame| frame.length).sum::<u64>();
    }

    fn received(&mut self, _: u64, packet: &PacketRecord<'_>) {
        let mut log = self.0.lock().unwrap();
        log.received += 1;
        log.received_bytes += packet.bytes;
        let streams = packet.frames.iter().filter(|frame| frame.name == "stream");
        log.content[1] += streams.map(|frame| frame.length).sum::<u64>();
    }

    fn lost(&mut self, _: u64, kind: PacketKind, number: u64, _: LossReason) {
        let mut log = self.0.lock().unwrap();
        assert!(log.sent.contains(&(kind, number)));
        log.lost.push(number);
    }

    fn recovery(&mut self, _: u64, state: &RecoveryRecord) {
        self.0.lock().unwrap().recoveries.push(*state);
    }

    fn keys_updated(&mut self, _: u64, generation: u64) {
        self.0.lock().unwrap().generation = generation;
    }

    fn closed(&mut self, failure: &QuicFailure) {
        self.0.lock().unwrap().closed.push(failure.clone());
    }
}

#[test]
fn a_recorder_is_told_of_every_packet() {
    let mut world = world(10 * MS);
    (world.parallel, world.path.loss) = (4, 100);
    world.open(&settings(), gets(100, 2000));
    let log = Log::default();
    world.client.record(Box::new(log.clone()));
    world.finish();
    let (counts, log) = (world.client.counts(), log.0.lock().unwrap());
    assert_eq!(log.sent.len() as u64, counts.packets_sent + counts.ack_packets_sent);
    assert_eq!(log.sent_bytes as u64, counts.sent.udp_bytes);
    assert_eq!(
        (log.received, log.received_bytes as u64),
        (counts.packets_received, counts.received.udp_bytes - counts.received.ignored)
    );
    assert_eq!(log.content[0], counts.sent.stream_new + counts.sent.stream_repeated);
    assert_eq!(log.content[1], counts.received.stream_new + counts.received.stream_repeated);
    assert_eq!(log.lost.len() as u64, counts.packets_lost);
    assert_eq!(log.generation, counts.key_updates);
    assert_eq!(log.closed, world.client.failure().cloned().into_iter().collect::<Vec<_>>());
    assert!(log.recoveries.iter().all(|state| state.bytes_in_flight <= state.congestion_window + 3 * 1472));
}
