//! Whether a record agrees with itself: everything that it says twice is computed again from what it was counted from
//! and compared. `webstone verify` asks this of records that come from somebody else; to edit a figure, one has to edit
//! every sum, second and distribution that it follows from, too.
//!
//! The identities ([`webstone_measure::identities`]) say that nothing was lost while measuring. What is checked here says that
//! nothing was changed since.

mod parts;
mod server_hosts;
mod slices;
mod spreads;
mod times;

use std::collections::BTreeSet;

use webstone_measure::errors::ErrorClass;
use webstone_measure::identities::{self, Expectation};
use webstone_measure::metrics::{Histogram, Histograms, Measured, Moments, PageTotals};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::connection_identity::{ConnectionRules, of_connections};
use webstone_model::pages::{PageRow, StoredPages};
use webstone_model::record::{IterationRecord, RunRecord, RunState, ScheduleKept, Tool};

/// Two places of a record that cannot both be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Which part of the record: `20 clients, iteration 2`, or `the run`.
    pub place: String,
    /// What must hold, in words.
    pub rule: String,
    /// Both sides with their values.
    pub evidence: String,
}

/// What was compared, and what did not agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consistency {
    /// How many comparisons were made.
    pub checked: usize,
    /// Those that failed, in the order of the record.
    pub contradictions: Vec<Contradiction>,
}

/// Compares everything that a record with its distributions and seconds says more than once.
pub fn check(record: &RunRecord) -> Consistency {
    let mut books = Books { place: "the run".to_owned(), found: Consistency::default() };
    run(&mut books, record);
    times::of_run(&mut books, record);
    let mut stored = StoredPages::default();
    for iteration in &record.iterations {
        books.place = iteration.key().to_string();
        moments(&mut books, &iteration.measured);
        open_loop(&mut books, iteration);
        // One iteration's rows at a time: all of them together may be more than memory holds.
        let rows = record.page_rows(iteration, usize::MAX).unwrap_or_else(|error| {
            books.holds("the rows of pages can be read", false, || error.to_string());
            Vec::new()
        });
        let together = together(&rows);
        pages(&mut books, &iteration.measured, &rows, &together);
        breakdowns(&mut books, &iteration.measured);
        seconds(&mut books, iteration);
        times::of_iteration(&mut books, record, iteration);
        identities_again(&mut books, record, iteration, &together);
        parts::of_iteration(&mut books, record, iteration);
        server_hosts::of_iteration(&mut books, record, iteration);
        if iteration.pages_at.is_some() {
            rows.iter().for_each(|row| stored.add_row(row));
        }
    }
    for (key, void) in record.void_attempts() {
        books.place = format!("{key} (void)");
        times::of_void(&mut books, record, void);
        parts::of_void(&mut books, record, void);
        server_hosts::of_iteration(&mut books, record, void);
    }
    books.place = "the run".to_owned();
    totals(&mut books, &stored.totals, &record.pages.totals);
    books.found
}

/// All pages as one.
fn together(rows: &[PageRow]) -> PageTotals {
    rows.iter().fold(PageTotals::default(), |mut sum, row| {
        sum.merge(&row.totals);
        sum
    })
}

/// The stored sums of pages against the rows of all iterations.
fn totals(books: &mut Books, summed: &[PageTotals], stored: &[PageTotals]) {
    let nothing = PageTotals::default();
    let of = |totals: &[PageTotals], page: usize| totals.get(page).copied().unwrap_or(nothing);
    let pages = summed.len().max(stored.len());
    let wrong = (0..pages).find(|page| of(summed, *page) != of(stored, *page));
    books.holds("pages over the whole run = the sum of their rows", wrong.is_none(), || {
        let page = wrong.unwrap_or_default();
        format!("page {page}: {:?} and {:?}", of(stored, page), of(summed, page))
    });
}

/// Collects the comparisons and their results.
pub(crate) struct Books {
    pub(crate) place: String,
    pub(crate) found: Consistency,
}

impl Books {
    pub(crate) fn holds(&mut self, rule: &str, holds: bool, evidence: impl FnOnce() -> String) {
        self.found.checked += 1;
        if !holds {
            let (place, rule) = (self.place.clone(), rule.to_owned());
            self.found.contradictions.push(Contradiction { place, rule, evidence: evidence() });
        }
    }

