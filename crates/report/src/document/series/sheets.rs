//! The tables of a series: ranks, scaling, SPICE, every cell at its peak, and the levels of each.

use crate::document::cell::Cell;
use std::collections::BTreeSet;

use webstone_judge::comparison::RankRange;
use webstone_judge::series::{
    AlarmKind, CellSummary, LevelSummary, Ranked, Ranks, Scaling, ScalingRow, Spice, SpiceRow, Summary,
    USEFUL_JAIN_MIN, USEFUL_LATENCY_S_MAX,
};
use webstone_judge::statistics::{Interval, Method};
use webstone_judge::verdict::Standing;
use webstone_model::series::Kind;

use super::{Report, bounds, law};
use crate::document::Tone;
use crate::document::table::{Room, Rows, Sheet, Table};
use crate::numbers::{count, counted, decimal, seconds, signed};
use crate::text::header::joined;

/// Mindcraft's word for a figure that says nothing about the server.
const NOT_AVAILABLE: &str = "NA";

/// Which part of the report a table belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// What the series was made for.
    Own,
    Cells,
    Other,
}

/// All tables.
pub(super) fn sheets(report: &Report<'_>) -> Vec<Sheet> {
    said_once(parts(report).into_iter().map(|(_, sheet)| sheet).collect())
}

/// A note that several tables have is kept below the first of them.
fn said_once(mut sheets: Vec<Sheet>) -> Vec<Sheet> {
    let mut said = BTreeSet::new();
    for sheet in &mut sheets {
        sheet.notes.retain(|(_, note)| said.insert(note.clone()));
    }
    sheets
}

/// Titles of tables, in a list: each once, with how many there are.
fn listed(titles: &[&str]) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for title in titles {
        match counts.iter_mut().find(|(other, _)| other == title) {
            Some((_, count)) => *count += 1,
            None => counts.push((*title, 1)),
        }
    }
    let name = |(title, count): (&str, usize)| match count {
        1 => crate::text::in_a_list(title),
        _ => format!("{} ({count} tables)", crate::text::in_a_list(title)),
    };
    counts.into_iter().map(name).collect()
}

/// What the default report shows: the tables that the series was made for, or the cells where those are empty; and the names of the
/// other tables. Errors are always shown.
pub(super) fn brief(report: &Report<'_>) -> (Vec<Sheet>, Vec<String>) {
    let all = parts(report);
    let shows_cells =
        all.iter().all(|(part, _)| *part != Part::Own) || report.summary.cells.iter().any(has_errors);
    let (shown, left_out): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(part, _)| *part == Part::Own || (shows_cells && *part == Part::Cells));
    let titles: Vec<&str> = left_out.iter().map(|(_, sheet)| &*sheet.title).collect();
    (said_once(shown.into_iter().map(|(_, sheet)| sheet).collect()), listed(&titles))
}

fn parts(report: &Report<'_>) -> Vec<(Part, Sheet)> {
    let (kind, summary) = (report.series.kind, report.summary);
    let draw = Draw { report, summary };
    let of = |kind: Kind| -> Vec<Sheet> {
        match kind {
            Kind::Servers => summary.ranks.iter().map(|ranks| draw.ranks(ranks)).collect(),
            Kind::Scale => summary.scaling.iter().map(|scaling| draw.scaling(scaling)).collect(),
            Kind::Spice => summary.spice.iter().map(|spice| draw.spice(spice)).collect(),
        }
    };
    // First the tables that the series was made for.
    let mut parts: Vec<(Part, Sheet)> = of(kind).into_iter().map(|sheet| (Part::Own, sheet)).collect();
    let others = [Kind::Servers, Kind::Scale, Kind::Spice].into_iter().filter(|other| *other != kind);
    parts.extend(others.flat_map(of).map(|sheet| (Part::Other, sheet)));
    if summary.cells.iter().any(|cell| cell.peak.is_some()) {
        // A user who varies handshakes asks for it.
        parts.extend(super::handshakes::sheet(report).map(|sheet| (Part::Own, sheet)));
        parts.extend(super::network::sheet(report).map(|sheet| (Part::Own, sheet)));
        parts.extend(draw.origin().map(|sheet| (Part::Other, sheet)));
        parts.push((Part::Other, super::peaks::sheet(report)));
        parts.push((Part::Cells, draw.cells()));
        parts.extend(super::batches::sheet(report).map(|sheet| (Part::Other, sheet)));
        parts.push((Part::Other, draw.levels()));
        parts.extend(super::published::sheet(report).map(|sheet| (Part::Other, sheet)));
    }
    parts
}

