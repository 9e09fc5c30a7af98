//! What is shown of a record, with what is concluded from the whole of it.

use webstone_judge::search::{self, Finding};
use webstone_judge::verdict::{self, Verdict};
use webstone_model::record::RunRecord;
use webstone_model::search::Over;

/// The part of a record that is shown. What was concluded from the whole record holds whatever part that is.
pub(crate) struct Judged<'a> {
    /// What is shown.
    pub(crate) record: &'a RunRecord,
    /// What it is a part of.
    pub(crate) whole: &'a RunRecord,
    pub(crate) verdict: Verdict,
    /// What a search was over, and what it found; `None` of other runs.
    pub(crate) found: Option<(Over, Finding)>,
}

impl<'a> Judged<'a> {
    pub(crate) fn part(record: &'a RunRecord, whole: &'a RunRecord) -> Judged<'a> {
        let found = || Some((whole.spec.find.as_ref()?.over, search::of_record(whole)?));
        Judged { record, whole, verdict: verdict::of_record(whole), found: found() }
    }

    pub(crate) fn whole(record: &'a RunRecord) -> Judged<'a> {
        Judged::part(record, record)
    }

    /// What a search found.
    pub(crate) fn finding(&self) -> Option<&Finding> {
        self.found.as_ref().map(|(_, finding)| finding)
    }
}
