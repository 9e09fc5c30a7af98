//! The tables of a series: ranks, scaling, SPICE, every cell at its peak, and the levels of each.

use std::collections::BTreeSet;

use webstone_judge::comparison::RankRange;
use webstone_judge::series::{
    AlarmKind, CellSummary, LevelSummary, Ranked, Ranks, Scaling, Spice, Summary, USEFUL_JAIN_MIN,
    USEFUL_LATENCY_S_MAX,
};
use webstone_judge::statistics::{Interval, Method};
use webstone_model::series::Kind;

use super::Report;
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{count, counted, decimal, seconds, signed};
use crate::screen::{Screen, Tone};

/// What stands where Mindcraft's tables have it, too: a figure that is not the server's.
const NOT_AVAILABLE: &str = "NA";

/// What a table is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// What the series was made for.
    Own,
    Cells,
    Other,
}

/// All tables.
pub(super) fn sheets(screen: &Screen, report: &Report<'_>) -> Vec<Sheet> {
    said_once(parts(screen, report).into_iter().map(|(_, sheet)| sheet).collect())
}

/// Notes that several tables have stand below the first of them alone.
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

/// What the default report shows of them: what the series was made for, or the cells where nothing came of it; and the names of
/// the others. Errors are always seen.
pub(super) fn brief(screen: &Screen, report: &Report<'_>) -> (Vec<Sheet>, Vec<String>) {
    let all = parts(screen, report);
    let shows_cells =
        all.iter().all(|(part, _)| *part != Part::Own) || report.summary.cells.iter().any(has_errors);
    let (shown, left_out): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(part, _)| *part == Part::Own || (shows_cells && *part == Part::Cells));
    let titles: Vec<&str> = left_out.iter().map(|(_, sheet)| sheet.title).collect();
    (said_once(shown.into_iter().map(|(_, sheet)| sheet).collect()), listed(&titles))
}

fn parts(screen: &Screen, report: &Report<'_>) -> Vec<(Part, Sheet)> {
    let (kind, summary) = (report.series.kind, report.summary);
    let draw = Draw { screen, report, summary, dash: screen.dash() };
    let of = |kind: Kind| -> Vec<Sheet> {
        match kind {
            Kind::Servers => summary.ranks.iter().map(|ranks| draw.ranks(ranks)).collect(),
            Kind::Scale => summary.scaling.iter().map(|scaling| draw.scaling(scaling)).collect(),
            Kind::Spice => summary.spice.iter().map(|spice| draw.spice(spice)).collect(),
        }
    };
    // What the series was made for comes first.
    let mut parts: Vec<(Part, Sheet)> = of(kind).into_iter().map(|sheet| (Part::Own, sheet)).collect();
    let others = [Kind::Servers, Kind::Scale, Kind::Spice].into_iter().filter(|other| *other != kind);
    parts.extend(others.flat_map(of).map(|sheet| (Part::Other, sheet)));
    if summary.cells.iter().any(|cell| cell.peak.is_some()) {
        // It was asked for by whoever has them vary.
        parts.extend(super::handshakes::sheet(screen, report).map(|sheet| (Part::Own, sheet)));
        parts.extend(draw.origin().map(|sheet| (Part::Other, sheet)));
        parts.push((Part::Other, super::peaks::sheet(screen, report)));
        parts.push((Part::Cells, draw.cells()));
        parts.extend(super::batches::sheet(screen, report).map(|sheet| (Part::Other, sheet)));
        parts.push((Part::Other, draw.levels()));
        parts.extend(super::published::sheet(report).map(|sheet| (Part::Other, sheet)));
    }
    parts
}

fn has_errors(cell: &CellSummary) -> bool {
    cell.levels.iter().any(|level| level.error_level_percent > 0.0)
}

struct Draw<'a> {
    screen: &'a Screen,
    report: &'a Report<'a>,
    summary: &'a Summary,
    dash: &'static str,
}