fn has_errors(cell: &CellSummary) -> bool {
    cell.levels.iter().any(|level| level.error_level_percent > 0.0)
}

struct Draw<'a> {
    report: &'a Report<'a>,
    summary: &'a Summary,
}

impl Draw<'_> {
    fn cell(&self, place: usize) -> &CellSummary {
        &self.summary.cells[place]
    }

    fn told(&self, cell: &CellSummary) -> Option<String> {
        latency(cell.level(self.summary.clients_told?))
    }

    /// Head of the column that has the latency at a number of clients.
    fn told_unit(&self) -> String {
        self.summary.clients_told.map_or_else(String::new, |clients| format!("at {}", count(clients.into())))
    }

    fn ranks(&self, ranks: &Ranks) -> Sheet {
        let first = ranks.ranked.iter().find(|ranked| ranked.without.is_none());
        let best = first.and_then(|first| self.cell(first.cell).peak_level());
        let peak = |ranked: &Ranked| self.cell(ranked.cell).peak_level();
        let mut table = Table::with_rows(&ranks.ranked);
        table.number("rank", "", Room::Always, |ranked| ranked.rank.map(places));
        table.text("server", Room::Flexible(14), |ranked| self.cell(ranked.cell).at.server.name());
        self.at_peak(&mut table, Room::Always, Room::Optional(3), peak);
        // Of a rate that is only the least, there is no share.
        if let Some(best) = best.filter(|best| !best.is_least) {
            table.number("of the first", "", Room::Optional(5), move |ranked| {
                let level = peak(ranked).filter(|level| ranked.without.is_none() && !level.is_least)?;
                Some(format!("{:.0}%", 100.0 * level.request_rate / best.request_rate))
            });
        }
        table.number("latency", "at peak", Room::Optional(4), |ranked| latency(peak(ranked)));
        table.number("server", "CPU/request", Room::Optional(2), |ranked| cpu(peak(ranked)));
        table.text("", Room::Words, |ranked| self.remarks(ranked.cell));
        table.marks(|ranked| ranked.rank.is_some_and(|rank| rank.worst == 1));
        table.tones(|ranked| tone(self.cell(ranked.cell)));
        let mut sheet = self.with_bounds(Sheet::new("Ranks", ranks.of.as_str(), table.done()));
        if let Some(why) = &ranks.without {
            sheet.notes.push((Tone::Faint, format!("No ranks: {why}.")));
        }
        sheet.notes.extend(self.untold(ranks).map(|text| (Tone::Plain, text)));
        let without: Vec<String> =
            ranks.ranked.iter().filter_map(|ranked| self.without_rank(ranked)).collect();
        if !without.is_empty() {
            sheet.notes.push((Tone::Caution, format!("No rank: {}.", without.join(", "))));
        }
        if ranks.ranked.iter().filter_map(peak).any(|level| level.is_least) {
            let text = "≥: the load generator was the bottleneck. The server can do at least this, which its rank uses; use no other \
                        figure of it.";
            sheet.notes.push((Tone::Caution, text.to_owned()));
        }
        let suites = super::handshakes::suites_differ(self.summary, ranks);
        sheet.notes.extend(suites.map(|text| (Tone::Caution, text)));
        if ranks.without.is_none() {
            let text = "A rank is the range from the best to the worst possible place. Best: 1 + the servers whose \
                        whole 95 % interval lies above this one's rate. Worst: the place, by rate, of the last one from which it does not differ significantly (95 % confidence over all pairs together, \
                        beyond the scatter of iterations).";
            sheet.notes.push((Tone::Faint, text.to_owned()));
        }
        sheet
    }

    /// `nginx (INVALID)`; the reasons are above all tables.
    fn without_rank(&self, ranked: &Ranked) -> Option<String> {
        let why = ranked.without.as_deref()?;
        let cell = self.cell(ranked.cell);
        let doubted = cell.standing.filter(|_| !cell.is_sound());
        Some(format!("{} ({})", cell.at.server.name(), doubted.map_or(why, |standing| standing.word())))
    }

    /// Which servers do not differ significantly, each pair once; `None` where there are no ranks.
    fn untold(&self, ranks: &Ranks) -> Option<String> {
        if ranks.pairs.is_empty() {
            return None;
        }
        let name = |place: usize| self.cell(ranks.ranked[place].cell).at.server.name();
        let of = |place: usize| -> Vec<String> {
            let untold = ranks.pairs.iter().filter(|pair| !pair.differ && pair.first == place);
            untold.map(|pair| name(pair.second)).collect()
        };
        let lists: Vec<String> = (0..ranks.ranked.len())
            .filter_map(|place| Some((place, of(place))).filter(|(_, others)| !others.is_empty()))
            .map(|(place, others)| format!("{} and {}", name(place), others.join(", ")))
            .collect();
        Some(match lists.is_empty() {
            true => "All of them differ significantly.".to_owned(),
            false => format!("No significant difference: {}.", lists.join("; ")),
        })
    }

    /// What a reader has to know before using a cell's figures, in a few words: its standing, its alarms, and the number of its notes.
    fn remarks(&self, place: usize) -> String {
        let cell = self.cell(place);
        let verdict = match cell.standing {
            None => "not measured",
            Some(standing) if !cell.is_sound() => standing.word(),
            Some(_) => "",
        };
        let others = self.remarks_beside_verdict(place);
        [verdict, &others].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
    }

    fn remarks_beside_verdict(&self, place: usize) -> String {
        let mut remarks: Vec<&str> = Vec::new();
        let mut remark = |text: &'static str| {
            if !remarks.contains(&text) {
                remarks.push(text);
            }
        };
        for alarm in self.summary.alarms_of(place) {
            remark(match alarm.kind {
                AlarmKind::Inconclusive => "inconclusive",
                AlarmKind::Superlinear | AlarmKind::FasterThanFiles => "IMPOSSIBLE",
            });
        }
        let mut remarks: Vec<String> = remarks.into_iter().map(str::to_owned).collect();
        let notes = self.report.cell_notes.iter().filter(|note| note.cell == place).count() as u64;
        if notes > 0 {
            remarks.push(counted(notes, "note", "notes"));
        }
        remarks.join(", ")
    }

    fn scaling(&self, scaling: &Scaling) -> Sheet {
        let base = scaling.rows.first().map_or(1, |row| row.cpus);
        let over = format!("over {base} CPU{}", if base == 1 { "" } else { "s" });
        let n = |row: &ScalingRow| f64::from(row.cpus);
        let mut table = Table::with_rows(&scaling.rows);
        table.number("CPUs", "", Room::Always, |row| row.cpus);
        table.number("peak", "requests/s", Room::Always, |row| {
            row.peak_rate.map_or_else(|| NOT_AVAILABLE.to_owned(), |rate| self::rate(rate.point))
        });
        if self.is_noisy() {
            table.number("up to", "", Room::Always, |row| {
                row.peak_rate.and(self.cell(row.cell).peak_level()).and_then(bounds::up_to)
            });
        }
        table.number("95%", "", Room::Optional(6), |row| within(row.peak_rate));
        table.number("clients", "", Room::Optional(2), |row| self.cell(row.cell).peak_level().map(at));
        table.number("more", over, Room::Always, |row| match &row.more_percent {
            Some(more) => Some(with_range(more, true)),
            None => (row.cpus != base).then(|| NOT_AVAILABLE.to_owned()),
        });
        table.number("efficiency", "", Room::Always, |row| {
            row.efficiency_percent.map(|percent| with_range(&percent, false))
        });
        table.number("law", "requests/s", Room::Optional(3), |row| {
            Some(self::rate(scaling.law.as_ref()?.at(n(row))))
        });
        table.number("residual", "", Room::Optional(3), |row| {
            let point = scaling.law.as_ref()?.points.iter().find(|point| point.n == n(row))?;
            Some(format!("{}%", signed(point.residual_percent, 1)))
        });
        table.text("", Room::Words, |row| {
            let shared = !self.cell(row.cell).shared_cpus.is_empty();
            let shared = if shared { "shared CPUs" } else { "" }.to_owned();
            joined([self.remarks(row.cell), shared], ", ")
        });
        table.tones(|row| {
            let (cell, is_alarming) =
                (self.cell(row.cell), self.summary.alarms_of(row.cell).next().is_some());
            match (is_alarming, cell.shared_cpus.is_empty(), tone(cell)) {
                (true, _, _) => Tone::Alarm,
                (false, false, Tone::Plain) => Tone::Caution,
                (false, _, own) => own,
            }
        });
        let mut sheet = self.with_bounds(Sheet::new("Scaling", scaling.of.as_str(), table.done()));
        sheet.notes.extend(self.law(scaling).into_iter().map(|note| (Tone::Faint, note)));
        sheet
    }

    fn law(&self, scaling: &Scaling) -> Vec<String> {
        let mut notes = Vec::new();
        if scaling.rows.iter().any(|row| row.peak_rate.is_none()) {
            notes.push(format!(
                "{NOT_AVAILABLE}: the run is invalid or missing, so the figure would not be the server's; no fit includes it."
            ));
        }
        if scaling.rows.iter().any(|row| !self.cell(row.cell).shared_cpus.is_empty()) {
            notes.push(
                "Where server and generator share CPUs, what the generator takes is missing from the server: it scales better \
                 than it looks. Measure from another host, or on a machine with CPUs to spare."
                    .to_owned(),
            );
        }
        let Some(law) = &scaling.law else {
            notes.extend(scaling.no_law.iter().map(|why| format!("No law: {why}.")));
            return notes;
        };
        notes.extend(law::in_words(law));
        notes
    }

    fn spice(&self, spice: &Spice) -> Sheet {
        let peak = |row: &SpiceRow| self.cell(row.cell).peak_level();
        let efficiency = |row: &SpiceRow, interval: Option<Interval>| {
            let known = interval.map(|it| with_range(&it, false)).unwrap_or_else(|| NOT_AVAILABLE.to_owned());
            self.cell(row.cell).at.is_dynamic().then_some(known)
        };
        let mut table = Table::with_rows(&spice.rows);
        table.text("interface", Room::Distinct(10), |row| interface_of(self.cell(row.cell)));
        self.at_peak(&mut table, Room::Optional(6), Room::Optional(3), peak);
        table.number("efficiency", "at peak", Room::Always, |row| efficiency(row, row.efficiency_percent));
        table.number("", self.told_unit(), Room::Optional(4), |row| {
            efficiency(row, row.efficiency_told_percent)
        });
        table.number("latency", "at peak", Room::Always, |row| latency(peak(row)));
        table.number("", self.told_unit(), Room::Always, |row| self.told(self.cell(row.cell)));
        table.number("useful peak", "requests/s", Room::Optional(2), |row| useful(self.cell(row.cell)));
        table.number("Jain", "", Room::Optional(1), |row| jain(peak(row)));
        table.number("server", "CPU/request", Room::Optional(5), |row| cpu(peak(row)));
        table.text("", Room::Words, |row| self.remarks(row.cell));
        table.tones(|row| match self.summary.alarms_of(row.cell).next() {
            Some(_) => Tone::Alarm,
            None => tone(self.cell(row.cell)),
        });
        let mut sheet = self.with_bounds(Sheet::new("SPICE", spice.of.as_str(), table.done()));
        if spice
            .rows
            .iter()
            .any(|row| self.cell(row.cell).at.is_dynamic() && row.efficiency_percent.is_none())
        {
            sheet.notes.push((
                Tone::Faint,
                format!(
                    "{NOT_AVAILABLE}: the run of the files or of the interface is invalid or not there, so the efficiency would \
                     not be the server's. CPU time per request does not depend on the bottleneck."
                ),
            ));
        }
        sheet.notes.push((Tone::Faint, useful_rule()));
        sheet
    }

    fn cells(&self) -> Sheet {
        let fails = self.summary.cells.iter().any(has_errors);
        let rows: Vec<(usize, &CellSummary)> = self.summary.cells.iter().enumerate().collect();
        let mut table = Table::with_rows(&rows);
        table.text("cell", Room::Distinct(14), |(_, cell)| &cell.name);
        self.at_peak(&mut table, Room::Always, Room::Always, |(_, cell)| cell.peak_level());
        table.number("latency", "at peak", Room::Always, |(_, cell)| latency(cell.peak_level()));
        table.number("", self.told_unit(), Room::Optional(5), |(_, cell)| self.told(cell));
        table.number("latency", "p99, peak", Room::Optional(4), |(_, cell)| {
            cell.peak_level()?.latency_p99_s.map(seconds)
        });
        table.number("useful peak", "requests/s", Room::Optional(2), |(_, cell)| useful(cell));
        table.number("Jain", "", Room::Optional(1), |(_, cell)| jain(cell.peak_level()));
        table.number("errors", "", if fails { Room::Always } else { Room::Optional(3) }, |(_, cell)| {
            cell.peak_level().map(|level| format!("{:.1}%", level.error_level_percent))
        });
        table.number("server", "CPU/request", Room::Optional(6), |(_, cell)| cpu(cell.peak_level()));
        table.text("verdict", Room::Always, |(_, cell)| cell.standing.map(|standing| standing.word()));
        table.text("", Room::Words, |(place, _)| self.remarks_beside_verdict(*place));
        let table = table.tones(|(_, cell)| tone(cell)).done();
        let mut sheet = self.with_bounds(Sheet::new("Cells", "each at the level of its highest rate", table));
        sheet.note(Tone::Faint, useful_rule());
        sheet
    }

    /// What each proxy asked of the server behind it, at its peak; `None` where none of the cells is one.
    fn origin(&self) -> Option<Sheet> {
        let cells = self.summary.cells.iter().enumerate();
        let proxies: Vec<(usize, &CellSummary)> =
            cells.filter(|(_, cell)| cell.levels.iter().any(|it| it.origin.is_some())).collect();
        proxies.first()?;
        let origin = |cell: &CellSummary| cell.peak_level()?.origin;
        let asked = |cell: &CellSummary| origin(cell)?.asked;
        let percent = |value: f64, decimals| format!("{}%", decimal(value, decimals));
        let mut table = Table::with_rows(&proxies);
        table.text("cell", Room::Distinct(14), |(_, cell)| &cell.name);
        table.number("peak", "requests/s", Room::Always, |(_, cell)| {
            cell.peak_level().map(|level| rate(level.request_rate))
        });
        table.number("caching", "% over off", Room::Optional(7), |(_, cell)| {
            self.summary.caching_gain_percent(cell).map(|more| format!("{}%", signed(more, 0)))
        });
        table.number("hits", "", Room::Always, |(_, cell)| Some(percent(asked(cell)?.hit_percent?, 1)));
        table.number("origin", "requests/s", Room::Always, |(_, cell)| {
            asked(cell).map(|asked| rate(asked.origin_request_rate))
        });
        table.number("asked", "per request", Room::Always, |(_, cell)| {
            asked(cell)?.origin_requests_per_request.map(|share| Cell::Decimal(share, 4))
        });
        table.number("saved", "bytes", Room::Always, |(_, cell)| {
            Some(percent(asked(cell)?.saved_percent?, 1))
        });
        table.number("connects", "each asked", Room::Optional(3), |(_, cell)| {
            asked(cell)?.origin_connections_per_request.map(|share| Cell::Decimal(share, 4))
        });
        table.number("proxy", "CPU", Room::Optional(5), |(_, cell)| {
            Some(percent(cell.peak_level()?.server_cpu_percent?, 0))
        });
        table.number("origin", "CPU", Room::Optional(6), |(_, cell)| {
            Some(percent(origin(cell)?.server?.cpu_percent, 0))
        });
        table.text("", Room::Words, |(place, _)| self.remarks(*place));
        let table = table.tones(|(_, cell)| tone(cell)).done();
        let mut sheet =
            Sheet::new("Origin", "what each proxy asked of the server behind it, at its peak", table);
        let text = "Hits: valid answers for which the origin was not asked. CPU: 100 % is one CPU, all of the time. A proxy \
                    is started for each round with an empty cache, which the check of the files and the warm-up fill.";
        sheet.notes.push((Tone::Faint, text.to_owned()));
        Some(sheet)
    }

    fn levels(&self) -> Sheet {
        let of = |cell: &'_ CellSummary| (0..cell.levels.len()).collect::<Vec<_>>();
        let rows: Vec<(&CellSummary, usize)> = (self.summary.cells.iter())
            .flat_map(|cell| of(cell).into_iter().map(move |place| (cell, place)))
            .collect();
        let level = |(cell, place): &(&CellSummary, usize)| cell.levels[*place].clone();
        let mut table = Table::with_rows(&rows);
        table.groups(|(cell, place)| (*place == 0).then(|| cell.name.clone()));
        table.number("clients", "", Room::Always, |row| at(&level(row)));
        table.number("connects", "1/s", Room::Always, |row| rate(level(row).connection_rate));
        table.number("requests", "1/s", Room::Always, |row| rate(level(row).request_rate));
        let is_noisy = bounds::any(self.summary.cells.iter().flat_map(|cell| &cell.levels));
        if is_noisy {
            table.number("up to", "1/s", Room::Always, |row| bounds::up_to(&level(row)));
        }
        table.number("95%", "", Room::Optional(2), |row| within(level(row).request_rate_interval));
        table.number("errors", "1/s", Room::Always, |row| Cell::Decimal(level(row).error_rate, 3));
        table.number("latency", "ms", Room::Always, |row| {
            let latency_s = level(row).latency_mean_s;
            Cell::Decimal(latency_s * 1e3, if latency_s < 0.1 { 3 } else { 1 })
        });
        table.number("throughput", "Mbit/s", Room::Always, |row| {
            Cell::Decimal(level(row).throughput_bps / 1e6, 1)
        });
        table.number("Jain", "", Room::Optional(1), |row| jain(Some(&level(row))));
        if rows.iter().any(|row| level(row).standing > Standing::Sound) {
            table.text("verdict", Room::Optional(3), |row| level(row).standing.word());
        }
        table.marks(|(cell, place)| cell.peak == Some(*place) && cell.levels.len() > 1);
        let sheet =
            Sheet::new("Levels of each cell", "all iterations together; the peak is marked", table.done());
        if is_noisy { bounds::explained(sheet) } else { sheet }
    }

    /// Whether noise may have lowered the peak of any cell: tables of one kind have the same columns.
    fn is_noisy(&self) -> bool {
        bounds::any(self.summary.cells.iter().filter_map(CellSummary::peak_level))
    }

    /// What the bounds are, where there are any.
    fn with_bounds(&self, sheet: Sheet) -> Sheet {
        if self.is_noisy() { bounds::explained(sheet) } else { sheet }
    }

    /// The highest rate, what it may be without noise, its interval, and its load.
    fn at_peak<'a, 'l, T>(
        &self,
        table: &mut Rows<'a, T>,
        interval: Room,
        load: Room,
        peak: impl Fn(&'a T) -> Option<&'l LevelSummary>,
    ) {
        table.number("peak", "requests/s", Room::Always, |row| {
            let level = peak(row)?;
            Some(format!("{}{}", if level.is_least { "≥" } else { "" }, rate(level.request_rate)))
        });
        if self.is_noisy() {
            table.number("up to", "", Room::Always, |row| bounds::up_to(peak(row)?));
        }
        table.number("95%", "", interval, |row| within(peak(row)?.request_rate_interval));
        table.number("clients", "", load, |row| peak(row).map(at));
    }
}

