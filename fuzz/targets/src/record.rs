//! Stored records and histograms, as another version, another program or a bad disk may have left them.

use base64::Engine as _;
use webstone_measure::figures::Figures;
use webstone_measure::metrics::Histogram;
use webstone_model::record::RunRecord;

/// Every figure of a record that can be read can be computed, and the record reads back the same however often it is written.
pub(crate) fn record(data: &[u8]) {
    let Ok(mut record) = serde_json::from_slice::<RunRecord>(data) else { return };
    for iteration in &record.iterations {
        Figures::of_measured(&iteration.measured);
    }
    Figures::of_measured(&record.whole());
    // Numbers with a decimal point may change in their last digit when they are printed; nothing else may.
    record.environment.clear();
    // The first writing drops what means nothing, such as an example of an error that never happened.
    let once = written_and_read(&record);
    assert!(written_and_read(&once) == once, "it changes each time it is written");
}

fn written_and_read(record: &RunRecord) -> RunRecord {
    let text = serde_json::to_vec(record).expect("what was read can be written");
    serde_json::from_slice(&text).expect("what was written can be read")
}

/// A histogram that can be read is written and read back with the same counts, and no percentile exceeds its maximum. The
/// input is tried as base64 text, as it is stored, and as the bytes that this encodes, which mutations can reach.
pub(crate) fn histogram(data: &[u8]) {
    let encoded = base64::engine::general_purpose::STANDARD.encode(data);
    for text in [std::str::from_utf8(data).unwrap_or_default(), &encoded] {
        let Ok(histogram) = Histogram::from_base64(text) else { continue };
        let mut again = Histogram::from_base64(&histogram.to_base64()).expect("what was written can be read");
        again.set_max(histogram.max());
        assert!(again == histogram, "{histogram:?} reads back as {again:?}");
        for percentile in [0.0, 50.0, 99.0, 99.99, 100.0] {
            assert!(histogram.value_at_percentile(percentile) <= histogram.max());
        }
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!(twice.max(), histogram.max());
    }
}
