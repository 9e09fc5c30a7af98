//! What plan and records say together, on records whose every number is known.

use webstone_measure::units::Nanos;
use webstone_model::record::Tool;
use webstone_model::series::{Kind, Matrix, SERIES_SCHEMA};
use webstone_model::spec::RunSpec;

use super::*;
use crate::statistics::Interval;
use webstone_model::fixture;
use webstone_model::record::RunRecord;
use webstone_model::spec::{Levels, Software};

/// A series of this matrix, and for each cell a record with these request rates: a list per level, a number per iteration.
fn series(matrix: &str, clients: &[u32], rates: &[&[&[u64]]]) -> (Series, Vec<Option<RunRecord>>) {
    let matrix: Matrix = toml::from_str(matrix).unwrap();
    let mut base = RunSpec::default();
    base.load.clients = Levels(clients.to_vec());
    base.load.iterations = rates[0][0].len() as u32;
    let cells = matrix.cells(&base).unwrap();
    let records = cells.iter().zip(rates).map(|(cell, levels)| Some(record(cell, clients, levels))).collect();
    let series = Series {
        schema: SERIES_SCHEMA,
        id: "series".into(),
        kind: Kind::Servers,
        tool: Tool::default(),
        started_at: String::new(),
        command_line: Vec::new(),
        rounds: base.load.iterations,
        warnings: Vec::new(),
        without_secrets: false,
        cells,
    };
    (series, records)
}

fn record(cell: &Cell, clients: &[u32], levels: &[&[u64]]) -> RunRecord {
    let rates: Vec<Vec<f64>> =
        levels.iter().map(|rates| rates.iter().map(|rate| *rate as f64).collect()).collect();
    let levels: Vec<(u32, &[f64])> = clients.iter().copied().zip(rates.iter().map(Vec::as_slice)).collect();
    RunRecord { spec: cell.spec.clone(), ..fixture::record(&cell.name, &levels) }
}

/// Mindcraft's NetServer LT 6000r, tables 1 to 3: what was printed follows from the rates that were printed.
#[test]
fn scaling_tables_are_those_that_mindcraft_printed() {
    let tables: [(&[u64], &[i64]); 4] = [
        (&[3570, 4842, 7010], &[36, 96]),
        (&[634, 920, 1369, 1688], &[45, 116, 166]),
        (&[1271, 1854, 2136, 3238], &[46, 68, 155]),
        (&[1409, 2183, 3389, 4275], &[55, 141, 203]),
    ];
    for (rates, printed) in tables {
        let matrix = format!("servers = ['nginx']\ncpus = {:?}", &[1, 2, 4, 6][..rates.len()]);
        let cells: Vec<[&[u64]; 1]> = rates.chunks(1).map(|rate| [rate]).collect();
        let cells: Vec<&[&[u64]]> = cells.iter().map(|cell| cell.as_slice()).collect();
        let (series, records) = series(&matrix, &[60], &cells);
        let summary = Summary::of_series(&series, &records);
        assert_eq!((summary.scaling.len(), summary.ranks.len(), summary.spice.len()), (1, 0, 0));
        let rows = &summary.scaling[0].rows;
        let more: Vec<i64> =
            rows.iter().filter_map(|row| Some(row.more_percent?.point.round() as i64)).collect();
        assert_eq!(more, printed);
        assert_eq!((rows[0].more_percent, rows[0].efficiency_percent), (None, Some(Interval::bare(100.0))));
        assert!(summary.scaling[0].law.is_some());
    }
}

#[test]
fn two_numbers_of_cpus_have_a_table_and_no_law() {
    let (series, records) =
        series("servers = ['nginx']\ncpus = [2, 1]", &[5], &[&[&[1500, 1520, 1480]], &[&[1000, 1010, 990]]]);
    let summary = Summary::of_series(&series, &records);
    let scaling = &summary.scaling[0];
    assert_eq!(scaling.rows.iter().map(|row| row.cpus).collect::<Vec<_>>(), [1, 2], "in ascending order");
    let more = scaling.rows[1].more_percent.unwrap();
    assert!((more.point - 50.0).abs() < 1e-9 && more.low < 50.0 && more.high > 50.0, "{more:?}");
    let efficiency = scaling.rows[1].efficiency_percent.unwrap();
    assert!((efficiency.point - 75.0).abs() < 1e-9 && efficiency.low < 75.0 && efficiency.high > 75.0);
    assert_eq!(efficiency.high - efficiency.low, (more.high - more.low) / 2.0, "half of it: two CPUs");
    assert!(scaling.no_law.as_ref().unwrap().contains("3 numbers of CPUs or more"), "{scaling:?}");
}

