//! Changes around zero: one row each, a dot with its interval over the band of noise.

use std::fmt::Write as _;

use super::bars::{EDGE, names};
use super::{Axis, WIDTH, open, text};
use crate::document::Tone;
use crate::document::chart::Change;

const ROW: f64 = 33.0;
const HEAD: f64 = 4.0;
const BOTTOM: f64 = 38.0;
/// Half the height of a noise band, and of the ends of an interval.
const HALF: f64 = 5.0;
/// A change farther out than this many times the largest one that leads to a conclusion is cut: it would leave no room for the
/// others.
const REACH: f64 = 2.5;

/// The drawing; `unit` stands below the axis.
pub(crate) fn changes(id: &str, title: &str, description: &str, unit: &str, rows: &[Change]) -> String {
    let height = HEAD + rows.len() as f64 * ROW + BOTTOM;
    let axis = axis(rows, unit);
    let x = |value: f64| EDGE + 4.0 + axis.position(value).clamp(0.0, 1.0) * (WIDTH - 2.0 * EDGE - 8.0);
    let bottom = height - BOTTOM;
    let mut svg = open(id, "plot changes", height, title, description);
    let mut grid = String::new();
    let mut occupied = f64::NEG_INFINITY;
    for (value, name) in &axis.ticks {
        let at = x(*value);
        let half = name.chars().count() as f64 * super::DIGIT / 2.0;
        let _ = write!(grid, "M{at:.1} {HEAD:.1}V{:.1}", bottom + 4.0);
        if at - half > occupied && at - half >= 0.0 && at + half <= WIDTH {
            text(&mut svg, "tick", at, bottom + 17.0, "middle", name);
            occupied = at + half + 4.0;
        }
    }
    let _ = write!(
        svg,
        "<path class=\"grid\" d=\"{grid}\"/><path class=\"zero\" d=\"M{0:.1} {HEAD:.1}V{bottom:.1}\"/>",
        x(0.0)
    );
    for (index, row) in rows.iter().enumerate() {
        let top = HEAD + index as f64 * ROW;
        let y = top + 23.0;
        names(&mut svg, top, &row.name, &row.shown);
        let class = match row.tone {
            Tone::Good => "good",
            Tone::Caution | Tone::Alarm => "bad",
            _ => "",
        };
        let _ = write!(svg, "<g class=\"change {class}\">");
        let (from, to) = (x(-row.noise), x(row.noise));
        let _ = write!(
            svg,
            "<path class=\"noise\" d=\"M{from:.1} {:.1}H{to:.1}v{1:.1}H{from:.1}Z\"/>",
            y - HALF,
            2.0 * HALF
        );
        if let Some((low, high)) = row.interval {
            let (from, to) = (x(low), x(high));
            let _ = write!(svg, "<path class=\"error\" d=\"M{from:.1} {y:.1}H{to:.1}");
            // An end that lies outside is an arrow.
            svg.push_str(&end(from, y, axis.position(low) < 0.0, 1.0));
            svg.push_str(&end(to, y, axis.position(high) > 1.0, -1.0));
            svg.push_str("\"/>");
        }
        if (0.0..=1.0).contains(&axis.position(row.point)) {
            let at = x(row.point);
            let _ =
                write!(svg, "<path class=\"mark\" d=\"M{at:.1} {y:.1}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z\"/>");
        }
        svg.push_str("</g>");
    }
    text(&mut svg, "label", WIDTH / 2.0, height - 5.0, "middle", &axis.label);
    svg.push_str("</svg>");
    svg
}

/// The range of the axis: every change and band, and intervals unless they are much longer.
fn axis(rows: &[Change], unit: &str) -> Axis {
    let largest = |rows: &mut dyn Iterator<Item = &Change>| {
        rows.flat_map(|row| [row.point.abs(), row.noise]).fold(0.0, f64::max)
    };
    let largest = match rows.iter().any(|row| !row.is_open) {
        true => largest(&mut rows.iter().filter(|row| !row.is_open)),
        false => largest(&mut rows.iter()),
    };
    let reach = (largest * REACH).max(0.1);
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for row in rows {
        let (from, to) = row.interval.unwrap_or((row.point, row.point));
        low = low.min(from).min(-row.noise);
        high = high.max(to).max(row.noise);
    }
    let (low, high) = (low.max(-reach), high.min(reach));
    let room = (high - low) * 0.03;
    Axis::around_zero(unit, low - room, high + room, 6)
}

fn end(x: f64, y: f64, is_outside: bool, inwards: f64) -> String {
    match is_outside {
        true => {
            format!("M{:.1} {:.1}L{x:.1} {y:.1}l{:.1} {HALF}", x + 5.0 * inwards, y - HALF, 5.0 * inwards)
        }
        false => format!("M{x:.1} {:.1}v{:.1}", y - HALF, 2.0 * HALF),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(point: f64, interval: (f64, f64)) -> Change {
        Change {
            name: "rate".to_owned(),
            shown: format!("{point}"),
            point,
            interval: Some(interval),
            noise: 1.0,
            is_open: false,
            tone: Tone::Good,
        }
    }

    #[test]
    fn a_change_lies_on_its_side_of_zero() {
        let svg = changes("id", "t", "d", "change, %", &[change(10.0, (8.0, 12.0))]);
        let place = |class: &str| -> f64 {
            let path = svg.split(&format!("class=\"{class}\" d=\"M")).nth(1).unwrap();
            path.split(' ').next().unwrap().parse().unwrap()
        };
        assert!(place("mark") > place("error") && place("error") > place("zero"), "{svg}");
        assert!(place("noise") < place("zero"), "{svg}");
    }

    #[test]
    fn an_interval_that_would_crowd_out_the_rest_ends_in_an_arrow() {
        let wide =
            changes("id", "t", "d", "change, %", &[change(1.0, (-900.0, 900.0)), change(2.0, (1.0, 3.0))]);
        assert_eq!(wide.matches('L').count(), 2, "{wide}");
        assert!(!wide.contains("NaN"));
        let mut open = change(-50.0, (-60.0, -40.0));
        open.is_open = true;
        let svg = changes("id", "t", "d", "change, %", &[open, change(2.0, (1.0, 3.0))]);
        assert_eq!(svg.matches("class=\"mark\"").count(), 1, "a point far outside is none: {svg}");
    }
}
