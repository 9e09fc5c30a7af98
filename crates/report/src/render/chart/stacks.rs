//! Parts of a whole as bars: a row per whole, a segment per part, all rows on one scale.

use std::fmt::Write as _;

use super::bars::{EDGE, HEAD, ROW, names};
use super::{STYLES, WIDTH, open, text};

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) name: String,
    /// The parts, in the order of the styles; their sum is the length of the row. A part that is not there is 0.
    pub(crate) parts: Vec<f64>,
    /// The whole as it is written.
    pub(crate) shown: String,
}

/// The drawing.
pub(crate) fn stacks(id: &str, title: &str, description: &str, heading: &str, rows: &[Stack]) -> String {
    let height = HEAD + rows.len() as f64 * ROW + 4.0;
    let most = rows.iter().map(|row| row.parts.iter().sum::<f64>()).fold(0.0, f64::max);
    let mut svg = open(id, "plot stacks", height, title, description);
    text(&mut svg, "label", EDGE, 12.0, "start", heading);
    for (index, row) in rows.iter().enumerate() {
        let top = HEAD + index as f64 * ROW;
        names(&mut svg, top, &row.name, &row.shown);
        let mut x = EDGE;
        for (style, part) in row.parts.iter().enumerate() {
            let length = if most > 0.0 { part / most * (WIDTH - 2.0 * EDGE) } else { 0.0 };
            let class = style % STYLES;
            let _ =
                write!(svg, "<path class=\"part s{class}\" d=\"M{x:.1} {:.1}h{length:.1}\"/>", top + 21.0);
            x += length;
        }
    }
    svg.push_str("</svg>");
    svg
}

/// A patch of a style for a legend.
pub(crate) fn patch(style: usize) -> String {
    let class = style % STYLES;
    format!(
        "<svg class=\"key s{class}\" viewBox=\"0 0 28 12\" aria-hidden=\"true\"><path class=\"part\" d=\"M4 6H24\"/></svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_end_to_end_on_one_scale() {
        let row = |name: &str, parts: [f64; 2]| Stack {
            name: name.to_owned(),
            parts: parts.to_vec(),
            shown: String::new(),
        };
        let svg = stacks("id", "t", "d", "parts", &[row("a", [3.0, 1.0]), row("b", [1.0, 1.0])]);
        assert!(svg.contains("d=\"M2.0 41.0h282.0\"") && svg.contains("d=\"M284.0 41.0h94.0\""), "{svg}");
        assert!(svg.contains("d=\"M2.0 72.0h94.0\"") && svg.contains("d=\"M96.0 72.0h94.0\""), "{svg}");
    }
}