#[test]
fn servers_are_ranked_at_their_peaks_and_alike_cells_only() {
    let (series, records) = series(
        "servers = ['nginx', 'apache', 'caddy']\nconnections = ['per-request', 'keep-alive']",
        &[5, 10],
        &[
            &[&[900, 905, 895], &[1000, 1010, 990]],
            &[&[3000, 3010, 2990], &[2900, 2910, 2890]],
            &[&[1001, 1011, 991], &[500, 505, 495]],
            &[&[1500, 1510, 1490], &[1400, 1410, 1390]],
            &[&[2000, 2010, 1990], &[100, 101, 99]],
            &[&[3001, 3011, 2991], &[2900, 2910, 2890]],
        ],
    );
    let summary = Summary::of_series(&series, &records);
    assert_eq!(summary.ranks.len(), 2);
    let ranks: Vec<Vec<(String, Places)>> = summary
        .ranks
        .iter()
        .map(|ranks| {
            let of = |ranked: &Ranked| (summary.cells[ranked.cell].at.server.name(), places(ranked));
            ranks.ranked.iter().map(of).collect()
        })
        .collect();
    let named = |list: &[(&str, (u32, u32))]| -> Vec<(String, Places)> {
        list.iter().map(|(name, rank)| ((*name).to_owned(), Some(*rank))).collect()
    };
    let of: Vec<&str> = summary.ranks.iter().map(|ranks| ranks.of.as_str()).collect();
    assert_eq!(of, ["standard, per-request", "standard, keep-alive"]);
    assert_eq!(ranks[0], named(&[("caddy", (1, 1)), ("apache", (2, 3)), ("nginx", (2, 3))]));
    assert_eq!(ranks[1], named(&[("caddy", (1, 2)), ("nginx", (1, 2)), ("apache", (3, 3))]));
    let untold: Vec<&[usize]> = summary.ranks[0].ranked.iter().map(|it| &*it.not_told_from).collect();
    assert_eq!(untold, [&[][..], &[0], &[2]], "by cell: apache and nginx");
    assert_eq!(summary.cells[0].peak_level().unwrap().clients, 10);
    assert_eq!(summary.clients_told, Some(10), "60 is no level of theirs");
    assert_eq!((summary.iterations_done, summary.iterations_planned), (36, 36));
}

/// Best and worst place.
type Places = Option<(u32, u32)>;

fn places(ranked: &Ranked) -> Places {
    ranked.rank.map(|rank| (rank.best, rank.worst))
}

#[test]
fn an_interval_wider_than_its_rate_has_no_rank_and_says_so() {
    let (series, records) = series(
        "servers = ['nginx', 'apache', 'caddy']",
        &[5],
        &[&[&[23, 117, 18_000]], &[&[2000, 2010, 1990]], &[&[500, 505, 495]]],
    );
    let summary = Summary::of_series(&series, &records);
    let ranked = &summary.ranks[0].ranked;
    assert_eq!(ranked.iter().map(places).collect::<Vec<_>>(), [Some((1, 1)), Some((2, 2)), None]);
    let without = ranked[2].without.as_deref().unwrap();
    assert!(
        without.starts_with("INCONCLUSIVE: ") && without.contains("nothing can be concluded"),
        "{without}"
    );
    assert!(!summary.cells[0].counts());
}

/// Two CPUs that do 65 times the work of one, as it looked because the base had waited for its CPU.
#[test]
fn more_than_the_cpus_can_do_is_an_alarm_that_names_the_base() {
    let of = |two: [u64; 3]| {
        let (series, records) =
            series("servers = ['nginx']\ncpus = [1, 2]", &[5], &[&[&[300, 303, 297]], &[&two]]);
        Summary::of_series(&series, &records)
    };
    let summary = of([19_593, 19_700, 19_486]);
    let [alarm] = &summary.alarms[..] else { panic!("{:?}", summary.alarms) };
    assert_eq!((alarm.cell, alarm.kind), (1, AlarmKind::Superlinear));
    let start = "nginx-2cpu: an efficiency of 3266 % (";
    assert!(alarm.sentence.starts_with(start), "{}", alarm.sentence);
    assert!(alarm.sentence.contains("Most likely its baseline, nginx-1cpu"), "{}", alarm.sentence);
    // Twice the work is what two CPUs can do, and a little more is what noise can do.
    for two in [[600, 606, 594], [602, 608, 596], [300, 303, 297]] {
        assert_eq!(of(two).alarms, []);
    }
    // Nothing can be concluded about the scaling, though each rate is known well enough to be one.
    let summary = of([718, 482, 600]);
    assert!(summary.cells.iter().all(CellSummary::is_sound));
    let kinds: Vec<AlarmKind> = summary.alarms.iter().map(|alarm| alarm.kind).collect();
    assert_eq!(kinds, [AlarmKind::Inconclusive], "{:?}", summary.alarms);
    // Where a verdict says so already, it is not said again.
    let summary = of([4000, 600, 1400]);
    assert!(!summary.cells[1].is_sound() && summary.alarms.is_empty(), "{:?}", summary.alarms);
}

