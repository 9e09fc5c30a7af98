//! `histograms.hlog`: HdrHistogram's interval log, format 1.3, as its own tools write and read it (HistogramLogWriter
//! of HdrHistogram; `docs/measurement.md` has the names).
//!
//! A line is one distribution of one iteration: `Tag=clients=20;iteration=1;kind=response,START,LENGTH,MAX,HISTOGRAM`. That of one of
//! several hosts also has the host's number: `kind=response;generator=1`. START (since the base time) and LENGTH (of the window) are in
//! seconds. MAX is in milliseconds, as in the original, but with all six decimals: it is the exact maximum, which the encoding rounds.
//! Empty distributions have no line, except for a page's response.

use std::fmt::Write as _;
use std::time::Duration;

use webstone_measure::keys::{IterationKey, LevelKey};
use webstone_measure::metrics::{Histogram, Histograms, Measured, PageHistograms};
use webstone_measure::rate::RatesError;
use webstone_model::record::IterationRecord;

/// Names of the generator's own delays, apart from the four of a request.
const LOOP_DELAY: &str = "loop-delay";
/// Name of an open loop's schedule lag.
const SCHEDULE_LAG: &str = "schedule-lag";
/// What an open loop's distributions from the actual start begin with.
const UNCORRECTED: &str = "uncorrected-";
const RECEIVE_LAG: &str = "receive-lag";
const CONNECT_LAG: &str = "connect-lag";
/// What distributions of waits without a valid answer begin with.
const UNANSWERED: &str = "unanswered-";
/// The only kind of distribution that each of several hosts has.
const RESPONSE: &str = "response";
/// Name of the times of TLS handshakes.
const TLS_HANDSHAKE: &str = "tls-handshake";

/// The head of a log whose timestamps count from `base`.
pub(super) fn header(base: Duration, base_rfc3339: &str) -> String {
    let seconds = seconds(base);
    format!(
        "#[webstone: durations in nanoseconds, one line a distribution]\n\
         #[Histogram log format version 1.3]\n\
         #[BaseTime: {seconds} (seconds since epoch)]\n\
         #[StartTime: {seconds} (seconds since epoch), {base_rfc3339}]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    )
}

/// All lines of an iteration whose window opened `start` after the base time.
pub(super) fn lines(iteration: &IterationRecord, start: Duration) -> String {
    let measured = &iteration.measured;
    let rate = iteration.rate.map(|rate| format!(";rate={rate}")).unwrap_or_default();
    let tag = format!("clients={}{rate};iteration={}", iteration.clients, iteration.iteration);
    let length = seconds(Duration::from_nanos(measured.window_ns));
    let start = seconds(start);
    let mut text = String::new();
    let mut line = |kind: &str, page: Option<u32>, histogram: &Histogram| {
        // One line of a page stays even when it is empty: it says that the page has distributions of its own.
        if histogram.is_empty() && !(page.is_some() && kind == RESPONSE) {
            return;
        }
        let page = page.map(|page| format!(";page={page}")).unwrap_or_default();
        let max = milliseconds(histogram.max());
        let encoded = histogram.to_base64();
        writeln!(text, "Tag={tag};kind={kind}{page},{start},{length},{max},{encoded}")
            .expect("a String accepts every write");
    };
    for (kind, histogram) in measured.histograms.named() {
        line(kind, None, histogram);
    }
    for (kind, histogram) in measured.unanswered.histograms.named() {
        line(&format!("{UNANSWERED}{kind}"), None, histogram);
    }
    line(LOOP_DELAY, None, &measured.generator.loop_delay);
    if let Some(open_loop) = &measured.open_loop {
        line(SCHEDULE_LAG, None, &open_loop.lag_histogram);
        for (kind, histogram) in open_loop.uncorrected.named() {
            line(&format!("{UNCORRECTED}{kind}"), None, histogram);
        }
    }
    line(RECEIVE_LAG, None, &measured.generator.receive_lag);
    line(CONNECT_LAG, None, &measured.generator.connect_lag);
    if let Some(handshakes) = &measured.handshakes {
        line(TLS_HANDSHAKE, None, &handshakes.histogram);
    }
    for page in &measured.page_histograms {
        for (kind, histogram) in page.histograms.named() {
            line(kind, Some(page.page), histogram);
        }
    }
    for part in iteration.parts.iter().filter(|part| part.has_distribution) {
        line(&format!("{RESPONSE};generator={}", part.generator), None, &part.distribution);
    }
    text
}

/// Whether a line is of a single page: its tag says so.
pub(super) fn is_of_a_page(line: &str) -> bool {
    line.split(',').next().is_some_and(|tag| tag.starts_with("Tag=") && tag.contains(";page="))
}

/// The iteration that a line is of; `None` for a comment, the legend, and anything else that is not a line.
pub(super) fn owner(line: &str) -> Option<IterationKey> {
    let tag = line.strip_prefix("Tag=")?.split(',').next()?;
    let value = |name: &str| tag.split(';').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let rate = value("rate").map(str::parse).transpose().ok()?;
    let level = LevelKey::new(value("clients")?.parse().ok()?, rate);
    Some(IterationKey::new(level, value("iteration")?.parse().ok()?))
}

/// One distribution, read back.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) key: IterationKey,
    kind: String,
    page: Option<u32>,
    generator: Option<u32>,
    histogram: Histogram,
}

