//! The text of WebStone 2.x, page blocks and results: its labels, their order, separators and units, so that a script written for WebStone
//! 2.0.1 (`wscollect` splits lines at `:` and two blanks, or at a tab) reads it. One block for each level and iteration; `wscollect` keeps
//! only the last block of a file, so a file for it must hold one.
//!
//! What the labels mean, as WebStone 2.0.1 computed them, and where this differs:
//! - `Mbit` is 2²⁰ bits, in both thruputs. Every other report of webstone uses 10⁶.
//! - Connections are completed retrievals, as WebStone counts them, each of which had a connection of its own; here a kept connection
//!   may have served several.
//! - `Error Level` is errors / connections in %, or errors / ended requests where connections are reused. The original
//!   left failed connections out of the divisor, and printed `inf` where every one had failed.
//! - `Little's Load Factor` is Σ response time / test time, of the exact sum; the original dropped its fraction.
//! - Rates are over the exact length of the window, printed as whole seconds; the original used the whole seconds.
//! - `Sum of client response times` has six decimals; the original left out leading zeros of the fraction.
//! - `Std Dev` has the divisor n, as the original's source has it. The means of each row are over its own count:
//!   connections for connect times, responses for the rest.
//! - With `-a` a block for each client stands first, as `webmaster -a` prints it. It has `-` for figures that are kept of few clients only
//!   (128 per worker).
//! - A page's block stands above the results, as `webmaster -v` prints it. Pages that nobody asked for are left out; where there are
//!   more than a reader wants (`--pages`) those with the most hits are shown, and how many there are besides.
//! - `Reading results` has a dot for each client, blanks and empty lines stand where the original has them: an empty line follows
//!   each date, whose `asctime` brings a line end of its own.
//! - The line of the web server ends with its URL. The original added the address at which the webmaster waited for its clients; nothing
//!   listens here.
//! - Dates are UTC; the original printed local time.

use std::fmt::Write as _;
use std::io;

use webstone_judge::verdict::Verdict;
use webstone_measure::figures::Figures;
use webstone_measure::metrics::{Measured, Moments, PageTotals, Spread};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::pages::PageRow;
use webstone_model::record::{IterationRecord, RunRecord};

use crate::asctime::asctime;
use crate::classic::{
    banner, client_hosts, one_line, own_host, page_size, standard_deviation, thruput, timeval,
};
use crate::judged::Judged;
use crate::summary::quotient;
use crate::{Options, ReportError};

const RULE: &str = "===============================================================================";
const TITLE: &str = "\n\t\t\t   Average      Std Dev      Minimum      Maximum\n";
const NO_CONNECTIONS: &str = "NO CONNECTIONS, THEREFORE NO STATISTICS\nIS YOUR WEBSERVER RUNNING?\n\
                              DO THE PAGES EXIST ON THE SERVER?";
/// WebStone's megabit.
const MEBI: f64 = 1024.0 * 1024.0;