#[test]
fn one_iteration_is_no_excuse_for_what_cannot_be() {
    let of = |two: u64| {
        let (series, records) = series("servers = ['nginx']\ncpus = [1, 2]", &[5], &[&[&[1000]], &[&[two]]]);
        Summary::of_series(&series, &records).alarms
    };
    assert_eq!((of(2100), of(2190)), (vec![], vec![]));
    assert_eq!(of(2300)[0].kind, AlarmKind::Superlinear);
}

#[test]
fn programs_faster_than_files_are_an_alarm() {
    let (series, records) = series(
        "servers = ['nginx']\ninterfaces = ['static', 'cgi', 'fastcgi']",
        &[10, 60],
        &[
            &[&[1000, 1010, 990], &[900, 909, 891]],
            &[&[1003, 1013, 993], &[905, 914, 896]],
            &[&[990, 999, 981], &[1500, 1515, 1485]],
        ],
    );
    let summary = Summary::of_series(&series, &records);
    let [alarm] = &summary.alarms[..] else { panic!("{:?}", summary.alarms) };
    assert_eq!((alarm.cell, alarm.kind), (2, AlarmKind::FasterThanFiles));
    assert!(
        alarm.sentence.contains("150 % (") && alarm.sentence.contains("nginx-static"),
        "{}",
        alarm.sentence
    );
}

#[test]
fn what_is_invalid_or_missing_has_no_rank_and_is_in_no_table() {
    let (series, mut records) = series(
        "servers = ['nginx', 'apache', 'caddy', 'lighttpd']",
        &[5],
        &[&[&[1000, 1010, 990]], &[&[2000, 2010, 1990]], &[&[500, 505, 495]], &[&[500, 505, 495]]],
    );
    records[1].as_mut().unwrap().iterations.pop();
    records[3] = None;
    let summary = Summary::of_series(&series, &records);
    let ranks: Vec<Places> = summary.ranks[0].ranked.iter().map(places).collect();
    assert_eq!(ranks, [Some((1, 1)), Some((2, 2)), None, None]);
    let why: Vec<Option<&str>> = summary.ranks[0].ranked.iter().map(|it| it.without.as_deref()).collect();
    assert!(why[2].unwrap().starts_with("INVALID: ") && why[3] == Some("not measured"), "{why:?}");
    assert!(!summary.cells[1].counts() && !summary.cells[1].reasons.is_empty(), "an iteration is missing");
    assert_eq!((summary.iterations_done, summary.iterations_planned), (8, 12));
    assert_eq!(summary.cells[3].record, None);
}

#[test]
fn one_iteration_has_no_ranks_and_says_why() {
    let (series, records) = series("servers = ['nginx', 'apache']", &[5], &[&[&[1000]], &[&[2000]]]);
    let ranks = &Summary::of_series(&series, &records).ranks[0];
    assert_eq!(ranks.without.as_deref(), Some("ranks need 3 or more iterations of each (-i); this has 1"));
    assert!(ranks.ranked.iter().all(|ranked| ranked.rank.is_none()));
}

#[test]
fn efficiency_is_the_rate_through_an_interface_over_that_of_files() {
    let (mut series, records) = series(
        "servers = ['nginx']\ninterfaces = ['static', 'cgi', 'fastcgi']",
        &[10, 60],
        &[&[&[3570], &[3000]], &[&[357], &[300]], &[&[1271], &[1500]]],
    );
    series.kind = Kind::Spice;
    let summary = Summary::of_series(&series, &records);
    let rows = &summary.spice[0].rows;
    assert_eq!(rows.iter().map(|row| row.interface.name()).collect::<Vec<_>>(), ["static", "cgi", "fastcgi"]);
    let percent =
        |interval: Option<crate::statistics::Interval>| (interval.unwrap().point * 10.0).round() / 10.0;
    assert_eq!((percent(rows[1].efficiency_percent), percent(rows[1].efficiency_told_percent)), (10.0, 10.0));
    assert_eq!((percent(rows[2].efficiency_percent), percent(rows[2].efficiency_told_percent)), (42.0, 50.0));
    assert_eq!(summary.clients_told, Some(60));
}

