//! The text of WebStone 2.x, page blocks and results: its labels, their order, separators and units, so that a script written for
//! WebStone 2.0.1 (`wscollect` splits lines at `:` and two blanks, or at a tab) reads it. One block for each level and
//! iteration; `wscollect` keeps the last block of a file, so a file that it shall read must hold one.
//!
//! What the labels mean, as WebStone 2.0.1 computed them, and where this differs:
//! - `Mbit` is 2²⁰ bits, in both thruputs. Every other report of webstone uses 10⁶.
//! - `Server connection rate` counts connections. The original had a connection for each request, so that there it was
//!   the request rate too; with connections kept alive the two differ, and this stays true to its name.
//! - `Error Level` is errors / connections in %, or errors / ended requests where connections are reused. The original
//!   left failed connections out of the divisor, and printed `inf` where every one had failed.
//! - `Little's Load Factor` is Σ response time / test time, of the exact sum; the original dropped its fraction.
//! - Rates are over the exact length of the window, printed as whole seconds; the original used the whole seconds.
//! - `Sum of client response times` has six decimals; the original left out leading zeros of the fraction.
//! - `Std Dev` has the divisor n, as the original's source has it. The means of each row are over its own count:
//!   connections for connect times, responses for the rest.
//! - A page's block stands above the results, as `webmaster -v` prints it. Of single pages no deviation, shortest time or extreme
//!   size is kept: `-` stands there. Pages that nobody asked for are left out; where there are more than a reader wants (`--pages`)
//!   those with the most hits are shown, and how many there are besides.
//! - `Reading results` has a dot for each client, blanks and empty lines stand where the original has them: an empty line follows
//!   each date, whose `asctime` brings a line end of its own.
//! - The line of the web server ends with its URL. In the original the address followed at which the webmaster waited for its
//!   clients; nothing listens here.
//! - Dates are UTC; the original printed local time.

use std::fmt::Write as _;
use std::io;

use webstone_measure::figures::Figures;
use webstone_measure::metrics::{Moments, PageTotals};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::pages::PageRow;
use webstone_model::record::{IterationRecord, RunRecord};

use crate::ReportError;
use crate::asctime::asctime;
use crate::classic::{banner, client_host, one_line, page_size, standard_deviation, thruput, timeval};

const RULE: &str = "===============================================================================";
const TITLE: &str = "\n\t\t\t   Average      Std Dev      Minimum      Maximum\n";
const NO_CONNECTIONS: &str = "NO CONNECTIONS, THEREFORE NO STATISTICS\nIS YOUR WEBSERVER RUNNING?\n\
                              DO THE PAGES EXIST ON THE SERVER?";
/// WebStone's megabit.
const MEBI: f64 = 1024.0 * 1024.0;

