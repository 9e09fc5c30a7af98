//! What the server behind a proxy did in each level: what the proxy asked of it for what clients asked of the proxy, and what
//! that took of its CPUs. The figures are the model's.

use webstone_measure::figures::Group;
use webstone_model::record::RunRecord;

use super::figures;
use crate::document::Tone;
use crate::document::table::Sheet;
use crate::summary::Level;

const GROUPS: [Group; 2] = [Group::Origin, Group::OriginUse];

pub(crate) fn sheet(record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    let behind = record.target.origin.as_ref()?;
    let columns = figures::columns(levels, &GROUPS, &|level, figure| level.values.value(figure));
    let who = if behind.ours { "webstone's own behind it" } else { behind.url.as_str() };
    let explanation = format!("the proxy's requests to {who}, and what they cost");
    let table = figures::table(levels, &columns, &|_| Tone::Plain);
    let mut sheet = Sheet::new("Origin", explanation, table);
    sheet.notes.extend(behind.unseen.iter().map(|why| (Tone::Caution, format!("{why}."))));
    Some(sheet)
}
