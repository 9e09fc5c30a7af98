//! How one host's measurements are sent to the host that merges them: everything in [`Measured`], including what a
//! record stores outside its JSON. What is read is equal to what was sent, so merging hosts is the same as merging
//! workers in one process.
//!
//! The format is deflated JSON: fields have the same names as in a record, and a field that is left out if empty can
//! be read, which would be impossible in a format without names.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use super::{Histogram, Measured, PageHistograms, PageTotals, Seconds};

/// Maximum size of an inflated window: a million clients are 150 MB.
const INFLATED_BYTES_MAX: u64 = 1 << 30;

/// Why received bytes are not a measured window.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// It cannot be inflated, or is larger than any window.
    #[error("it cannot be inflated: {0}")]
    Deflated(String),
    /// It is not a window in JSON.
    #[error("it is not a measured window: {0}")]
    Json(#[from] serde_json::Error),
    /// A distribution cannot be read.
    #[error("distribution {number} of {of}: {why}")]
    Distribution {
        /// Its number, from 1.
        number: usize,
        /// How many there must be.
        of: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// What is sent: the window as in its record, and what the record's JSON leaves out.
#[derive(Serialize, Deserialize)]
struct Wire {
    measured: Measured,
    pages: Vec<PageTotals>,
    seconds: Seconds,
    /// The pages with distributions of their own.
    page_histograms: Vec<u32>,
    /// HdrHistogram V2 in base64 with the exact maximum, in the order of [`Measured::distributions_mut`].
    distributions: Vec<(String, u64)>,
}

impl Measured {
    /// The whole window as bytes.
    pub fn to_wire(mut self) -> Vec<u8> {
        let distributions =
            self.distributions_mut().map(|histogram| (histogram.to_base64(), histogram.max())).collect();
        let wire = Wire {
            pages: std::mem::take(&mut self.pages),
            seconds: std::mem::take(&mut self.seconds),
            page_histograms: self.page_histograms.iter().map(|of| of.page).collect(),
            distributions,
            measured: self,
        };
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        let json = serde_json::to_vec(&wire).expect("every map has text for keys");
        let deflated = encoder.write_all(&json).and_then(|()| encoder.finish());
        deflated.expect("a Vec accepts every write")
    }

    /// Reads what [`Measured::to_wire`] wrote.
    ///
    /// # Errors
    /// If the bytes are damaged, or something else.
    pub fn from_wire(bytes: &[u8]) -> Result<Measured, WireError> {
        let mut json = Vec::new();
        let inflated = ZlibDecoder::new(bytes).take(INFLATED_BYTES_MAX + 1).read_to_end(&mut json);
        inflated.map_err(|error| WireError::Deflated(error.to_string()))?;
        if json.len() as u64 > INFLATED_BYTES_MAX {
            return Err(WireError::Deflated(format!("it has more than {INFLATED_BYTES_MAX} bytes")));
        }
        let Wire { mut measured, pages, seconds, page_histograms, distributions } =
            crate::strict::json(&json)?;
        measured.pages = pages;
        measured.seconds = seconds;
        let of_page = |page| PageHistograms { page, ..PageHistograms::default() };
        measured.page_histograms = page_histograms.into_iter().map(of_page).collect();
        let of = measured.distributions_mut().count();
        if distributions.len() != of {
            let why = format!("there are {} distributions", distributions.len());
            return Err(WireError::Distribution { number: distributions.len().min(of) + 1, of, why });
        }
        for (number, (place, (text, max))) in measured.distributions_mut().zip(&distributions).enumerate() {
            let wrong = |why: String| WireError::Distribution { number: number + 1, of, why };
            *place = Histogram::from_base64(text).map_err(|error| wrong(error.to_string()))?;
            place.set_max(*max);
        }
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::errors::{ErrorClass, ErrorExample};
    use crate::metrics::{ClientTotals, Handshakes, OpenLoop, Second, WorkerUse};

    /// A window with something in every part that merges.
    fn window(values: &[u64], is_open: bool, over_tls: bool) -> Measured {
        let mut measured = Measured { window_ns: 1_000_000_000, ..Measured::default() };
        for (at, value) in values.iter().copied().enumerate() {
            measured.counts.started += 1;
            measured.counts.succeeded += 1;
            measured.response.record(value);
            measured.histograms.response.record(value);
            measured.histograms.connect.record(value / 3);
            measured.unanswered.request_in_flight(value / 7, value % 2 == 0);
            measured.unanswered.page(value / 5);
            measured.generator.loop_delay.record(value / 1_000);
            measured.generator.connect_lag.record(value % 77);
            if let Some(open_loop) = is_open.then(|| measured.open_loop.get_or_insert_default()) {
                open_loop.planned += 1;
                open_loop.lag.record(value / 5);
                open_loop.lag_histogram.record(value / 5);
                open_loop.uncorrected.response.record(value / 2);
            }
            if let Some(handshakes) = over_tls.then(|| measured.handshakes.get_or_insert_default()) {
                handshakes.full += 1;
                handshakes.time.record(value);
                handshakes.histogram.record(value);
            }
            let class = ErrorClass::ALL[at % ErrorClass::ALL.len()];
            measured.errors.add(class, || ErrorExample {
                at_ns: value,
                address: "192.0.2.1:80".to_owned(),
                request: "GET /".to_owned(),
                detail: value.to_string(),
            });
            *measured.statuses.0.entry(200 + (value % 300) as u16).or_default() += 1;
            measured.clients.push(ClientTotals { pages: value, ..ClientTotals::default() });
            measured.pages.push(PageTotals { hits: 1, time_ns_max: value, ..PageTotals::default() });
            measured.seconds.0.push(Second { requests: 1, response_ns_max: value, ..Second::default() });
        }
        let mut of_page = PageHistograms { page: 3, ..PageHistograms::default() };
        values.iter().for_each(|value| of_page.histograms.page.record(*value));
        measured.page_histograms.push(of_page);
        measured.generator.workers.push(WorkerUse {
            user_ns: 7,
            backend: "epoll".to_owned(),
            ..WorkerUse::default()
        });
        measured.lifetime.received_bytes = values.len() as u64;
        measured
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_read_is_what_was_sent_and_merges_as_in_one_process(
            mine in prop::collection::vec(0_u64..1 << 50, 0..60),
            theirs in prop::collection::vec(0_u64..1 << 50, 0..60),
            is_open: bool,
            over_tls: bool,
        ) {
            let (mine, theirs) = (window(&mine, is_open, over_tls), window(&theirs, is_open, over_tls));
            let travelled = |window: &Measured| Measured::from_wire(&window.clone().to_wire()).unwrap();
            prop_assert_eq!(&travelled(&mine), &mine);
            let mut in_process = mine.clone();
            in_process.merge_parallel(theirs.clone());
            let mut over_the_wire = travelled(&mine);
            over_the_wire.merge_parallel(travelled(&theirs));
            prop_assert_eq!(over_the_wire, in_process);
        }
    }

    #[test]
    fn damage_is_an_error_and_not_another_window() {
        let sent = window(&[5, 1 << 30, 77], true, true);
        let bytes = sent.clone().to_wire();
        for place in (0..bytes.len()).step_by(7) {
            let mut bad = bytes.clone();
            bad[place] ^= 0x20;
            // The first two bytes say how it was deflated, and there are several correct values.
            assert!(Measured::from_wire(&bad).map_or(true, |read| read == sent), "byte {place}");
        }
        for end in (0..bytes.len() - 4).step_by(11) {
            assert!(Measured::from_wire(&bytes[..end]).is_err(), "{end} bytes");
        }
        let fewer = Measured {
            handshakes: Some(Handshakes::default()),
            open_loop: Some(OpenLoop::default()),
            ..Measured::default()
        };
        let wire = Wire {
            measured: fewer,
            pages: Vec::new(),
            seconds: Seconds::default(),
            page_histograms: Vec::new(),
            distributions: vec![(Histogram::new().to_base64(), 0)],
        };
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&serde_json::to_vec(&wire).unwrap()).unwrap();
        let error = Measured::from_wire(&encoder.finish().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "distribution 2 of 17: there are 1 distributions");
    }
}