    pub(crate) fn equal(&mut self, rule: &str, left: u64, right: u64) {
        self.holds(rule, left == right, || format!("{left} and {right}"));
    }
}

fn run(books: &mut Books, record: &RunRecord) {
    let computed = record.workload.sha256();
    books.holds(
        "the workload's check sum is that of the workload",
        computed == record.workload_sha256,
        || format!("{} and {computed}", record.workload_sha256),
    );
    of_tool(books, &record.tool, record.environment.get("tool"));
    let names: BTreeSet<_> = record.iterations.iter().map(IterationRecord::key).collect();
    books.equal("every iteration is there once", names.len() as u64, record.iterations.len() as u64);
    if record.state == RunState::Complete && record.spec.find.is_none() {
        let load = &record.spec.load;
        let planned = load.levels() as u64 * u64::from(load.iterations);
        books.equal("a complete run has every level × iteration", record.iterations.len() as u64, planned);
    }
    if let Some(find) = &record.spec.find {
        let is_sought = |run: &&IterationRecord| {
            let load = find.over.load(run);
            (find.from..=find.to).contains(&load)
                && (find.clients_at(load), find.rate_at(load)) == (run.clients, run.rate)
        };
        let others = record.iterations.len() - record.iterations.iter().filter(is_sought).count();
        books.equal("every level lies where was searched: others", others as u64, 0);
        return;
    }
    let of_plan =
        record.iterations.iter().filter(|run| !record.spec.load.clients.0.contains(&run.clients)).count();
    books.equal("every level is one that was asked for: others", of_plan as u64, 0);
    let is_asked = |run: &IterationRecord| match (&record.spec.load.rate, run.rate) {
        (Some(rates), Some(rate)) => rates.0.contains(&rate),
        (None, None) => true,
        _ => false,
    };
    let others = record.iterations.iter().filter(|run| !is_asked(run)).count();
    books.equal("every rate is one that was asked for: others", others as u64, 0);
}

/// The program that measured against the environment, which names it as well.
pub(crate) fn of_tool(books: &mut Books, tool: &Tool, fact: Option<&serde_json::Value>) {
    let Some(fact) = fact else { return };
    let agrees =
        [("name", Some(&tool.name)), ("version", Some(&tool.version)), ("commit", tool.commit.as_ref())]
            .into_iter()
            .all(|(name, value)| fact.get(name).and_then(|fact| fact.as_str()) == value.map(String::as_str));
    books.holds("the environment names the program that measured", agrees, || format!("{tool:?} and {fact}"));
}

/// An open loop's sums against its distributions, and how well the schedule was kept against both.
fn open_loop(books: &mut Books, iteration: &IterationRecord) {
    let measured = &iteration.measured;
    let kept = ScheduleKept::of_measured(measured);
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let agrees = match (&iteration.schedule, &kept) {
        (Some(a), Some(b)) => {
            let lags = |kept: &ScheduleKept| (kept.lag_p50_ns, kept.lag_p99_ns, kept.lag_max_ns);
            near(a.asked_rate, b.asked_rate) && near(a.offered_rate, b.offered_rate) && lags(a) == lags(b)
        }
        (a, b) => a.is_none() && b.is_none(),
    };
    books.holds("the schedule was kept as its books say", agrees, || {
        format!("{:?} and {kept:?}", iteration.schedule)
    });
    books.holds(
        "an open loop, and none other, has a rate",
        measured.open_loop.is_some() == iteration.rate.is_some(),
        || format!("{:?}", iteration.rate),
    );
    let Some(open_loop) = &measured.open_loop else { return };
    for (name, moments, histogram) in [
        ("schedule lags", &open_loop.lag, &open_loop.lag_histogram),
        ("uncorrected times to the first byte", &open_loop.first_byte, &open_loop.uncorrected.first_byte),
        ("uncorrected response times", &open_loop.response, &open_loop.uncorrected.response),
        ("uncorrected page times", &open_loop.page, &open_loop.uncorrected.page),
    ] {
        distribution(books, name, moments, histogram);
    }
}

