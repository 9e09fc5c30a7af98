//! The tables of groups of figures, one row per level. Words, units, decimals and values are the model's; this file decides which groups
//! make a table, when it is shown, and which cells are marked. Fairness is a table of its own, because a server that serves some clients
//! well and lets others starve can still have a high rate.

use webstone_measure::figures::Group;
use webstone_measure::figures::host::HostFigures;
use webstone_measure::metrics::{Agreed, Handshakes};
use webstone_model::record::RunRecord;

use super::figures;
use crate::document::Tone;
use crate::document::table::{Sheet, Table};
use crate::numbers::count;
use crate::summary::{self, Level};

/// The figures of groups; a tone marks what a reader should look at.
pub(super) fn table(levels: &[Level<'_>], groups: &[Group], is_bad: impl Fn(&Level<'_>) -> bool) -> Table {
    let columns = figures::columns(levels, groups, &|level, figure| level.values.value(figure));
    figures::table(levels, &columns, &|level| if is_bad(level) { Tone::Caution } else { Tone::Plain })
}

pub(super) fn fairness(levels: &[Level<'_>]) -> Option<Sheet> {
    // One client cannot be compared with another.
    levels.iter().find(|level| level.clients > 1 && level.fairness.is_some())?;
    let table = table(levels, &[Group::Fairness], |level| level.fairness.is_some_and(|it| it.starved > 0));
    Some(Sheet::new("Fairness", "Jain's index: 1 when all clients are served equally", table))
}

pub(super) fn http2(levels: &[Level<'_>]) -> Option<Sheet> {
    levels.iter().find(|level| level.http2.is_some())?;
    let table = table(levels, &[Group::Http2], |level| {
        level.http2.is_some_and(|counts| counts.refused > 0 || counts.reset > 0)
    });
    Some(Sheet::new("HTTP/2", "streams of all connections together, unless stated otherwise", table))
}

/// Streams of HTTP/3, and what QUIC did for them. Resets are listed by code.
pub(super) fn http3(levels: &[Level<'_>]) -> Option<Sheet> {
    levels.iter().find(|level| level.http3.is_some())?;
    let table = table(levels, &[Group::Http3], |level| {
        level
            .http3
            .as_ref()
            .is_some_and(|counts| counts.refused > 0 || counts.reset > 0 || counts.packets_lost > 0)
    });
    let mut sheet = Sheet::new("HTTP/3", "streams, datagrams and packets of all connections together", table);
    for level in levels {
        let resets = level.http3.iter().flat_map(|counts| &counts.resets);
        let told: Vec<String> = resets.map(|(code, times)| format!("{code}: {}", count(*times))).collect();
        if !told.is_empty() {
            sheet.notes.push((Tone::Caution, format!("Streams reset by the server: {}.", told.join(", "))));
        }
    }
    Some(sheet)
}

pub(super) fn open_loop(levels: &[Level<'_>]) -> Option<Sheet> {
    levels.iter().find(|level| level.open_loop.is_some())?;
    let table = table(levels, &[Group::OpenLoop], |level| {
        level.open_loop.as_ref().is_some_and(|it| it.skipped > 0 || it.queued > 0)
    });
    let note = "latency counts from the intended start; lag is the generator's own lateness";
    Some(Sheet::new("Open loop", note, table))
}

/// How many of the clients' requests a proxy passed on to its origin, and the origin's CPU time.
pub(super) fn origin(record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    let origin = record.target.origin.as_ref()?;
    let who = if origin.ours { "webstone's own behind it" } else { origin.url.as_str() };
    let explanation = format!("the proxy's requests to {who}, and what they cost");
    let table = table(levels, &[Group::Origin, Group::OriginUse], |_| false);
    let mut sheet = Sheet::new("Origin", explanation, table);
    sheet.notes.extend(origin.unseen.iter().map(|why| (Tone::Caution, format!("{why}."))));
    Some(sheet)
}

/// TLS handshakes, and what they agreed on.
pub(super) fn tls(levels: &[Level<'_>]) -> Option<Sheet> {
    let agreed = in_words(levels)?;
    let table = table(levels, &[Group::Tls], |level| {
        level.runs.iter().filter_map(|run| run.measured.handshakes.as_ref()).any(|h| h.failed > 0)
    });
    Some(Sheet::new("TLS", agreed, table))
}

/// What was agreed on: `1.3, TLS_AES_128_GCM_SHA256, X25519, http/1.1, certificate verified`, each with its count where that
/// differs; `None` of runs without a handshake.
pub(crate) fn in_words(levels: &[Level<'_>]) -> Option<String> {
    let mut handshakes = None;
    for level in levels {
        if let Some(more) = &summary::merged(&level.runs).handshakes {
            handshakes.get_or_insert_with(Handshakes::default).merge(more);
        }
    }
    let agreed = handshakes?.agreed;
    let one = |agreed_on: &Agreed| {
        let group = agreed_on.group.map_or("no new key exchange".to_owned(), |group| group.to_string());
        let text = format!(
            "TLS {}, {}, {group}, {}, certificate {}verified",
            agreed_on.version,
            agreed_on.cipher,
            agreed_on.alpn.as_deref().map_or("no ALPN".into(), |name| name.to_owned()),
            if agreed_on.verified { "" } else { "not " },
        );
        if agreed.len() == 1 { text } else { format!("{text} ({})", count(agreed_on.count)) }
    };
    match agreed.is_empty() {
        true => Some("no handshake succeeded".to_owned()),
        false => Some(agreed.iter().map(one).collect::<Vec<_>>().join("; ")),
    }
}

/// The table of one of a level's two hosts.
type Host = for<'l> fn(&'l Level<'_>) -> Option<&'l HostFigures>;

/// What the relay of a path carried and lost, and what it added.
pub(super) fn path(record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    let path = record.spec.server.path?;
    levels.iter().find(|level| level.host.as_ref().is_some_and(|host| host.path.is_some()))?;
    let table = table(levels, &[Group::Path], |level| {
        level.host.as_ref().and_then(|host| host.path).is_some_and(|path| path.overflowed > 0)
    });
    let explanation =
        format!("{}, by a relay of webstone's on this host, between two network namespaces", path.in_words());
    let mut sheet = Sheet::new("Path", explanation, table);
    sheet.note(Tone::Faint, "Work of the kernel for arriving packets is the relay's CPU time, not the server's or the generator's.");
    Some(sheet)
}

/// What went over the interfaces towards the target, and what the kernel's TCP had to repeat or refuse: counters of this host,
/// whatever caused them.
pub(super) fn network(levels: &[Level<'_>]) -> Option<Sheet> {
    let (table, names) = links(levels, |level| level.host.as_ref())?;
    let is_alone = levels.iter().flat_map(|level| &level.runs).all(|run| run.parts.is_empty());
    let by = if is_alone { "this host counts it" } else { "the load generators' hosts count it" };
    let explanation = format!("all traffic on {names}, as {by}");
    Some(Sheet::new("Network", explanation, table))
}

/// The same as counted on the server's host, where an agent read it.
pub(super) fn network_there(levels: &[Level<'_>]) -> Option<Sheet> {
    let (table, names) = links(levels, |level| level.server_host.as_ref())?;
    let agents = levels.iter().flat_map(|level| &level.runs).flat_map(|run| &run.server_hosts);
    let by = match agents.map(|there| there.agent).max() {
        None | Some(0) => "the server's host counts it",
        Some(_) => "the server's hosts count it",
    };
    let explanation = format!("all traffic on {names}, as {by}");
    Some(Sheet::new("Network there", explanation, table))
}

/// The table, and the names of the interfaces.
fn links(levels: &[Level<'_>], host: Host) -> Option<(Table, String)> {
    let links = || levels.iter().filter_map(|level| host(level)?.links.as_ref());
    links().next()?;
    let columns = figures::columns(levels, &[Group::Network, Group::Host], &|level, figure| {
        figure.value_of(host(level)?)
    });
    let tone = |level: &Level<'_>| if loses(host(level)) { Tone::Caution } else { Tone::Plain };
    let table = figures::table(levels, &columns, &tone);
    let mut names: Vec<&str> = links().flat_map(|links| &links.names).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    Some((table, names.join(" and ")))
}

/// Whether a host dropped packets or connections.
pub(super) fn loses(host: Option<&HostFigures>) -> bool {
    host.is_some_and(|host| {
        host.tcp.is_some_and(|tcp| tcp.listen_overflows > 0)
            || host.links.as_ref().is_some_and(|links| links.sum.dropped_packets > 0)
    })
}
