//! The lab as a drawing: hosts that made the load on the left, the server on the right, and what lies between them with its speed and
//! its traffic.

use std::fmt::Write as _;

use super::{WIDTH, open, text};
use crate::numbers::counted;

const BOX_WIDTH: f64 = 128.0;
const LINE: f64 = 13.0;
const GAP: f64 = 10.0;
/// Hosts that are drawn one by one.
const HOSTS_MAX: usize = 12;
/// Characters of a line within a box, and beside a link.
const BOX_CHARS: usize = 19;
const LINK_CHARS: usize = 19;

/// A host with the link that it reaches the network by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// Name first.
    pub(crate) lines: Vec<String>,
    /// Link, speed, traffic.
    pub(crate) link: Vec<String>,
}

/// The drawing.
pub(crate) fn lab(id: &str, title: &str, description: &str, clients: &[Host], server: &Host) -> String {
    let shown = &clients[..clients.len().min(HOSTS_MAX)];
    let height_of = |host: &Host| 8.0 + LINE * host.lines.len().max(host.link.len() + 1) as f64;
    let left: f64 = shown.iter().map(|host| height_of(host) + GAP).sum();
    let more = clients.len() - shown.len();
    let height = left.max(height_of(server) + GAP) + if more > 0 { LINE } else { 0.0 };
    let mut svg = open(id, "plot lab", height, title, description);
    let (middle, server_top) = (WIDTH / 2.0, (left - GAP - height_of(server)).max(0.0) / 2.0);
    let server_y = server_top + height_of(server) / 2.0;
    let (mut top, mut first, mut last) = (0.0, server_y, server_y);
    for host in shown {
        let y = top + height_of(host) / 2.0;
        (first, last) = (f64::min(first, y), f64::max(last, y));
        let _ = write!(svg, "<path class=\"axis\" d=\"M{BOX_WIDTH:.1} {y:.1}H{middle:.1}\"/>");
        beside(&mut svg, (BOX_WIDTH + middle) / 2.0, y, &host.link);
        boxed(&mut svg, 1.0, top, height_of(host), &host.lines);
        top += height_of(host) + GAP;
    }
    if more > 0 {
        let more = format!("and {}", counted(more as u64, "more host", "more hosts"));
        text(&mut svg, "lab", 1.0, top + LINE - 4.0, "start", &more);
    }
    let _ = write!(svg, "<path class=\"axis\" d=\"M{middle:.1} {first:.1}V{last:.1}\"/>");
    let right = WIDTH - BOX_WIDTH - 1.0;
    let _ = write!(svg, "<path class=\"axis\" d=\"M{middle:.1} {server_y:.1}H{right:.1}\"/>");
    beside(&mut svg, (middle + right) / 2.0, server_y, &server.link);
    boxed(&mut svg, right, server_top, height_of(server), &server.lines);
    svg.push_str("</svg>");
    svg
}

fn boxed(svg: &mut String, x: f64, y: f64, height: f64, lines: &[String]) {
    let _ = write!(
        svg,
        "<rect class=\"host\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{BOX_WIDTH:.1}\" height=\"{height:.1}\"/>"
    );
    for (place, line) in lines.iter().enumerate() {
        text(svg, "lab", x + 5.0, y + LINE * (place + 1) as f64, "start", &cut(line, BOX_CHARS));
    }
}

/// Name above a link, the rest below it.
fn beside(svg: &mut String, x: f64, y: f64, lines: &[String]) {
    for (place, line) in lines.iter().enumerate() {
        let y = if place == 0 { y - 4.0 } else { y + LINE * place as f64 };
        text(svg, "lab", x, y, "middle", &cut(line, LINK_CHARS));
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_a_box_and_a_link_and_markup_is_text() {
        let host = |name: &str| Host {
            lines: vec![name.to_owned(), "Example CPU 9000, 3.00 GHz".to_owned()],
            link: vec!["eth0".to_owned(), "100 Mbit/s".to_owned()],
        };
        let clients: Vec<Host> = (0..14).map(|number| host(&format!("<gen{number}>"))).collect();
        let svg = lab("lab", "Lab", "Hosts", &clients, &host("web1"));
        assert_eq!(svg.matches("<rect").count(), HOSTS_MAX + 1);
        assert!(
            svg.contains("&lt;gen0&gt;") && !svg.contains("<gen0>") && svg.contains("and 2 more hosts"),
            "{svg}"
        );
        assert!(svg.contains("Example CPU 9000, 3…"), "{svg}");
        let svg = lab("lab", "Lab", "Hosts", &clients[1..], &host("web1"));
        assert!(svg.contains("and 1 more host<"), "{svg}");
    }
}