/// Exact sums against the distributions of the same values.
fn moments(books: &mut Books, measured: &Measured) {
    let (histograms, waits) = (&measured.histograms, &measured.unanswered);
    for (name, moments, histogram) in [
        ("connect times", &measured.connect, &histograms.connect),
        ("times to the first byte", &measured.first_byte, &histograms.first_byte),
        ("response times", &measured.response, &histograms.response),
        ("page times", &measured.page, &histograms.page),
        ("waits for a connection", &waits.connect, &waits.histograms.connect),
        ("waits for a first byte", &waits.first_byte, &waits.histograms.first_byte),
        ("waits for a response", &waits.response, &waits.histograms.response),
        ("waits for a page", &waits.page, &waits.histograms.page),
    ] {
        distribution(books, name, moments, histogram);
    }
    for (name, moments) in [
        ("response sizes", &measured.response_bytes),
        ("body sizes", &measured.body_bytes),
        ("waits in flight", &waits.in_flight),
    ] {
        sound(books, name, moments);
    }
    in_flight(books, &waits.in_flight, &waits.response);
    if let Some(handshakes) = &measured.handshakes {
        distribution(books, "TLS handshake times", &handshakes.time, &handshakes.histogram);
    }
}

/// Requests in flight are among those without an answer; where none failed, they are all of them.
fn in_flight(books: &mut Books, in_flight: &Moments, all: &Moments) {
    let are_all = in_flight.count == all.count;
    let is_part = in_flight.sum <= all.sum
        && in_flight.sum_of_squares <= all.sum_of_squares
        && in_flight.max <= all.max
        && in_flight.min >= all.min;
    books.holds(
        "waits in flight are waits for a response",
        if are_all { in_flight == all } else { in_flight.count < all.count && is_part },
        || format!("{in_flight:?} and {all:?}"),
    );
}

/// The sums of some values against their distribution.
pub(crate) fn distribution(books: &mut Books, name: &str, moments: &Moments, histogram: &Histogram) {
    sound(books, name, moments);
    books.equal(&format!("{name}: as many as their distribution holds"), moments.count, histogram.len());
    if moments.count == 0 || histogram.is_empty() {
        return;
    }
    books.equal(&format!("{name}: the longest is their distribution's"), moments.max, histogram.max());
    let lowest =
        histogram.buckets().next().map_or((0, 0), |(low, width, _)| (low, low.saturating_add(width - 1)));
    books.holds(
        &format!("{name}: the shortest lies in their distribution's first bucket"),
        (lowest.0..=lowest.1).contains(&moments.min),
        || format!("{} and {} to {}", moments.min, lowest.0, lowest.1),
    );
    let (sums, squares) = bounds(histogram);
    books.holds(
        &format!("{name}: their sum is one that their distribution allows"),
        sums.0 <= moments.sum.into() && u128::from(moments.sum) <= sums.1,
        || format!("{} and {} to {}", moments.sum, sums.0, sums.1),
    );
    let within = squares.0 <= moments.sum_of_squares && moments.sum_of_squares <= squares.1;
    books.holds(
        &format!("{name}: the sum of their squares is one that their distribution allows"),
        within,
        || format!("{} and {} to {}", moments.sum_of_squares, squares.0, squares.1),
    );
}

/// Least and greatest Σx and Σx² of values that would fill the buckets so.
fn bounds(histogram: &Histogram) -> ((u128, u128), (u128, u128)) {
    let (mut sums, mut squares) = ((0_u128, 0_u128), (0_u128, 0_u128));
    for (low, width, count) in histogram.buckets() {
        // Nothing is longer than the longest, which is exact; the topmost bucket also holds what lies beyond it.
        let high = low.saturating_add(width - 1).min(histogram.max()).max(low);
        let high = if low.saturating_add(width) > TOPMOST { histogram.max().max(high) } else { high };
        let (low, high, count) = (u128::from(low), u128::from(high), u128::from(count));
        sums = (sums.0.saturating_add(low * count), sums.1.saturating_add(high * count));
        squares = (
            squares.0.saturating_add((low * low).saturating_mul(count)),
            squares.1.saturating_add((high * high).saturating_mul(count)),
        );
    }
    (sums, squares)
}

/// Values from here on are counted in the topmost bucket (`docs/measurement.md`, "Percentiles").
const TOPMOST: u64 = (1 << 44) - 1;

