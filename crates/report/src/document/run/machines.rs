//! What the generator and the server used. A generator near its limit measures itself, so its CPU stands beside every
//! level; the server's CPU tells whether the server was the limit.

use webstone_judge::verdict::WORKER_CPU_PERCENT_MAX;

use crate::layout::{Room, Sheet, Table};
use crate::numbers::Scale;
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

pub(crate) fn sheet(screen: &Screen, levels: &[Level<'_>]) -> Option<Sheet> {
    let generator = levels.iter().any(|level| level.generator.workers > 0);
    let server = levels.iter().any(|level| level.server.is_some());
    if !generator && !server {
        return None;
    }
    let client_cost = Scale::seconds(screen, levels.iter().map(|l| l.generator.cpu_per_request_s));
    let delay = Scale::seconds(screen, levels.iter().filter_map(|l| l.generator.loop_delay_p99_s));
    let servers = || levels.iter().filter_map(|level| level.server.as_ref());
    let server_cost = Scale::seconds(screen, servers().map(|s| s.cpu_per_1000_requests_s / 1000.0));
    let memory = Scale::bytes(servers().map(|s| s.resident_bytes_max as f64));
    let lags = || levels.iter().filter_map(|level| level.generator.receive_lag_s);
    let lag = Scale::seconds(screen, lags().map(|[_, p99, _]| p99));
    let lagged = lags().next().is_some();
    let waited = levels.iter().any(|l| l.generator.waited_percent.is_some());
    let delayed = levels.iter().any(|l| l.generator.loop_delay_p99_s.is_some());

    let mut table = Table::default();
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always);
    if generator {
        table.number("workers", "", Room::Optional(1));
        table
            .number("generator", "% of its CPUs", Room::Always)
            .defined("Figures", "generator_cpu_per_request_s");
        table
            .number("busiest", "worker, %", Room::Optional(6))
            .defined("Figures", "generator_cpu_per_request_s");
        if waited {
            table
                .number("waited", "for CPU, %", Room::Optional(4))
                .defined("The verdict", "generator-saturated");
            table.explained(
                "waited for CPU: how long a worker was ready to run while something else used its CPU",
            );
        }
        table.number("CPU", &format!("{}/request", client_cost.unit), Room::Always);
    }
    if delayed {
        table.number("own delay", &format!("p99, {}", delay.unit), Room::Optional(5)).defined("Instants", "");
        table.explained("own delay: from an event to its handling; a part of every latency above");
    }
    if lagged {
        table.number("receive lag", &format!("p50, {}", lag.unit), Room::Optional(2)).defined("Instants", "");
        table.number("receive lag", &format!("p99, {}", lag.unit), Room::Optional(3)).defined("Instants", "");
        table.explained(
            "receive lag: how long received bytes waited in the kernel, on one connection per worker",
        );
        table.number("receive lag", &format!("max, {}", lag.unit), Room::Optional(2)).defined("Instants", "");
    }
    if server {
        table.number("server", "% of a CPU", Room::Always).defined("The server", "user_ns");
        table.number("CPU", &format!("{}/request", server_cost.unit), Room::Always);
        table
            .number("memory", &format!("max, {}", memory.unit), Room::Optional(4))
            .defined("The server", "resident_bytes_max");
    }
    let dash = || screen.dash().to_owned();
    for level in levels {
        let share = &level.generator;
        let mut cells = vec![level.load_cell()];
        if generator {
            cells.push(share.workers.to_string());
            cells.push(format!("{:.0}", share.cpu_percent));
            cells.push(format!("{:.0}", share.busiest_percent));
            if waited {
                cells.push(share.waited_percent.map_or_else(dash, |percent| format!("{percent:.1}")));
            }
            cells.push(client_cost.show(share.cpu_per_request_s));
        }
        if delayed {
            cells.push(share.loop_delay_p99_s.map_or_else(dash, |value| delay.show(value)));
        }
        if lagged {
            match share.receive_lag_s {
                Some(all) => cells.extend(all.map(|value| lag.show(value))),
                None => cells.extend([dash(), dash(), dash()]),
            }
        }
        if server {
            match &level.server {
                Some(used) => cells.extend([
                    format!("{:.0}", used.cpu_percent),
                    server_cost.show(used.cpu_per_1000_requests_s / 1000.0),
                    memory.show(used.resident_bytes_max as f64),
                ]),
                None => cells.extend([dash(), dash(), dash()]),
            }
        }
        let saturated = share.busiest_percent >= WORKER_CPU_PERCENT_MAX;
        table.row_in(cells, if saturated { Tone::Alarm } else { Tone::Plain }, false);
    }
    let explanation = "CPU of the load generator, and of the server where it could be read";
    Some(Sheet::new("Machines", explanation, table))
}