impl Draw<'_> {
    fn cell(&self, place: usize) -> &CellSummary {
        &self.summary.cells[place]
    }

    fn or_dash(&self, text: Option<String>) -> String {
        text.unwrap_or_else(|| self.dash.to_owned())
    }

    fn rate(&self, value: f64) -> String {
        decimal(value, if value < 100.0 { 1 } else { 0 })
    }

    /// Half of an interval's length, in percent of its point.
    fn within(&self, interval: Option<Interval>) -> String {
        let half = interval.filter(|interval| interval.samples > 1).and_then(|i| i.half_width_percent());
        self.or_dash(half.map(|percent| format!("{}{percent:.1}%", self.screen.plus_minus())))
    }

    fn at(&self, level: &LevelSummary) -> String {
        level.rate.map_or_else(|| count(level.clients.into()), |rate| format!("{rate}/s"))
    }

    fn latency(&self, level: Option<&LevelSummary>) -> String {
        self.or_dash(level.map(|level| seconds(self.screen, level.latency_mean_s)))
    }

    fn told(&self, cell: &CellSummary) -> String {
        self.latency(self.summary.clients_told.and_then(|clients| cell.level(clients)))
    }

    /// Head of the column that has the latency at a number of clients.
    fn told_unit(&self) -> String {
        self.summary.clients_told.map_or_else(String::new, |clients| format!("at {}", count(clients.into())))
    }

    fn ranks(&self, ranks: &Ranks) -> Sheet {
        let mut table = Table::default();
        table.number("rank", "", Room::Always).text("server", Room::Flexible(14));
        table.number("peak", "requests/s", Room::Always).number("95%", "", Room::Always);
        table.number("clients", "", Room::Optional(3)).number("of the first", "", Room::Optional(5));
        table.number("latency", "at peak", Room::Optional(4));
        table.number("server", "CPU/request", Room::Optional(2)).text("", Room::Flexible(12));
        let first = ranks.ranked.iter().find(|ranked| ranked.without.is_none());
        let best = first.and_then(|first| self.cell(first.cell).peak_level());
        for ranked in &ranks.ranked {
            let cell = self.cell(ranked.cell);
            let level = cell.peak_level();
            let share =
                |level: &LevelSummary| best.map(|best| 100.0 * level.request_rate / best.request_rate);
            let row = vec![
                self.or_dash(ranked.rank.map(|rank| self.places(rank))),
                cell.at.server.name(),
                self.or_dash(level.map(|level| self.rate(level.request_rate))),
                self.within(level.and_then(|level| level.request_rate_interval)),
                self.or_dash(level.map(|level| self.at(level))),
                self.or_dash(
                    level
                        .filter(|_| ranked.without.is_none())
                        .and_then(share)
                        .map(|share| format!("{share:.0}%")),
                ),
                self.latency(level),
                self.cpu(level),
                self.remarks(ranked.cell),
            ];
            let is_first = ranked.rank.is_some_and(|rank| rank.worst == 1);
            table.row_in(row, tone(cell), is_first);
        }
        let mut sheet = Sheet::new("Ranks", ranks.of.clone(), table);
        if let Some(why) = &ranks.without {
            sheet.notes.push((Tone::Faint, format!("No ranks: {why}.")));
        }
        sheet.notes.extend(self.untold(ranks).map(|text| (Tone::Plain, text)));
        let without: Vec<String> =
            ranks.ranked.iter().filter_map(|ranked| self.without_rank(ranked)).collect();
        if !without.is_empty() {
            sheet.notes.push((Tone::Caution, format!("No rank: {}.", without.join(", "))));
        }
        if ranks.without.is_none() {
            let text = "A rank is the range from the best to the worst possible place. Best: 1 + the servers whose \
                        whole 95 % interval lies above this one's rate. Worst: the place, by rate, of the last one from which it does not differ significantly (95 % confidence over all pairs together, \
                        beyond the scatter of iterations).";
            sheet.notes.push((Tone::Faint, text.to_owned()));
        }
        sheet
    }

    /// `nginx (INVALID)`; its reasons stand above all tables.
    fn without_rank(&self, ranked: &Ranked) -> Option<String> {
        let why = ranked.without.as_deref()?;
        let cell = self.cell(ranked.cell);
        let doubted = cell.standing.filter(|_| !cell.is_sound());
        Some(format!("{} ({})", cell.at.server.name(), doubted.map_or(why, |standing| standing.word())))
    }

    /// `1–3`, or `2` alone.
    fn places(&self, rank: RankRange) -> String {
        match rank.best == rank.worst {
            true => rank.best.to_string(),
            false => format!("{}{}{}", rank.best, self.screen.dash(), rank.worst),
        }
    }

    /// Who cannot be told from whom, each pair once; `None` where there are no ranks.
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

    /// What is to be known of a cell before its figures are used, in a few words: its standing, its alarms, and how many notes
    /// there are on it.
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

    fn cpu(&self, level: Option<&LevelSummary>) -> String {
        self.or_dash(
            level.and_then(|level| level.server_cpu_per_request_s).map(|value| seconds(self.screen, value)),
        )
    }

    fn scaling(&self, scaling: &Scaling) -> Sheet {
        let mut table = Table::default();
        let base = scaling.rows.first().map_or(1, |row| row.cpus);
        let over = format!("over {base} CPU{}", if base == 1 { "" } else { "s" });
        table.number("CPUs", "", Room::Always).number("peak", "requests/s", Room::Always);
        table.number("95%", "", Room::Optional(6)).number("clients", "", Room::Optional(2));
        table.number("more", &over, Room::Always).number("efficiency", "", Room::Always);
        table.number("law", "requests/s", Room::Optional(3)).number("residual", "", Room::Optional(3));
        table.text("", Room::Flexible(12));
        for row in &scaling.rows {
            let cell = self.cell(row.cell);
            let more = row.more_percent;
            let n = f64::from(row.cpus);
            let law = scaling.law.as_ref().map(|law| self.rate(law.at(n)));
            let point = scaling.law.as_ref().and_then(|law| law.points.iter().find(|point| point.n == n));
            let missing = |is_there: bool| if is_there { self.dash } else { NOT_AVAILABLE }.to_owned();
            let mut remarks = vec![self.remarks(row.cell)];
            if !cell.shared_cpus.is_empty() {
                remarks.push("shared CPUs".to_owned());
            }
            remarks.retain(|remark| !remark.is_empty());
            let line = vec![
                count(row.cpus.into()),
                row.peak_rate.map_or_else(|| NOT_AVAILABLE.to_owned(), |rate| self.rate(rate.point)),
                self.within(row.peak_rate),
                self.or_dash(cell.peak_level().map(|level| self.at(level))),
                more.map_or_else(|| missing(row.cpus == base), |more| with_range(&more, true)),
                self.or_dash(row.efficiency_percent.map(|percent| with_range(&percent, false))),
                self.or_dash(law),
                self.or_dash(point.map(|point| format!("{}%", signed(point.residual_percent, 1)))),
                remarks.join(", "),
            ];
            let is_alarming = self.summary.alarms_of(row.cell).next().is_some();
            let tone = match (is_alarming, cell.shared_cpus.is_empty(), tone(cell)) {
                (true, _, _) => Tone::Alarm,
                (false, false, Tone::Plain) => Tone::Caution,
                (false, _, own) => own,
            };
            table.row_in(line, tone, false);
        }
        let mut sheet = Sheet::new("Scaling", scaling.of.clone(), table);
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
        let peak = match law.peak_n {
            Some(n) => format!("most at {n:.1} CPUs, {} requests/s", self.rate(law.at(n))),
            None if law.alpha > 0.0 => {
                format!("rising towards {} requests/s, never falling", self.rate(law.lambda / law.alpha))
            }
            None => "rising without limit".to_owned(),
        };
        notes.push(format!(
            "Universal Scalability Law: one CPU {} requests/s, contention {:.4}, coherency {:.6}; {peak}.",
            self.rate(law.lambda),
            law.alpha,
            law.beta
        ));
        notes.push(match law.degrees_of_freedom {
            0 => "Three points determine three coefficients: a perfect fit shows nothing.".to_owned(),
            _ => format!("Largest residual {:.1} %.", law.residual_percent_max()),
        });
        notes
    }

    fn spice(&self, spice: &Spice) -> Sheet {
        let mut table = Table::default();
        table.text("interface", Room::Distinct(10)).number("peak", "requests/s", Room::Always);
        table.number("95%", "", Room::Optional(6)).number("clients", "", Room::Optional(3));
        table.number("efficiency", "at peak", Room::Always);
        table.number("", &self.told_unit(), Room::Optional(4));
        table.number("latency", "at peak", Room::Always).number("", &self.told_unit(), Room::Always);
        table.number("useful peak", "requests/s", Room::Optional(2)).number("Jain", "", Room::Optional(1));
        table.number("server", "CPU/request", Room::Optional(5)).text("", Room::Flexible(12));
        for row in &spice.rows {
            let cell = self.cell(row.cell);
            let level = cell.peak_level();
            let useful = cell.useful_peak.map(|place| self.rate(cell.levels[place].request_rate));
            let efficiency = |interval: Option<Interval>| match interval {
                _ if !cell.at.is_dynamic() => self.dash.to_owned(),
                Some(interval) => with_range(&interval, false),
                None => NOT_AVAILABLE.to_owned(),
            };
            let line = vec![
                interface_of(cell),
                self.or_dash(level.map(|level| self.rate(level.request_rate))),
                self.within(level.and_then(|level| level.request_rate_interval)),
                self.or_dash(level.map(|level| self.at(level))),
                efficiency(row.efficiency_percent),
                efficiency(row.efficiency_told_percent),
                self.latency(level),
                self.told(cell),
                self.or_dash(useful),
                self.or_dash(level.and_then(|level| level.jain_pages).map(|jain| format!("{jain:.3}"))),
                self.cpu(level),
                self.remarks(row.cell),
            ];
            let is_alarming = self.summary.alarms_of(row.cell).next().is_some();
            table.row_in(line, if is_alarming { Tone::Alarm } else { tone(cell) }, false);
        }
        let mut sheet = Sheet::new("SPICE", spice.of.clone(), table);
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
        sheet.notes.push((Tone::Faint, useful_rule(self.screen)));
        sheet
    }

    fn cells(&self) -> Sheet {
        let mut table = Table::default();
        table.text("cell", Room::Distinct(14)).number("peak", "requests/s", Room::Always);
        table.number("95%", "", Room::Always).number("clients", "", Room::Always);
        table.number("latency", "at peak", Room::Always).number("", &self.told_unit(), Room::Optional(5));
        table.number("latency", "p99, peak", Room::Optional(4));
        table.number("useful peak", "requests/s", Room::Optional(2)).number("Jain", "", Room::Optional(1));
        let fails = self.summary.cells.iter().any(has_errors);
        table.number("errors", "", if fails { Room::Always } else { Room::Optional(3) });
        table.number("server", "CPU/request", Room::Optional(6)).text("verdict", Room::Always);
        table.text("", Room::Flexible(12));
        for (place, cell) in self.summary.cells.iter().enumerate() {
            let level = cell.peak_level();
            let useful = cell.useful_peak.map(|place| self.rate(cell.levels[place].request_rate));
            let line = vec![
                cell.name.clone(),
                self.or_dash(level.map(|level| self.rate(level.request_rate))),
                self.within(level.and_then(|level| level.request_rate_interval)),
                self.or_dash(level.map(|level| self.at(level))),
                self.latency(level),
                self.told(cell),
                self.or_dash(
                    level.and_then(|level| level.latency_p99_s).map(|p99| seconds(self.screen, p99)),
                ),
                self.or_dash(useful),
                self.or_dash(level.and_then(|level| level.jain_pages).map(|jain| format!("{jain:.3}"))),
                self.or_dash(level.map(|level| format!("{:.1}%", level.error_level_percent))),
                self.cpu(level),
                self.or_dash(cell.standing.map(|standing| standing.word().to_owned())),
                self.remarks_beside_verdict(place),
            ];
            table.row_in(line, tone(cell), false);
        }
        let mut sheet = Sheet::new("Cells", "each at the level of its highest rate", table);
        sheet.notes.push((Tone::Faint, useful_rule(self.screen)));
        sheet
    }

    /// What each proxy asked of the server behind it, at its peak; `None` where none of the cells is one.
    fn origin(&self) -> Option<Sheet> {
        let cells = || self.summary.cells.iter().enumerate();
        let proxies = || cells().filter(|(_, cell)| cell.levels.iter().any(|it| it.origin.is_some()));
        proxies().next()?;
        let mut table = Table::default();
        table.text("cell", Room::Distinct(14)).number("peak", "requests/s", Room::Always);
        table.number("caching", "% over off", Room::Optional(7)).number("hits", "", Room::Always);
        table.number("origin", "requests/s", Room::Always).number("asked", "per request", Room::Always);
        table.number("saved", "bytes", Room::Always).number("connects", "each asked", Room::Optional(3));
        table.number("proxy", "CPU", Room::Optional(5)).number("origin", "CPU", Room::Optional(6));
        table.text("", Room::Flexible(12));
        let percent = |value: Option<f64>, decimals| {
            self.or_dash(value.map(|value| format!("{}%", decimal(value, decimals))))
        };
        let share = |value: Option<f64>| self.or_dash(value.map(|value| decimal(value, 4)));
        for (place, cell) in proxies() {
            let level = cell.peak_level();
            let origin = level.and_then(|level| level.origin);
            let asked = origin.and_then(|origin| origin.asked);
            let line = vec![
                cell.name.clone(),
                self.or_dash(level.map(|level| self.rate(level.request_rate))),
                self.or_dash(
                    self.summary.caching_gain_percent(cell).map(|more| format!("{}%", signed(more, 0))),
                ),
                percent(asked.and_then(|asked| asked.hit_percent), 1),
                self.or_dash(asked.map(|asked| self.rate(asked.origin_request_rate))),
                share(asked.and_then(|asked| asked.origin_requests_per_request)),
                percent(asked.and_then(|asked| asked.saved_percent), 1),
                share(asked.and_then(|asked| asked.origin_connections_per_request)),
                percent(level.and_then(|level| level.server_cpu_percent), 0),
                percent(origin.and_then(|origin| origin.server).map(|server| server.cpu_percent), 0),
                self.remarks(place),
            ];
            table.row_in(line, tone(cell), false);
        }
        let mut sheet =
            Sheet::new("Origin", "what each proxy asked of the server behind it, at its peak", table);
        let text = "Hits: valid answers for which the origin was not asked. CPU: 100 % is one CPU, all of the time. A proxy \
                    is started for each round with an empty cache, which the check of the files and the warm-up fill.";
        sheet.notes.push((Tone::Faint, text.to_owned()));
        Some(sheet)
    }

    fn levels(&self) -> Sheet {
        let mut table = Table::default();
        table.number("clients", "", Room::Always).number("connects", "1/s", Room::Always);
        table.number("requests", "1/s", Room::Always).number("95%", "", Room::Optional(2));
        table.number("errors", "1/s", Room::Always).number("latency", "ms", Room::Always);
        table.number("throughput", "Mbit/s", Room::Always).number("Jain", "", Room::Optional(1));
        for cell in self.summary.cells.iter().filter(|cell| !cell.levels.is_empty()) {
            table.group(&cell.name);
            for (place, level) in cell.levels.iter().enumerate() {
                let line = vec![
                    self.at(level),
                    self.rate(level.connection_rate),
                    self.rate(level.request_rate),
                    self.within(level.request_rate_interval),
                    decimal(level.error_rate, 3),
                    decimal(level.latency_mean_s * 1e3, if level.latency_mean_s < 0.1 { 3 } else { 1 }),
                    decimal(level.throughput_bps / 1e6, 1),
                    self.or_dash(level.jain_pages.map(|jain| format!("{jain:.3}"))),
                ];
                table.row_in(line, Tone::Plain, cell.peak == Some(place) && cell.levels.len() > 1);
            }
        }
        Sheet::new("Levels of each cell", "all iterations together; the peak is marked", table)
    }
}