/// Moments that some values can have: n·min ≤ Σx ≤ n·max, and (Σx)² ≤ n·Σx² (Cauchy and Schwarz).
fn sound(books: &mut Books, name: &str, moments: &Moments) {
    let Moments { count, sum, sum_of_squares, min, max } = *moments;
    let rule = format!("{name}: count, sum, squares, least and greatest go together");
    let (n, total) = (u128::from(count), u128::from(sum));
    let holds = match count {
        0 => sum == 0 && sum_of_squares == 0 && max == 0,
        _ => {
            min <= max
                && (n * u128::from(min)..=n * u128::from(max)).contains(&total)
                && n.checked_mul(sum_of_squares).is_none_or(|scaled| total * total <= scaled)
        }
    };
    books.holds(&rule, holds, || format!("n {count}, Σ {sum}, Σ² {sum_of_squares}, {min} to {max}"));
}

/// Page by page, and the pages together, against the totals.
fn pages(books: &mut Books, measured: &Measured, rows: &[PageRow], together: &PageTotals) {
    for (rule, pages, total) in [
        ("response times: pages = total", together.response_ns, measured.response.sum),
        ("longest response: pages = total", together.response_ns_max, measured.response.max),
        ("connect times: pages = total", together.connect_ns, measured.connect.sum),
        ("longest connect: pages = total", together.connect_ns_max, measured.connect.max),
        ("page times: pages = total", together.time_ns, measured.page.sum),
        ("longest page: pages = total", together.time_ns_max, measured.page.max),
        ("failed pages: pages = total", together.failed, measured.counts.pages_failed),
        ("body bytes: pages = total", together.body_bytes, measured.body_bytes.sum),
    ] {
        books.equal(rule, pages, total);
    }
    for own in &measured.page_histograms {
        let row = rows.binary_search_by_key(&own.page, |row| row.page);
        let totals = row.map_or_else(|_| PageTotals::default(), |place| rows[place].totals);
        one_page(books, own.page, &totals, &own.histograms);
    }
}

fn one_page(books: &mut Books, number: u32, page: &PageTotals, histograms: &Histograms) {
    for (name, count, sum, max, histogram) in [
        ("response times", page.requests, page.response_ns, page.response_ns_max, &histograms.response),
        ("connect times", page.connects, page.connect_ns, page.connect_ns_max, &histograms.connect),
        ("page times", page.hits, page.time_ns, page.time_ns_max, &histograms.page),
    ] {
        let rule = |what: &str| format!("page {number}, {name}: {what}");
        books.equal(&rule("as many as their distribution holds"), count, histogram.len());
        books.equal(&rule("the longest is their distribution's"), max, histogram.max());
        let (sums, _) = bounds(histogram);
        books.holds(
            &rule("their sum is one that their distribution allows"),
            (sums.0..=sums.1).contains(&sum.into()),
            || format!("{sum} and {} to {}", sums.0, sums.1),
        );
    }
}

/// Counters against each other.
fn breakdowns(books: &mut Books, measured: &Measured) {
    let counts = &measured.counts;
    books.equal("response times: one per success", measured.response.count, counts.succeeded);
    books.equal("response sizes: one per success", measured.response_bytes.count, counts.succeeded);
    books.equal("body sizes: one per success", measured.body_bytes.count, counts.succeeded);
    books.equal("times to the first byte: one per success", measured.first_byte.count, counts.succeeded);
    books.equal("page times: one per page", measured.page.count, counts.pages_completed);
    books.equal("connect times: one per connection", measured.connect.count, counts.connections);
    let answered = [ErrorClass::WrongStatus, ErrorClass::WrongLength, ErrorClass::WrongContent]
        .map(|class| measured.errors.count(class));
    let least = answered.into_iter().fold(counts.succeeded, u64::saturating_add);
    let statuses = measured.statuses.sum();
    if least > 0 || statuses > 0 {
        books.holds(
            "responses by status: at least those counted, at most the requests that ended",
            (least..=counts.ended()).contains(&statuses),
            || format!("{statuses} and {least} to {}", counts.ended()),
        );
    }
    let times = measured.clients.iter().map(|client| client.response_ns).fold(0, u64::saturating_add);
    books.equal("response times: clients = total", times, measured.response.sum);
    spreads::of_clients(books, measured);
    books.holds("first byte before last: Σ", measured.first_byte.sum <= measured.response.sum, || {
        format!("{} and {}", measured.first_byte.sum, measured.response.sum)
    });
}

