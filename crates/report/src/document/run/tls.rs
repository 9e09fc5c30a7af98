//! TLS handshakes of each level, and what they agreed on.

use webstone_measure::figures::Group;
use webstone_measure::metrics::Agreed;

use super::figures;
use crate::document::Tone;
use crate::document::table::Sheet;
use crate::numbers::count;
use crate::summary::{self, Level};

pub(crate) fn sheet(levels: &[Level<'_>]) -> Option<Sheet> {
    let agreed = in_words(levels)?;
    let columns = figures::columns(levels, &[Group::Tls], &|level, figure| level.values.value(figure));
    let tone = |level: &Level<'_>| {
        let failed =
            level.runs.iter().filter_map(|run| run.measured.handshakes.as_ref()).any(|h| h.failed > 0);
        if failed { Tone::Caution } else { Tone::Plain }
    };
    Some(Sheet::new("TLS", agreed, figures::table(levels, &columns, &tone)))
}

/// What was agreed on: `1.3, TLS_AES_128_GCM_SHA256, X25519, http/1.1, certificate verified`, each with its count where that
/// differs; `None` of runs without a handshake.
pub(crate) fn in_words(levels: &[Level<'_>]) -> Option<String> {
    let mut handshakes = None;
    for level in levels {
        if let Some(more) = &summary::merged(&level.runs).handshakes {
            handshakes.get_or_insert_with(webstone_measure::metrics::Handshakes::default).merge(more);
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
