//! Horizontal bars, one a name: names stand above their bars, so that long ones have the whole width.

use std::fmt::Write as _;

use super::{WIDTH, escape, label, open};

const ROW: f64 = 31.0;
const HEAD: f64 = 20.0;
/// Longest name in characters; the middle of a longer one is left out.
const NAME_MAX: usize = 40;

/// Bars of `rows`: name, value, and the value as it is written. `style` is one of [`super::STYLES`].
pub(crate) fn bars(
    id: &str,
    title: &str,
    description: &str,
    heading: &str,
    style: usize,
    rows: &[(String, f64, String)],
) -> String {
    let height = HEAD + rows.len() as f64 * ROW + 4.0;
    let most = rows.iter().map(|row| row.1).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let mut svg = open(id, "plot bars", height, title, description);
    label(&mut svg, 2.0, 12.0, "start", heading);
    for (index, (name, value, shown)) in rows.iter().enumerate() {
        let top = HEAD + index as f64 * ROW;
        let _ = write!(svg, "<text class=\"tick\" x=\"2\" y=\"{:.1}\">", top + 12.0);
        escape(&mut svg, &shortened(name));
        let _ = write!(
            svg,
            "</text><text class=\"value\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">",
            WIDTH - 2.0,
            top + 12.0
        );
        escape(&mut svg, shown);
        svg.push_str("</text>");
        let length = if most > 0.0 && value.is_finite() { value / most * (WIDTH - 4.0) } else { 0.0 };
        let _ = write!(
            svg,
            "<path class=\"track\" d=\"M2 {0:.1}H{1:.1}\"/><path class=\"bar s{style}\" d=\"M2 {0:.1}h{length:.1}\"/>",
            top + 20.0,
            WIDTH - 2.0
        );
    }
    svg.push_str("</svg>");
    svg
}

fn shortened(name: &str) -> String {
    let length = name.chars().count();
    if length <= NAME_MAX {
        return name.to_owned();
    }
    let head: String = name.chars().take(NAME_MAX / 2).collect();
    let tail: String = name.chars().skip(length - NAME_MAX / 2 + 1).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_has_the_whole_width() {
        let rows = [("a".to_owned(), 10.0, "10".to_owned()), ("<b>".to_owned(), 5.0, "5".to_owned())];
        let svg = bars("id", "t", "d", "hits", 0, &rows);
        assert!(svg.contains("M2 40.0h376.0") && svg.contains("M2 71.0h188.0"), "{svg}");
        assert!(svg.contains("&lt;b&gt;"));
        assert_eq!(shortened(&"x".repeat(100)).chars().count(), NAME_MAX);
    }
}
