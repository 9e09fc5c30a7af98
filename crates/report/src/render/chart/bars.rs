//! Horizontal bars, each below its name, so that long names have the whole width.

use std::fmt::Write as _;

use super::{WIDTH, escape, open, text};

/// Height of a row of a chart whose names stand above.
pub(super) const ROW: f64 = 31.0;
/// Height of what stands above the first row.
pub(super) const HEAD: f64 = 20.0;
/// Left and right of everything.
pub(super) const EDGE: f64 = 2.0;
/// How far a whisker may reach beyond the longest bar.
const REACH: f64 = 4.0;
/// Longest name in characters; the middle of a longer one is left out.
const NAME_MAX: usize = 40;

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    /// NaN where nothing is known: no bar.
    pub(crate) value: f64,
    /// Where there is one: low and high end of the interval, in the unit of the value.
    pub(crate) interval: Option<(f64, f64)>,
    /// The value as it is written.
    pub(crate) shown: String,
}

/// The drawing; `style` is one of [`super::STYLES`].
pub(crate) fn bars(
    id: &str,
    title: &str,
    description: &str,
    heading: &str,
    style: usize,
    rows: &[Bar],
) -> String {
    let height = HEAD + rows.len() as f64 * ROW + 4.0;
    let values = || rows.iter().map(|bar| bar.value).filter(|value| value.is_finite());
    let longest = values().fold(0.0, f64::max);
    // A whisker that would leave no room for the bars is cut.
    let ends = rows.iter().filter_map(|bar| bar.interval).map(|(_, high)| high.min(longest * REACH));
    let most = ends.filter(|end| end.is_finite()).fold(longest, f64::max);
    let place =
        |value: f64| if most > 0.0 { value.clamp(0.0, most) / most * (WIDTH - 2.0 * EDGE) } else { 0.0 };
    let mut svg = open(id, "plot bars", height, title, description);
    text(&mut svg, "label", EDGE, 12.0, "start", heading);
    let shared = shared_words(rows);
    for (index, bar) in rows.iter().enumerate() {
        let top = HEAD + index as f64 * ROW;
        names(&mut svg, top, &bar.name[shared..], &bar.shown);
        let length = if bar.value.is_finite() { place(bar.value) } else { 0.0 };
        let y = top + 20.0;
        let _ = write!(
            svg,
            "<path class=\"track\" d=\"M{EDGE} {y:.1}H{:.1}\"/><path class=\"bar s{style}\" d=\"M{EDGE} {y:.1}h{length:.1}\"/>",
            WIDTH - EDGE
        );
        if let Some((low, high)) = bar.interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
            let (low, high) = (EDGE + place(low), EDGE + place(high));
            let top = y - 4.0;
            let _ = write!(
                svg,
                "<path class=\"reach\" d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {top:.1}v8M{high:.1} {top:.1}v8\"/>"
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Name and value above a row.
pub(super) fn names(svg: &mut String, top: f64, name: &str, shown: &str) {
    let y = top + 12.0;
    let _ = write!(svg, "<text class=\"tick\" x=\"{EDGE}\" y=\"{y:.1}\">");
    escape(svg, &shortened(name));
    let _ =
        write!(svg, "</text><text class=\"value\" x=\"{}\" y=\"{y:.1}\" text-anchor=\"end\">", WIDTH - EDGE);
    escape(svg, shown);
    svg.push_str("</text>");
}

/// How many bytes to cut from the start of each name: the words that all share, if one of the names is too long.
fn shared_words(rows: &[Bar]) -> usize {
    let [first, others @ ..] = rows else { return 0 };
    if others.is_empty() || rows.iter().all(|bar| bar.name.chars().count() <= NAME_MAX) {
        return 0;
    }
    let shared = others.iter().fold(first.name.len(), |shared, other| {
        let alike = first.name.bytes().zip(other.name.bytes()).take(shared);
        alike.take_while(|(one, another)| one == another).count()
    });
    let words = first.name.as_bytes()[..shared].iter().rposition(|byte| *byte == b'-').map_or(0, |at| at + 1);
    // Each name must keep at least one word.
    if rows.iter().any(|bar| bar.name.len() == words) { 0 } else { words }
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

    fn bar(name: &str, value: f64, interval: Option<(f64, f64)>) -> Bar {
        Bar { name: name.to_owned(), value, interval, shown: value.to_string() }
    }

    #[test]
    fn the_longest_bar_has_the_whole_width() {
        let svg = bars("id", "t", "d", "hits", 0, &[bar("a", 10.0, None), bar("<b>", 5.0, None)]);
        assert!(svg.contains("M2 40.0h376.0") && svg.contains("M2 71.0h188.0"), "{svg}");
        assert!(svg.contains("&lt;b&gt;"));
        assert_eq!(shortened(&"x".repeat(100)).chars().count(), NAME_MAX);
    }

    #[test]
    fn names_too_long_to_stand_lose_the_words_that_all_share() {
        let drawn =
            |names: [&str; 2]| bars("id", "t", "d", "cell", 0, &names.map(|name| bar(name, 1.0, None)));
        let svg = drawn([
            "reference-static-workout-0k-names-off-cache-off",
            "reference-static-workout-16k-names-off-cache-off",
        ]);
        assert!(
            svg.contains(">0k-names-off-cache-off<") && svg.contains(">16k-names-off-cache-off<"),
            "{svg}"
        );
        let svg = drawn([
            "/a/page-of-a-name-longer-than-a-line-can-be-",
            "/a/page-of-a-name-longer-than-a-line-can-be-b",
        ]);
        assert!(svg.contains("/a/page-of-a-name"), "{svg}");
        let svg = drawn(["nginx-tuned-1cpu", "nginx-tuned-2cpu"]);
        assert!(svg.contains(">nginx-tuned-1cpu<"), "{svg}");
        let svg = drawn([
            "/a/page-\u{e9}-of-a-name-longer-than-a-line-can-be",
            "/a/page-\u{e8}-of-a-name-longer-than-a-line-can-be",
        ]);
        assert!(svg.contains(">\u{e9}-of-a-name-longer-than-a-line-can-be<"), "{svg}");
    }

    #[test]
    fn an_interval_has_room_beyond_the_longest_bar() {
        let svg = bars("id", "t", "d", "hits", 0, &[bar("a", 10.0, Some((0.0, 20.0)))]);
        assert!(svg.contains("M2 40.0h188.0") && svg.contains("M2.0 40.0H378.0"), "{svg}");
    }
}