impl Line {
    /// Reads a line; `None` for a comment or the legend.
    pub(super) fn parse(text: &str) -> Result<Option<Line>, String> {
        if text.is_empty() || text.starts_with(['#', '"']) {
            return Ok(None);
        }
        let rest =
            text.strip_prefix("Tag=").ok_or("the line has no tag that says whose distribution it is")?;
        let mut fields = rest.splitn(5, ',');
        let mut field =
            || fields.next().ok_or("a line has five fields: tag, start, length, maximum, histogram");
        let (tag, _start, _length, max, encoded) = (field()?, field()?, field()?, field()?, field()?);
        let mut histogram = Histogram::from_base64(encoded).map_err(|error| error.to_string())?;
        let max =
            nanoseconds(max).ok_or_else(|| format!("the maximum `{max}` is not a number of milliseconds"))?;
        histogram.set_max(max);
        let value = |name: &str| tag.split(';').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str| -> Result<Option<u32>, String> {
            let wrong = || format!("the tag `{tag}` has no number after {name}=");
            value(name).map(|text| text.parse().map_err(|_| wrong())).transpose()
        };
        let required = |name: &str| number(name)?.ok_or_else(|| format!("the tag `{tag}` has no {name}="));
        let rate = match value("rate") {
            Some(text) => Some(text.parse().map_err(|error: RatesError| error.to_string())?),
            None => None,
        };
        Ok(Some(Line {
            key: IterationKey::new(LevelKey::new(required("clients")?, rate), required("iteration")?),
            kind: value("kind").ok_or_else(|| format!("the tag `{tag}` has no kind="))?.to_owned(),
            page: number("page")?,
            generator: number("generator")?,
            histogram,
        }))
    }

    /// Puts the distribution where it belongs in its iteration, whose workload has `pages` pages.
    pub(super) fn restore(self, iteration: &mut IterationRecord, pages: usize) -> Result<(), String> {
        let Line { kind, page, generator, histogram, .. } = self;
        let unknown = || format!("`{kind}` is not a kind of distribution that this version knows");
        if let Some(generator) = generator {
            let part = iteration.parts.iter_mut().find(|part| part.generator == generator);
            let part = part.filter(|part| part.has_distribution);
            let part = part.ok_or_else(|| format!("generator {generator} has no distribution here"))?;
            // In every version, a host has only this distribution.
            if kind != RESPONSE || page.is_some() {
                return Err(unknown());
            }
            part.distribution = histogram;
            return Ok(());
        }
        let measured = &mut iteration.measured;
        let slot = match page {
            Some(page) if page as usize >= pages => {
                return Err(format!("page {page} is not one of the workload's {pages} pages"));
            }
            Some(page) => page_slot(measured, page).named_mut(&kind),
            None if kind == LOOP_DELAY => Some(&mut measured.generator.loop_delay),
            None if kind == SCHEDULE_LAG => {
                Some(&mut measured.open_loop.get_or_insert_default().lag_histogram)
            }
            None if kind.starts_with(UNCORRECTED) => {
                measured.open_loop.get_or_insert_default().uncorrected.named_mut(&kind[UNCORRECTED.len()..])
            }
            None if kind.starts_with(UNANSWERED) => {
                measured.unanswered.histograms.named_mut(&kind[UNANSWERED.len()..])
            }
            None if kind == RECEIVE_LAG => Some(&mut measured.generator.receive_lag),
            None if kind == CONNECT_LAG => Some(&mut measured.generator.connect_lag),
            None if kind == TLS_HANDSHAKE => Some(&mut measured.handshakes.get_or_insert_default().histogram),
            None => measured.histograms.named_mut(&kind),
        };
        *slot.ok_or_else(unknown)? = histogram;
        Ok(())
    }
}