/// The generator as the bottleneck of a level.
fn saturated(record: &mut Option<RunRecord>, clients: u32) {
    for run in record.as_mut().unwrap().iterations.iter_mut().filter(|run| run.clients == clients) {
        run.measured.generator.workers[0].system_ns = run.measured.window_ns;
    }
}

#[test]
fn no_quotient_uses_a_level_that_is_invalid() {
    let (series, mut records) = series(
        "servers = ['nginx']\ninterfaces = ['static', 'cgi', 'fastcgi']",
        &[10, 60],
        &[&[&[3570], &[3000]], &[&[357], &[300]], &[&[1271], &[1200]]],
    );
    saturated(&mut records[0], 60);
    let summary = Summary::of_series(&series, &records);
    assert_eq!((summary.clients_told, summary.cells[0].counts()), (Some(60), true));
    let rows = &summary.spice[0].rows;
    assert!(rows.iter().all(|row| row.efficiency_percent.is_some() && row.efficiency_told_percent.is_none()));
}

#[test]
fn a_peak_that_the_generator_did_not_reach_is_not_that_of_fewer_clients() {
    let (series, mut records) = series(
        "servers = ['nginx', 'apache']\ncpus = [1, 2]",
        &[5, 60],
        &[
            &[&[1000, 1010, 990], &[1500, 1510, 1490]],
            &[&[1000, 1010, 990], &[2500, 2510, 2490]],
            &[&[900, 905, 895], &[800, 810, 790]],
            &[&[1200, 1210, 1190], &[1100, 1110, 1090]],
        ],
    );
    saturated(&mut records[1], 60);
    // Beyond the peak, it hides nothing.
    saturated(&mut records[3], 60);
    let summary = Summary::of_series(&series, &records);
    let peaks: Vec<(u32, bool)> =
        summary.cells.iter().map(|cell| (cell.peak_level().unwrap().clients, cell.counts())).collect();
    assert_eq!(peaks, [(60, true), (60, false), (5, true), (5, true)]);
    let efficiency = |scaling: &Scaling| scaling.rows[1].efficiency_percent.is_some();
    assert_eq!(summary.scaling.iter().map(efficiency).collect::<Vec<_>>(), [false, true]);
    // The rate that was reached is still ahead of what the other server can do.
    let places = |ranks: &Ranks| {
        let place = |it: &Ranked| it.rank.map(|rank| (rank.best, rank.worst));
        ranks.ranked.iter().map(place).collect::<Vec<_>>()
    };
    let least: Vec<bool> = summary.cells.iter().map(|cell| cell.peak_level().unwrap().is_least).collect();
    assert_eq!(least, [false, true, false, false]);
    for ranks in &summary.ranks {
        assert_eq!(places(ranks), [Some((1, 1)), Some((2, 2))], "{ranks:?}");
    }
    // Of a lower one, it is not known which is better.
    saturated(&mut records[2], 5);
    let summary = Summary::of_series(&series, &records);
    assert_eq!(places(&summary.ranks[0]), [Some((1, 2)), Some((1, 2))], "{:?}", summary.ranks[0]);
    // With anything else that is wrong, it has no rank.
    records[1].as_mut().unwrap().iterations.iter_mut().for_each(|run| run.measured.counts.failed = 1_000_000);
    let summary = Summary::of_series(&series, &records);
    let why = summary.ranks[1].ranked.iter().find_map(|it| it.without.clone()).unwrap();
    assert!(why.starts_with("INVALID: ") && !summary.cells[1].peak_level().unwrap().is_least, "{why}");
}

#[test]
fn a_plan_reads_back_from_its_own_file() {
    let (series, _) = series("servers = ['nginx:tuned']\ncpus = [1, 2]", &[5], &[&[&[1]], &[&[1]]]);
    let text = serde_json::to_string(&series).unwrap();
    assert_eq!(serde_json::from_str::<Series>(&text).unwrap(), series);
    assert_eq!(series.cells[1].at.to_string(), "nginx:tuned, per-request, 2 CPUs");
    assert_eq!(series.cells[0].at.server.software, Software::Nginx);
    // One level of 6 s with a warm-up of 1 s, in two cells.
    assert_eq!(series.round_time(), Nanos::from_secs(14));
}
