//! Which hosts there were, drawn from the record: the links that packets took, their speeds, and what went over them at the peak.

use webstone_measure::host_use::HostUse;
use webstone_model::record::RunRecord;

use super::Run;
use super::figure::heading;
use super::markup::Html;
use crate::chart::{Host, lab};
use crate::numbers::{Scale, counted};
use crate::text::header;

/// The drawing; nothing where no host use was measured.
pub(super) fn draw(html: &mut Html, run: &Run<'_>) {
    let Some(level) = run.best() else { return };
    let Some(timed) = level.runs.first() else { return };
    let record = run.record;
    let makers = timed.load_makers();
    if makers.iter().all(|maker| maker.host.is_none()) {
        return;
    }
    let client = |maker: &webstone_model::generators::LoadMaker<'_>| {
        let of = record.generator_of(maker);
        let fact =
            |name: &str| of.map_or_else(|| fact(record, name), |host| host.fact(name).map(str::to_owned));
        let part =
            maker.generator.and_then(|number| timed.parts.iter().find(|part| part.generator == number));
        let name = of.map(|host| host.place()).or_else(|| fact("hostname"));
        let clients = part.map_or(timed.clients, |part| part.clients);
        Host {
            lines: [name, fact("cpu.model"), Some(counted(clients.into(), "client", "clients"))]
                .into_iter()
                .flatten()
                .collect(),
            link: maker.host.map(traffic).unwrap_or_default(),
        }
    };
    let clients: Vec<Host> = makers.iter().map(client).collect();
    let hosts = &timed.server_hosts;
    let agent = record.target.agents.first();
    let server = Host {
        lines: [
            Some(header::target(record)),
            record.target.server.clone(),
            agent.map(|agent| agent.name.clone()),
        ]
        .into_iter()
        .flatten()
        .collect(),
        link: hosts.first().map(|host| traffic(&host.host)).unwrap_or_default(),
    };
    html.raw("<figure>");
    heading(html, "The lab", None);
    let description =
        format!("{} and a server.", counted(clients.len() as u64, "host with clients", "hosts with clients"));
    html.raw(&lab("lab", "The lab", &description, &clients, &server));
    html.element("figcaption", &format!("Traffic is that of the first timed run at {}.", level.load()));
    html.raw("</figure>");
}

fn fact(record: &RunRecord, name: &str) -> Option<String> {
    record.environment.get(name)?.as_str().map(str::to_owned)
}

/// Link, speed and what went over it, of the link with the most traffic.
fn traffic(host: &HostUse) -> Vec<String> {
    let bytes = |link: &webstone_measure::host_use::LinkUse| link.received_bytes.max(link.sent_bytes);
    let Some(link) = host.links.iter().max_by_key(|link| bytes(link)) else { return Vec::new() };
    let rate = |bps: f64| Scale::bits_per_second([bps]).say(bps);
    let seconds = host.elapsed_ns as f64 / 1e9;
    let speed = match (link.loopback, link.speed_bps) {
        (true, _) => Some("within this host".to_owned()),
        (false, speed) => speed.map(|speed| rate(speed as f64)),
    };
    let used = (seconds > 0.0).then(|| format!("{} used", rate(bytes(link) as f64 * 8.0 / seconds)));
    [Some(link.name.clone()), speed, used].into_iter().flatten().collect()
}