pub(super) fn rate(value: f64) -> String {
    decimal(value, if value < 100.0 { 1 } else { 0 })
}

/// Half of an interval's length, in percent of its point.
fn within(interval: Option<Interval>) -> Option<String> {
    let half = interval.filter(|interval| interval.samples > 1)?.half_width_percent()?;
    Some(format!("±{half:.1}%"))
}

pub(super) fn at(level: &LevelSummary) -> String {
    level.rate.map_or_else(|| count(level.clients.into()), |rate| format!("{rate}/s"))
}

fn latency(level: Option<&LevelSummary>) -> Option<String> {
    level.map(|level| seconds(level.latency_mean_s))
}

fn cpu(level: Option<&LevelSummary>) -> Option<String> {
    level?.server_cpu_per_request_s.map(seconds)
}

fn jain(level: Option<&LevelSummary>) -> Option<Cell> {
    level?.jain_pages.map(|jain| Cell::Decimal(jain, 3))
}

fn useful(cell: &CellSummary) -> Option<String> {
    cell.useful_peak.map(|place| rate(cell.levels[place].request_rate))
}

/// `1–3`, or `2` alone.
fn places(rank: RankRange) -> String {
    match rank.best == rank.worst {
        true => rank.best.to_string(),
        false => format!("{}–{}", rank.best, rank.worst),
    }
}

