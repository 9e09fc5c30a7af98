//! The text of WebStone 1.x, as printed in section 7 of the WebStone paper (G. Trent, M. Sake: WebSTONE: The First
//! Generation in HTTP Server Benchmarking, Silicon Graphics, February 1995), with its labels, spelling, order and
//! units, one text for each level and iteration.
//!
//! In the paper `Total bytes of header moved` follows `bytes.` without any space, where all other line ends left one:
//! the program printed both on one line, and so does this.
//!
//! Where the meaning of a label needs a decision:
//! - Times of a page (`Total time`, `Maximum Response time` in a page's block) are page times, from the start of its
//!   first file to the end of its last: in the paper they exceed the run's own `Maximum Response time`, which is that
//!   of a file.
//! - `Maximum time to connect` of a page is the longest single connect; the original added up a page's connects.
//! - `Total amount of data moved` of a page counts bodies without heads, as the paper's numbers do (hits × page size).
//! - `Thruput` is bytes / Σ response time: what one client saw, not what the server delivered.
//! - `connects` are completed retrievals, as WebStone counts them, each of which had a connection of its own; here a kept connection may
//!   have served several.
//! - Dates are UTC; the original printed local time.
//! - Pages that nobody asked for are left out, and where there are more than a reader wants (`--pages`) those with the most
//!   hits are shown, and how many there are besides.

use std::fmt::Write as _;
use std::io;

use webstone_judge::verdict::Verdict;
use webstone_measure::figures::Figures;
use webstone_measure::metrics::PageTotals;
use webstone_model::pages::PageRow;
use webstone_model::record::{IterationRecord, RunRecord};

use crate::ReportError;
use crate::asctime::asctime;
use crate::classic::{banner, client_hosts, one_line, page_size, thruput, timeval};
use crate::judged::Judged;

const RULE: &str = "================================================================================";
const SHORT_RULE: &str = "==================================";

/// One text for each iteration, in the order in which they ran.
pub(crate) fn write(
    judged: &Judged<'_>,
    pages_max: usize,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    let Judged { record, verdict, .. } = judged;
    for run in &record.iterations {
        let rows = record.page_rows(run, pages_max)?;
        let held = run.pages_at.map_or_else(
            || run.measured.pages.iter().filter(|page| **page != PageTotals::default()).count() as u64,
            |place| place.rows,
        );
        let mut text = String::new();
        // Writing to a String cannot fail, so the results are dropped in one place.
        let _ = preamble(&mut text, record, run)
            .and_then(|()| pages(&mut text, record, &rows, held))
            .and_then(|()| totals(&mut text, run, verdict));
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn preamble(out: &mut String, record: &RunRecord, run: &IterationRecord) -> std::fmt::Result {
    let clients = run.clients;
    writeln!(out, "{}", one_line(&record.command_line.join(" ")))?;
    for (host, clients, _) in client_hosts(record, run) {
        writeln!(out, "Client: {host} Number of Clients: {clients}")?;
    }
    writeln!(out, "Waiting for READY from {clients} clients")?;
    writeln!(out, "All READYs received")?;
    writeln!(out, "Sending GO to all clients")?;
    writeln!(out, "All clients started at {}", one_line(&asctime(&run.started_at, 0)))?;
    writeln!(out, "Waiting for clients completion")?;
    writeln!(out, "All clients ended at {}", one_line(&asctime(&run.started_at, run.measured.span_ns())))
}

fn pages(out: &mut String, record: &RunRecord, rows: &[PageRow], held: u64) -> std::fmt::Result {
    for PageRow { page, totals } in rows {
        writeln!(out, "Page # {page}\n{RULE}")?;
        page_block(out, totals, page_size(record, *page as usize, totals).unwrap_or(0))?;
        writeln!(out, "{RULE}")?;
    }
    match held - (rows.len() as u64).min(held) {
        0 => Ok(()),
        1 => writeln!(out, "and 1 more page with fewer hits"),
        more => writeln!(out, "and {more} more pages with fewer hits"),
    }
}

fn page_block(out: &mut String, page: &PageTotals, size: u64) -> std::fmt::Result {
    writeln!(out, "Total number of times page was hit {}", page.hits)?;
    writeln!(out, "Total time {} seconds", timeval(page.time_ns))?;
    writeln!(out, "Maximum Response time {}", timeval(page.time_ns_max))?;
    writeln!(out, "Total connect time for page {}", timeval(page.connect_ns))?;
    writeln!(out, "Maximum time to connect {}", timeval(page.connect_ns_max))?;
    writeln!(out, "Total amount of data moved {}", page.body_bytes)?;
    writeln!(out, "Page size {size}")?;
    writeln!(out, "Total number of connects {}", page.requests)
}

fn totals(out: &mut String, run: &IterationRecord, verdict: &Verdict) -> std::fmt::Result {
    let measured = &run.measured;
    let counts = &measured.counts;
    let figures = Figures::of_measured(measured);
    let all = measured.response_bytes.sum;
    let bodies = measured.body_bytes.sum;
    // Fractions are cut off, as in the paper: 1,278,055,424 bytes over 3,920 connects print as 326034, not 326035.
    let whole = |value: f64| value as u64;
    out.push_str(&banner(run, verdict));
    writeln!(out, "{SHORT_RULE}")?;
    writeln!(out, "WEBSTONE number: {}", figures.webstone_number)?;
    writeln!(out, "Total number of clients: {}", run.clients)?;
    writeln!(out, "Total cumulative time of test for all hosts (sec): {}", timeval(measured.response.sum))?;
    writeln!(out, "Total number of pages retrieved from server: {}", counts.pages_completed)?;
    writeln!(out, "Total number of errors to server: {}", counts.failed)?;
    writeln!(out, "Total number of connects to server: {}", counts.succeeded)?;
    writeln!(out, "Average time per connect: {} seconds", timeval(whole(measured.connect.mean())))?;
    writeln!(out, "Maximum time to connect: {} seconds", timeval(measured.connect.max))?;
    writeln!(out, "Total mount of data moved: {all}")?;
    write!(out, "Total bytes of body moved: {bodies} bytes.")?;
    writeln!(out, "Total bytes of header moved {}", all.saturating_sub(bodies))?;
    writeln!(out, "Average body size: {} bytes.", whole(measured.body_bytes.mean()))?;
    writeln!(out, "Average retrieval size {}", whole(measured.response_bytes.mean()))?;
    writeln!(out, "Thruput = {} bytes/sec", whole(thruput(measured)))?;
    writeln!(out, "Average Response time: {} seconds", timeval(whole(measured.response.mean())))?;
    writeln!(out, "Maximum Response time: {} seconds", timeval(measured.response.max))
}