fn page_slot(measured: &mut Measured, page: u32) -> &mut Histograms {
    let slots = &mut measured.page_histograms;
    let index = slots.iter().position(|slot| slot.page == page).unwrap_or_else(|| {
        slots.push(PageHistograms { page, histograms: Histograms::default() });
        slots.len() - 1
    });
    &mut slots[index].histograms
}

fn seconds(span: Duration) -> String {
    format!("{}.{:03}", span.as_secs(), span.subsec_millis())
}

fn milliseconds(nanos: u64) -> String {
    format!("{}.{:06}", nanos / 1_000_000, nanos % 1_000_000)
}

fn nanoseconds(milliseconds: &str) -> Option<u64> {
    let (whole, fraction) = milliseconds.split_once('.').unwrap_or((milliseconds, ""));
    let digits = fraction.get(..fraction.len().min(6))?;
    let fraction: u64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let scale = 10_u64.pow(6 - digits.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::iteration;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use webstone_model::generators::GeneratorPart;

    /// What HdrHistogram's own reader finds in the log.
    #[test]
    fn other_tools_read_it() {
        let wanted = iteration(20, 1);
        let log = header(Duration::from_millis(1_500), "x") + &lines(&wanted, Duration::from_millis(3_250));
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            match entry.unwrap() {
                LogEntry::StartTime(time) | LogEntry::BaseTime(time) => {
                    assert_eq!(time, Duration::from_millis(1_500));
                }
                LogEntry::Interval(line) => {
                    use base64_of_hdr as decode;
                    assert_eq!(line.start_timestamp(), Duration::from_millis(3_250));
                    assert_eq!(line.duration(), Duration::from_secs(2));
                    let hdr: hdrhistogram::Histogram<u64> =
                        Deserializer::new().deserialize(&mut &decode(line.encoded_histogram())[..]).unwrap();
                    found.push((line.tag().unwrap().as_str().to_owned(), hdr.len(), line.max()));
                }
            }
        }
        let max = |nanos: u64| nanos as f64 / 1e6;
        let response = wanted.measured.response.max;
        let expected = [
            ("clients=20;iteration=1;kind=first-byte", max(response / 3)),
            ("clients=20;iteration=1;kind=response", max(response)),
            ("clients=20;iteration=1;kind=page", max(response + 5)),
            ("clients=20;iteration=1;kind=loop-delay", max(199)),
            ("clients=20;iteration=1;kind=receive-lag", max(206)),
            ("clients=20;iteration=1;kind=connect-lag", max(210)),
            ("clients=20;iteration=1;kind=response;page=0", max(response)),
        ];
        assert_eq!(found, expected.map(|(tag, max)| (tag.to_owned(), 199, max)));
    }

    /// Base64 without a dependency of its own: the test checks what a stranger sees, so it decodes by hand.
    fn base64_of_hdr(text: &str) -> Vec<u8> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
        for character in text.bytes().filter(|byte| *byte != b'=') {
            let digit = DIGITS.iter().position(|known| *known == character).unwrap() as u32;
            bits = bits << 6 | digit;
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
        }
        bytes
    }

    #[test]
    fn lines_read_back_exactly() {
        let mut wanted = iteration(3, 2);
        wanted.measured.page_histograms.push(PageHistograms { page: 1, ..PageHistograms::default() });
        let part = |generator: u32, values: &[u64]| {
            let mut part = GeneratorPart { generator, has_distribution: true, ..GeneratorPart::default() };
            values.iter().for_each(|value| part.distribution.record(*value));
            part
        };
        // One of three has no values, and one no distribution.
        let mut third = part(2, &[]);
        third.forget_distribution();
        wanted.parts = vec![part(0, &[5_000, 70_001]), part(1, &[]), third];
        let mut read = IterationRecord { parts: wanted.parts.clone(), ..IterationRecord::default() };
        read.parts.iter_mut().for_each(|part| part.distribution = Histogram::default());
        for text in (header(Duration::ZERO, "x") + &lines(&wanted, Duration::ZERO)).lines() {
            if let Some(line) = Line::parse(text).unwrap() {
                assert_eq!(line.key, wanted.key());
                line.restore(&mut read, 2).unwrap();
            }
        }
        assert_eq!(read.parts, wanted.parts);
        assert_eq!(read.parts[0].distribution.max(), 70_001);
        let measured = read.measured;
        assert_eq!(measured.histograms, wanted.measured.histograms);
        assert_eq!(measured.page_histograms, wanted.measured.page_histograms);
        assert_eq!(measured.generator.loop_delay, wanted.measured.generator.loop_delay);
        assert_eq!(measured.generator.receive_lag, wanted.measured.generator.receive_lag);
        assert_eq!(measured.generator.connect_lag, wanted.measured.generator.connect_lag);
        assert_eq!(measured.histograms.response.max(), wanted.measured.response.max);
    }

    #[test]
    fn an_open_loop_keeps_its_rate_and_its_own_distributions() {
        let mut wanted = iteration(3, 2);
        wanted.rate = Some("1k..2.5k/1m".parse().unwrap());
        let open_loop = wanted.measured.open_loop.get_or_insert_default();
        open_loop.lag_histogram.record(812);
        open_loop.uncorrected.response.record(4000);
        open_loop.uncorrected.first_byte.record(3000);
        let mut read = IterationRecord::default();
        let text = lines(&wanted, Duration::ZERO);
        assert!(text.contains("Tag=clients=3;rate=1000..2500/1m;iteration=2;kind=schedule-lag,"), "{text}");
        for line in text.lines().filter_map(|text| Line::parse(text).unwrap()) {
            assert_eq!(line.key, wanted.key());
            line.restore(&mut read, 2).unwrap();
        }
        assert_eq!(read.measured.open_loop, wanted.measured.open_loop);
    }

    #[test]
    fn milliseconds_keep_every_nanosecond() {
        for nanos in [0, 1, 999_999, 1_000_000, 12_345_678_901, u64::MAX] {
            assert_eq!(nanoseconds(&milliseconds(nanos)), Some(nanos));
        }
        assert_eq!(nanoseconds("2.5"), Some(2_500_000));
        assert_eq!(nanoseconds("3"), Some(3_000_000));
        for text in ["", "x", "1.x", "-1", "99999999999999999999"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }

    #[test]
    fn wrong_lines_say_what_is_wrong() {
        let encoded = {
            let mut histogram = Histogram::new();
            histogram.record(5);
            histogram.to_base64()
        };
        for (text, what) in [
            ("0.0,1.0,1.0,x".to_owned(), "no tag"),
            ("Tag=clients=1,0.0".to_owned(), "five fields"),
            (format!("Tag=iteration=1;kind=page,0.0,1.0,0.0,{encoded}"), "no clients="),
            (
                format!("Tag=clients=x;iteration=1;kind=page,0.0,1.0,0.0,{encoded}"),
                "no number after clients=",
            ),
            (format!("Tag=clients=1;iteration=1,0.0,1.0,0.0,{encoded}"), "no kind="),
            (format!("Tag=clients=1;iteration=1;kind=page,0.0,1.0,max,{encoded}"), "maximum `max`"),
            ("Tag=clients=1;iteration=1;kind=page,0.0,1.0,0.0,AAAA".to_owned(), "HdrHistogram V2"),
        ] {
            let error = Line::parse(&text).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        let part = GeneratorPart { has_distribution: true, ..GeneratorPart::default() };
        for (tag, what) in [
            ("kind=colour", "`colour` is not a kind"),
            ("kind=page;page=7", "page 7 is not one"),
            ("kind=response;generator=1", "generator 1 has no distribution"),
            ("kind=page;generator=0", "`page` is not a kind"),
        ] {
            let text = format!("Tag=clients=1;iteration=1;{tag},0.0,1.0,0.0,{encoded}");
            let line = Line::parse(&text).unwrap().unwrap();
            let error = line
                .restore(&mut IterationRecord { parts: vec![part.clone()], ..IterationRecord::default() }, 2)
                .unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