/// One block for each iteration, in the order in which they ran.
pub(crate) fn write(
    judged: &Judged<'_>,
    options: &Options,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    let Judged { record, verdict, .. } = judged;
    for (number, run) in record.iterations.iter().enumerate() {
        let rows = record.page_rows(run, options.pages_max)?;
        let asked = run.measured.pages.iter().filter(|page| **page != PageTotals::default()).count() as u64;
        let held = run.pages_at.map_or(asked, |place| place.rows);
        // The original has a file for each.
        let mut text = if number > 0 { "\n".to_owned() } else { String::new() };
        // Writing to a String cannot fail, so the results are dropped in one place.
        let _ = preamble(&mut text, record, run)
            .and_then(|()| if options.all_clients { clients(&mut text, run) } else { Ok(()) })
            .and_then(|()| pages(&mut text, record, &rows, held))
            .and_then(|()| results(&mut text, run, verdict))
            .and_then(|()| statistics(&mut text, run));
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn preamble(out: &mut String, record: &RunRecord, run: &IterationRecord) -> std::fmt::Result {
    writeln!(out, "WebMaster name = {}", own_host(record))?;
    writeln!(out, "{}", one_line(&record.command_line.join(" ")))?;
    for (number, (host, clients, target)) in client_hosts(record, run).into_iter().enumerate() {
        writeln!(out, "Client {number}: {host} \t# Processes: {clients}")?;
        writeln!(out, "    Webserver: {target}")?;
    }
    writeln!(out, "\n\nWaiting for READY from {} clients", run.clients)?;
    writeln!(out, "All READYs received\nSending GO to all clients")?;
    writeln!(out, "All clients started at {}\n", one_line(&asctime(&run.started_at, 0)))?;
    writeln!(out, "Waiting for clients completion")?;
    writeln!(out, "Reading results {}", ".".repeat(run.clients as usize))?;
    writeln!(out, "All clients ended at {}\n", one_line(&asctime(&run.started_at, run.measured.span_ns())))
}

fn clients(out: &mut String, run: &IterationRecord) -> std::fmt::Result {
    let measured = &run.measured;
    for (number, client) in measured.clients.iter().enumerate().filter(|(_, client)| client.requests > 0) {
        writeln!(out, "----------------------------------")?;
        writeln!(out, "Total number of pages retrieved from server: {}", client.pages)?;
        let kept = measured.client_moments.get(number);
        let rows = match kept {
            Some(of) => [&of.connect, &of.response, &of.answer, &of.body].map(Row::of_moments),
            None => {
                let of_sum =
                    |sum| Row { mean: Some(quotient(sum as f64, client.requests as f64)), ..Row::default() };
                [Row::default(), of_sum(client.response_ns), of_sum(client.bytes), Row::default()]
            }
        };
        retrievals(out, client.requests, client.errors, rows, kept.map(|of| (of.body.sum, of.answer.sum)))?;
        let thruput = quotient(client.bytes as f64 * 1e9, client.response_ns as f64);
        writeln!(out, "Thruput average per connection: {thruput:.0} bytes/sec")?;
    }
    Ok(())
}

fn pages(out: &mut String, record: &RunRecord, rows: &[PageRow], held: u64) -> std::fmt::Result {
    for PageRow { page, totals } in rows {
        writeln!(out, "{RULE}\nPage # {page}\n")?;
        writeln!(out, "Total number of times page was hit {}", totals.hits)?;
        let all = totals.body_bytes + totals.head_bytes;
        let connects =
            Row::of_page(&totals.connect, totals.connects, totals.connect_ns, Some(totals.connect_ns_max));
        let of = |spread, sum, max| Row::of_page(spread, totals.requests, sum, max);
        let rows = [
            connects,
            of(&totals.response, totals.response_ns, Some(totals.response_ns_max)),
            of(&totals.answer, all, None),
            of(&totals.body, totals.body_bytes, None),
        ];
        retrievals(out, totals.requests, totals.errors, rows, Some((totals.body_bytes, all)))?;
        let size = page_size(record, *page as usize, totals).unwrap_or(0);
        writeln!(out, "Page size {size} \n{RULE}\n")?;
    }
    match held - (rows.len() as u64).min(held) {
        0 => Ok(()),
        1 => writeln!(out, "and 1 more page with fewer hits\n"),
        more => writeln!(out, "and {more} more pages with fewer hits\n"),
    }
}

fn results(out: &mut String, run: &IterationRecord, verdict: &Verdict) -> std::fmt::Result {
    let measured = &run.measured;
    let figures = Figures::of_measured(measured);
    writeln!(out, "{RULE}")?;
    out.push_str(&banner(run, verdict));
    writeln!(out, "WEBSTONE 2.0 results:")?;
    writeln!(out, "Total number of clients: \t{}", run.clients)?;
    writeln!(out, "Test time: \t\t\t{:.0} seconds", figures.test_time_s)?;
    writeln!(out, "Server connection rate: \t{:.2} connections/sec", figures.request_rate)?;
    writeln!(out, "Server error rate: \t\t{:.4} err/sec", figures.error_rate)?;
    writeln!(out, "Server thruput: \t\t{:.2} Mbit/sec", figures.throughput_bps / MEBI)?;
    let little = quotient(measured.response.sum as f64, measured.window_ns as f64);
    writeln!(out, "Little's Load Factor: \t\t{little:.2} ")?;
    writeln!(out, "Average response time: \t\t{:.4} millisec", measured.response.mean() / 1e6)?;
    writeln!(out, "Error Level:\t\t\t{:.4} %", figures.error_level_percent)?;
    writeln!(out, "Average client thruput: \t{:.4} Mbit/sec", 8.0 * thruput(measured) / MEBI)?;
    writeln!(out, "Sum of client response times:\t{} sec", timeval(measured.response.sum))?;
    writeln!(out, "Total number of pages read:\t{}\n", measured.counts.pages_completed)
}

fn statistics(out: &mut String, run: &IterationRecord) -> std::fmt::Result {
    let Measured { connect, response, response_bytes, body_bytes, counts, .. } = &run.measured;
    let rows = [connect, response, response_bytes, body_bytes].map(Row::of_moments);
    retrievals(out, counts.succeeded, counts.failed, rows, Some((body_bytes.sum, response_bytes.sum)))
}

/// What WebStone prints of retrievals: of all, of a page, of a client. `moved`: bytes of bodies, and of all.
fn retrievals(
    out: &mut String,
    retrievals: u64,
    errors: u64,
    [connect, response, answer, body]: [Row; 4],
    moved: Option<(u64, u64)>,
) -> std::fmt::Result {
    writeln!(out, "{retrievals} connection(s) to server, {errors} errors")?;
    if retrievals == 0 {
        return writeln!(out, "{NO_CONNECTIONS}");
    }
    writeln!(out, "{TITLE}")?;
    let seconds = |nanos: f64| format!("{:>10.6}", nanos / NANOS_PER_SECOND as f64);
    let whole = |bytes: f64| format!("{bytes:>10.0}");
    writeln!(out, "Connect time (sec) \t{}", connect.cells(seconds))?;
    writeln!(out, "Response time (sec) \t{}", response.cells(seconds))?;
    writeln!(out, "Response size (bytes) \t{}", answer.cells(whole))?;
    writeln!(out, "Body size (bytes) \t{}", body.cells(whole))?;
    let Some((bodies, all)) = moved else { return Ok(()) };
    let heads = all.saturating_sub(bodies);
    writeln!(out, "\n{bodies} body bytes moved + {heads} header bytes moved = {all} total")
}

/// Mean, standard deviation of the whole population, minimum, maximum, as far as they are kept.
#[derive(Clone, Copy, Default)]
struct Row {
    mean: Option<f64>,
    deviation: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

impl Row {
    fn of_moments(moments: &Moments) -> Row {
        let n = moments.count as f64;
        let of_a_sample_to_population = if n > 0.0 { ((n - 1.0) / n).sqrt() } else { 0.0 };
        Row {
            mean: Some(moments.mean()),
            deviation: Some(standard_deviation(moments) * of_a_sample_to_population),
            min: Some(moments.min_or_zero() as f64),
            max: Some(moments.max as f64),
        }
    }

    /// Without a spread of a page's values there is their mean, and perhaps their maximum.
    fn of_page(spread: &Spread, count: u64, sum: u64, max: Option<u64>) -> Row {
        spread.moments(count, sum).map_or_else(
            || Row {
                mean: Some(quotient(sum as f64, count as f64)),
                max: max.map(|max| max as f64),
                ..Row::default()
            },
            |moments| Row::of_moments(&moments),
        )
    }

    fn cells(self, told: impl Fn(f64) -> String) -> String {
        let cell = |value: Option<f64>| value.map_or_else(|| format!("{:>10}", "-"), &told);
        [self.mean, self.deviation, self.min, self.max].map(cell).join("   ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known set with mean 5 and, with the divisor n, standard deviation 2.
    #[test]
    fn the_deviation_is_that_of_the_population() {
        let mut moments = Moments::default();
        [2, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|value| moments.record(value));
        let whole = |moments| Row::of_moments(moments).cells(|value| format!("{value:.9}"));
        assert_eq!(whole(&moments), "5.000000000   2.000000000   2.000000000   9.000000000");
        assert_eq!(whole(&Moments::default()), ["0.000000000"; 4].join("   "));
        let dashes = Row::of_page(&Spread::default(), 2, 6, Some(4)).cells(|value| value.to_string());
        assert_eq!(dashes, "3            -            -   4");
    }
}
