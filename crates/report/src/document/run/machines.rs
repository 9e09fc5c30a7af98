//! What the generator and the server used. A generator near its limit measures itself, so every level has its CPU beside it; the
//! server's CPU shows whether the server was the bottleneck.

use crate::document::cell::Cell;
use webstone_judge::verdict::WORKER_CPU_PERCENT_MAX;
use webstone_measure::figures::generator::GeneratorFigures;

use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::Scale;
use crate::summary::{self, Level};

pub(crate) fn sheet(levels: &[Level<'_>]) -> Option<Sheet> {
    let generator = levels.iter().any(|level| level.generator.workers > 0);
    let server = levels.iter().any(|level| level.server.is_some());
    if !generator && !server {
        return None;
    }
    let of_generators =
        |of: fn(&GeneratorFigures) -> Option<f64>| levels.iter().filter_map(move |it| of(&it.generator));
    let servers = || levels.iter().filter_map(|level| level.server.as_ref());
    let whole = |percent: f64| Cell::Decimal(percent, 0);
    let mut table = Table::with_rows(levels);
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always, Level::load_cell);
    if generator {
        let cost = Scale::seconds(of_generators(|it| Some(it.cpu_per_request_s)));
        let defined = ("Figures", "generator_cpu_per_request_s");
        table.number("workers", "", Room::Optional(1), |level| level.generator.workers);
        table.number("generator", "% of its CPUs", Room::Always, |level| whole(level.generator.cpu_percent));
        table.defined(defined.0, defined.1);
        table.number("busiest", "worker, %", Room::Optional(6), |level| {
            whole(level.generator.busiest_percent)
        });
        table.defined(defined.0, defined.1);
        if of_generators(|it| it.waited_percent).next().is_some() {
            table.number("waited", "for CPU, %", Room::Optional(4), |level| {
                level.generator.waited_percent.map(|percent| Cell::Decimal(percent, 1))
            });
            table.defined("The verdict", "generator-saturated").explained(
                "waited for CPU: how long a worker was ready to run while something else used its CPU",
            );
        }
        table.number("CPU", format!("{}/request", cost.unit), Room::Always, |level| {
            cost.cell(level.generator.cpu_per_request_s)
        });
    }
    if of_generators(|it| it.loop_delay_p99_s).next().is_some() {
        let delay = Scale::seconds(of_generators(|it| it.loop_delay_p99_s));
        table.number("own delay", format!("p99, {}", delay.unit), Room::Optional(5), |level| {
            level.generator.loop_delay_p99_s.map(|value| delay.cell(value))
        });
        table
            .defined("Instants", "")
            .explained("own delay: from an event to its handling; a part of every latency above");
    }
    if of_generators(|it| it.receive_lag_s.map(|all| all[1])).next().is_some() {
        let lag = Scale::seconds(of_generators(|it| it.receive_lag_s.map(|all| all[1])));
        for (place, (name, room)) in [("p50", 2), ("p99", 3), ("max", 2)].into_iter().enumerate() {
            table.number("receive lag", format!("{name}, {}", lag.unit), Room::Optional(room), |level| {
                level.generator.receive_lag_s.map(|all| lag.cell(all[place]))
            });
            table.defined("Instants", "");
            if name == "p99" {
                table.explained(
                    "receive lag: how long received bytes waited in the kernel, on one connection per worker",
                );
            }
        }
    }
    if server {
        let cost = Scale::seconds(servers().map(|server| server.cpu_per_1000_requests_s / 1000.0));
        let memory = Scale::bytes(servers().map(|server| server.resident_bytes_max as f64));
        table.number("server", "% of a CPU", Room::Always, |level| {
            level.server.map(|it| whole(it.cpu_percent))
        });
        table.defined("The server", "user_ns");
        table.number("CPU", format!("{}/request", cost.unit), Room::Always, |level| {
            level.server.map(|server| cost.cell(server.cpu_per_1000_requests_s / 1000.0))
        });
        table.number("memory", format!("max, {}", memory.unit), Room::Optional(4), |level| {
            level.server.map(|server| memory.cell(server.resident_bytes_max as f64))
        });
        table.defined("The server", "resident_bytes_max");
    }
    let is_saturated = |level: &Level<'_>| level.generator.busiest_percent >= WORKER_CPU_PERCENT_MAX;
    let table = table.tones(|level| if is_saturated(level) { Tone::Alarm } else { Tone::Plain }).done();
    let explanation = "CPU of the load generator, and of the server where it could be read";
    Some(Sheet::new("Machines", explanation, table))
}