/// What answers, and what it is asked for where that varies.
fn interface_of(cell: &CellSummary) -> String {
    let interface = cell.at.interface.map(|interface| interface.to_string());
    interface.into_iter().chain(cell.at.workload.clone()).collect::<Vec<_>>().join(", ")
}

fn useful_rule(screen: &Screen) -> String {
    format!(
        "Useful peak: the highest rate at which clients are served equally (Jain's index over their pages, from {USEFUL_JAIN_MIN}) \
         with a mean latency of at most {}.",
        seconds(screen, USEFUL_LATENCY_S_MAX)
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

/// For a chart: of every group, its name and peak rates over CPUs with their intervals.
pub(crate) fn scaling_lines(summary: &Summary) -> Vec<(&Scaling, Vec<(f64, Interval)>)> {
    let points = |scaling: &Scaling| -> Vec<(f64, Interval)> {
        scaling.rows.iter().filter_map(|row| Some((f64::from(row.cpus), row.peak_rate?))).collect()
    };
    summary
        .scaling
        .iter()
        .map(|scaling| (scaling, points(scaling)))
        .filter(|(_, points)| !points.is_empty())
        .collect()
}

/// For a chart: of every interface, its name and efficiency.
pub(crate) fn efficiency_lines(summary: &Summary) -> Vec<(String, Interval)> {
    let rows = summary.spice.iter().flat_map(|spice| &spice.rows);
    rows.filter_map(|row| {
        let cell = &summary.cells[row.cell];
        let efficiency = row.efficiency_percent.filter(|_| cell.at.is_dynamic())?;
        Some((format!("{}, {}", cell.at.server.name(), row.interface), efficiency))
    })
    .collect()
}