/// One block for each iteration, in the order in which they ran.
pub(crate) fn write(
    record: &RunRecord,
    pages_max: usize,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    for (number, run) in record.iterations.iter().enumerate() {
        let rows = record.page_rows(run, pages_max)?;
        let asked = run.measured.pages.iter().filter(|page| **page != PageTotals::default()).count() as u64;
        let held = run.pages_at.map_or(asked, |place| place.rows);
        // The original has a file for each.
        let mut text = if number > 0 { "\n".to_owned() } else { String::new() };
        // Writing to a String cannot fail, so the results are dropped in one place.
        let _ = preamble(&mut text, record, run)
            .and_then(|()| pages(&mut text, record, &rows, held))
            .and_then(|()| results(&mut text, run))
            .and_then(|()| statistics(&mut text, run));
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn preamble(out: &mut String, record: &RunRecord, run: &IterationRecord) -> std::fmt::Result {
    writeln!(out, "{}", one_line(&record.command_line.join(" ")))?;
    writeln!(out, "Client 0: {} \t# Processes: {}", client_host(record), run.clients)?;
    writeln!(out, "    Webserver: {}", one_line(&record.target.url))?;
    writeln!(out, "\n\nWaiting for READY from {} clients", run.clients)?;
    writeln!(out, "All READYs received\nSending GO to all clients")?;
    writeln!(out, "All clients started at {}\n", one_line(&asctime(&run.started_at, 0)))?;
    writeln!(out, "Waiting for clients completion")?;
    writeln!(out, "Reading results {}", ".".repeat(run.clients as usize))?;
    writeln!(out, "All clients ended at {}\n", one_line(&asctime(&run.started_at, run.measured.window_ns)))
}

fn pages(out: &mut String, record: &RunRecord, rows: &[PageRow], held: u64) -> std::fmt::Result {
    for PageRow { page, totals } in rows {
        writeln!(out, "{RULE}\nPage # {page}\n")?;
        writeln!(out, "Total number of times page was hit {}", totals.hits)?;
        writeln!(out, "{} connection(s) to server, {} errors", totals.connects, totals.errors)?;
        page_statistics(out, totals)?;
        let size = page_size(record, *page as usize, totals).unwrap_or(0);
        writeln!(out, "Page size {size} \n{RULE}\n")?;
    }
    match held - (rows.len() as u64).min(held) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more pages with fewer hits\n"),
    }
}

/// What is kept of a page: means, and the longest times.
fn page_statistics(out: &mut String, page: &PageTotals) -> std::fmt::Result {
    if page.connects == 0 && page.requests == 0 {
        return writeln!(out, "{NO_CONNECTIONS}");
    }
    writeln!(out, "{TITLE}")?;
    let seconds = |nanos: f64| format!("{:>10.6}", nanos / NANOS_PER_SECOND as f64);
    let mean = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
    let times = [
        ("Connect time (sec) \t", page.connect_ns, page.connects, page.connect_ns_max),
        ("Response time (sec) \t", page.response_ns, page.requests, page.response_ns_max),
    ];
    for (label, sum, count, max) in times {
        let (mean, max) = (seconds(mean(sum, count)), seconds(max as f64));
        writeln!(out, "{label}{mean}   {:>10}   {:>10}   {max}", "-", "-")?;
    }
    let sizes = [
        ("Response size (bytes) \t", page.body_bytes + page.head_bytes),
        ("Body size (bytes) \t", page.body_bytes),
    ];
    for (label, sum) in sizes {
        writeln!(out, "{label}{:>10.0}   {:>10}   {:>10}   {:>10}", mean(sum, page.requests), "-", "-", "-")?;
    }
    moved(out, page.body_bytes, page.body_bytes + page.head_bytes)
}

fn moved(out: &mut String, bodies: u64, all: u64) -> std::fmt::Result {
    let heads = all.saturating_sub(bodies);
    writeln!(out, "\n{bodies} body bytes moved + {heads} header bytes moved = {all} total")
}

fn results(out: &mut String, run: &IterationRecord) -> std::fmt::Result {
    let measured = &run.measured;
    let figures = Figures::of(measured);
    writeln!(out, "{RULE}")?;
    out.push_str(&banner(run));
    writeln!(out, "WEBSTONE 2.0 results:")?;
    writeln!(out, "Total number of clients: \t{}", run.clients)?;
    writeln!(out, "Test time: \t\t\t{:.0} seconds", figures.test_time_s)?;
    writeln!(out, "Server connection rate: \t{:.2} connections/sec", figures.connection_rate)?;
    writeln!(out, "Server error rate: \t\t{:.4} err/sec", figures.error_rate)?;
    writeln!(out, "Server thruput: \t\t{:.2} Mbit/sec", figures.throughput_bps / MEBI)?;
    writeln!(out, "Little's Load Factor: \t\t{:.2} ", figures.little)?;
    writeln!(out, "Average response time: \t\t{:.4} millisec", measured.response.mean() / 1e6)?;
    writeln!(out, "Error Level:\t\t\t{:.4} %", figures.error_level_percent)?;
    writeln!(out, "Average client thruput: \t{:.4} Mbit/sec", 8.0 * thruput(measured) / MEBI)?;
    writeln!(out, "Sum of client response times:\t{} sec", timeval(measured.response.sum))?;
    writeln!(out, "Total number of pages read:\t{}\n", measured.counts.pages_completed)
}

fn statistics(out: &mut String, run: &IterationRecord) -> std::fmt::Result {
    let measured = &run.measured;
    let counts = &measured.counts;
    writeln!(out, "{} connection(s) to server, {} errors", counts.connections_answered, counts.failed)?;
    if counts.connections == 0 && counts.succeeded == 0 {
        return writeln!(out, "{NO_CONNECTIONS}");
    }
    writeln!(out, "{TITLE}")?;
    times(out, "Connect time (sec) \t", &measured.connect)?;
    times(out, "Response time (sec) \t", &measured.response)?;
    sizes(out, "Response size (bytes) \t", &measured.response_bytes)?;
    sizes(out, "Body size (bytes) \t", &measured.body_bytes)?;
    moved(out, measured.body_bytes.sum, measured.response_bytes.sum)
}

fn times(out: &mut String, label: &str, moments: &Moments) -> std::fmt::Result {
    let cells = row(moments).map(|nanos| format!("{:>10.6}", nanos / NANOS_PER_SECOND as f64));
    writeln!(out, "{label}{}", cells.join("   "))
}

fn sizes(out: &mut String, label: &str, moments: &Moments) -> std::fmt::Result {
    let cells = row(moments).map(|bytes| format!("{bytes:>10.0}"));
    writeln!(out, "{label}{}", cells.join("   "))
}

/// Mean, standard deviation of the whole population, minimum, maximum.
fn row(moments: &Moments) -> [f64; 4] {
    let n = moments.count as f64;
    let of_a_sample_to_population = if n > 0.0 { ((n - 1.0) / n).sqrt() } else { 0.0 };
    [
        moments.mean(),
        standard_deviation(moments) * of_a_sample_to_population,
        moments.min_or_zero() as f64,
        moments.max as f64,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known set with mean 5 and, with the divisor n, standard deviation 2.
    #[test]
    fn the_deviation_is_that_of_the_population() {
        let mut moments = Moments::default();
        [2, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|value| moments.record(value));
        let [mean, deviation, min, max] = row(&moments);
        assert!((deviation - 2.0).abs() < 1e-12, "{deviation}");
        assert_eq!((mean, min, max), (5.0, 2.0, 9.0));
        assert_eq!(row(&Moments::default()), [0.0; 4]);
    }
}