fn seconds(books: &mut Books, iteration: &IterationRecord) {
    let measured = &iteration.measured;
    let total = measured.seconds.total();
    books.equal("response times: intervals = total", total.response_ns, measured.span_total().response_ns);
    books.holds(
        "longest response: intervals = total",
        if measured.left_out.is_empty() {
            total.response_ns_max == measured.response.max
        } else {
            total.response_ns_max >= measured.response.max
        },
        || format!("{} and {}", total.response_ns_max, measured.response.max),
    );
    slices::of_window(books, iteration);
    let seconds = measured.span_ns().div_ceil(NANOS_PER_SECOND);
    let held = measured.seconds.0.len() as u64;
    books.holds("there are no more seconds than in the window", held <= seconds.max(1), || {
        format!("{held} and {seconds}")
    });
    let (clients, of_level) = (measured.clients.len() as u64, u64::from(iteration.clients));
    // Clients of a lost host are missing.
    let are_all = clients == of_level || iteration.lost.is_some() && clients < of_level;
    books.holds("as many clients as the level has", are_all, || format!("{clients} and {of_level}"));
}

/// The identities, computed again, say what the record says.
fn identities_again(books: &mut Books, record: &RunRecord, iteration: &IterationRecord, pages: &PageTotals) {
    let stored = &iteration.identities;
    let applied = |number: u8| stored.iter().any(|check| check.number == number);
    let sent = iteration.server.as_ref().and_then(|server| server.sent_bytes);
    let mut again = identities::check_with(
        &iteration.measured,
        pages,
        &Expectation {
            clients: identities::clients_there(iteration),
            one_request_each: applied(2),
            server_bytes: sent.filter(|_| applied(4)),
        },
    );
    if applied(5) {
        again.extend(identities::of_parts(iteration));
    }
    let rules = ConnectionRules::of_run(&record.spec, record);
    let clients = identities::clients_there(iteration);
    again.extend(of_connections(&iteration.measured, clients, &rules));
    books.equal("the identities are all there", stored.len() as u64, again.len() as u64);
    for (stored, again) in stored.iter().zip(&again) {
        let rule = format!("identity {} is what its counters give: {}", again.number, again.rule);
        books.holds(&rule, stored == again, || {
            let said = |check: &identities::IdentityCheck| {
                format!("{} ({})", check.evidence, if check.holds { "holds" } else { "broken" })
            };
            format!("{} and {}", said(stored), said(again))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::metrics::{ClientTotals, Counts, PageHistograms, Second, Seconds, Statuses};
    use webstone_model::pages::by_hits;

    /// One client, one page, three requests of 1, 2 and 3 ms.
    pub(super) fn sound_run() -> IterationRecord {
        let mut measured = Measured { window_ns: NANOS_PER_SECOND, ..Measured::default() };
        let mut own = Histograms::default();
        let (mut page, mut client, mut interval) =
            (PageTotals::default(), ClientTotals::default(), Second::default());
        for nanos in [1_000_000_u64, 2_000_000, 3_000_000] {
            for (moments, histogram) in [
                (&mut measured.connect, &mut measured.histograms.connect),
                (&mut measured.first_byte, &mut measured.histograms.first_byte),
                (&mut measured.response, &mut measured.histograms.response),
                (&mut measured.page, &mut measured.histograms.page),
            ] {
                moments.record(nanos);
                histogram.record(nanos);
            }
            own.response.record(nanos);
            own.connect.record(nanos);
            own.page.record(nanos);
            measured.response_bytes.record(600);
            measured.body_bytes.record(500);
            page.merge(&PageTotals {
                hits: 1,
                time_ns: nanos,
                time_ns_max: nanos,
                requests: 1,
                response_ns: nanos,
                response_ns_max: nanos,
                connects: 1,
                connect_ns: nanos,
                connect_ns_max: nanos,
                body_bytes: 500,
                head_bytes: 100,
                ..PageTotals::default()
            });
            client.pages += 1;
            client.requests += 1;
            client.connects += 1;
            client.bytes += 600;
            client.response_ns += nanos;
            interval.merge(&Second {
                requests: 1,
                connections: 1,
                pages: 1,
                bytes: 600,
                response_ns: nanos,
                response_ns_max: nanos,
                ..Second::default()
            });
        }
        measured.counts = Counts {
            planned: 3,
            started: 3,
            succeeded: 3,
            connections: 3,
            connections_answered: 3,
            pages_completed: 3,
            ..Counts::default()
        };
        measured.statuses = Statuses([(200, 3)].into());
        measured.pages = vec![page];
        measured.page_histograms = vec![PageHistograms { page: 0, histograms: own }];
        measured.clients = vec![client];
        measured.seconds = Seconds(vec![interval]);
        let expected = Expectation { clients: 1, one_request_each: false, server_bytes: None };
        let record = webstone_model::fixture::record("a", &[]);
        let mut identities = identities::check(&measured, &expected);
        identities.extend(of_connections(&measured, 1, &ConnectionRules::of_run(&record.spec, &record)));
        IterationRecord { clients: 1, iteration: 1, identities, measured, ..IterationRecord::default() }
    }

    fn rules_broken(change: impl FnOnce(&mut IterationRecord)) -> Vec<String> {
        let mut run = sound_run();
        change(&mut run);
        let record = webstone_model::fixture::record("a", &[]);
        let mut books = Books { place: String::new(), found: Consistency::default() };
        moments(&mut books, &run.measured);
        let rows = by_hits(&run.measured.pages);
        let together = together(&rows);
        pages(&mut books, &run.measured, &rows, &together);
        breakdowns(&mut books, &run.measured);
        seconds(&mut books, &run);
        identities_again(&mut books, &record, &run, &together);
        assert!(books.found.checked > 50, "{}", books.found.checked);
        books.found.contradictions.into_iter().map(|found| found.rule).collect()
    }

    #[test]
    fn what_was_counted_agrees_with_itself() {
        assert_eq!(rules_broken(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn every_number_that_is_changed_contradicts_another() {
        type Change = fn(&mut Measured);
        let changes: [(&str, Change); 17] = [
            ("a faster mean", |m| m.response.sum -= 1_000),
            ("a smaller deviation", |m| m.response.sum_of_squares -= 1 << 40),
            ("a shorter longest", |m| m.response.max -= 1_000_000),
            ("a longer shortest", |m| m.response.min += 100_000),
            ("more successes", |m| m.counts.succeeded += 1),
            ("fewer failures", |m| m.counts.failed += 1),
            ("a status more", |m| *m.statuses.0.entry(404).or_default() += 1),
            ("more connections", |m| m.counts.connections += 1),
            ("more pages", |m| m.counts.pages_completed += 1),
            ("a value fewer in a distribution", |m| m.histograms.page = Histogram::new()),
            ("a page's own distribution", |m| m.page_histograms[0].histograms.response.record(5)),
            ("a page's longest", |m| m.pages[0].response_ns_max = 1),
            ("a page's bytes", |m| m.pages[0].body_bytes += 1),
            ("a client's time", |m| m.clients[0].response_ns += 1),
            ("a second's bytes", |m| m.seconds.0[0].bytes += 1),
            ("seconds beyond the window", |m| m.seconds.0.push(Second::default())),
            ("another client", |m| m.clients.push(ClientTotals::default())),
        ];
        for (what, change) in changes {
            assert!(!rules_broken(|run| change(&mut run.measured)).is_empty(), "{what} was not noticed");
        }
    }

    #[test]
    fn an_identity_that_was_fixed_by_hand_is_noticed() {
        let broken = rules_broken(|run| {
            run.measured.counts.started += 1;
        });
        assert_eq!(
            broken.len(),
            4,
            "both sides of what is started, in requests and in connections: {broken:?}"
        );
        assert_eq!(rules_broken(|run| drop(run.identities.pop())).len(), 1);
        assert_eq!(rules_broken(|run| run.identities[0].holds = false).len(), 1);
    }

    #[test]
    fn moments_that_no_values_have_are_noticed() {
        let broken = |moments: Moments| {
            let mut books = Books { place: String::new(), found: Consistency::default() };
            sound(&mut books, "x", &moments);
            books.found.contradictions.len()
        };
        let mut moments = Moments::default();
        assert_eq!(broken(moments.clone()), 0);
        moments.record(3);
        moments.record(5);
        assert_eq!(broken(moments.clone()), 0);
        assert_eq!(broken(Moments { sum: 11, ..moments.clone() }), 1, "a mean above the greatest");
        assert_eq!(broken(Moments { sum_of_squares: 1, ..moments.clone() }), 1, "a variance below 0");
        assert_eq!(broken(Moments { min: 6, ..moments }), 1);
    }
}