/// The server's interface, and the workload where that varies.
fn interface_of(cell: &CellSummary) -> String {
    let interface = cell.at.interface.map(|interface| interface.to_string());
    interface.into_iter().chain(cell.at.workload.clone()).collect::<Vec<_>>().join(", ")
}

fn useful_rule() -> String {
    format!(
        "Useful peak: the highest rate at which clients are served equally (Jain's index over their pages, from {USEFUL_JAIN_MIN}) \
         with a mean latency of at most {}.",
        seconds(USEFUL_LATENCY_S_MAX)
    )
}

fn tone(cell: &CellSummary) -> Tone {
    match (cell.counts(), cell.is_sound()) {
        (false, _) => Tone::Alarm,
        (true, false) => Tone::Caution,
        (true, true) => Tone::Plain,
    }
}

/// Decimals that a percentage deserves.
fn decimals(percent: &Interval) -> usize {
    usize::from(percent.point.abs() < 100.0)
}

/// ` (40.8 to 43.3)`, or nothing where there is no interval.
fn range(percent: &Interval) -> String {
    let digits = decimals(percent);
    match percent.method {
        Method::None => String::new(),
        _ => format!(" ({} to {})", decimal(percent.low, digits), decimal(percent.high, digits)),
    }
}

/// `42.0% (40.8 to 43.3)`, with a sign where it is a change.
fn with_range(percent: &Interval, is_change: bool) -> String {
    if !is_change {
        return format!("{}%{}", decimal(percent.point, decimals(percent)), range(percent));
    }
    let ends = match percent.method {
        Method::None => String::new(),
        _ => format!(" ({} to {})", signed(percent.low, 0), signed(percent.high, 0)),
    };
    format!("{}%{ends}", signed(percent.point, 0))
}
