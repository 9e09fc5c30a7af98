//! The W3C extended log format, as IIS and CloudFront write it: `#Fields:` names the columns of the lines below it
//! (<https://www.w3.org/TR/WD-logfile.html>).

use super::line::{LineFault, LogLine, number};

/// Which column has what.
#[derive(Debug)]
pub(super) struct Columns {
    method: usize,
    stem: usize,
    query: Option<usize>,
    status: usize,
    client: Option<usize>,
    date: Option<usize>,
    time: Option<usize>,
}

/// What `#Fields:` names; `None` for other directives.
pub(super) fn fields(directive: &[u8]) -> Option<Result<Columns, LineFault>> {
    let names = std::str::from_utf8(directive.strip_prefix(b"#Fields:")?).unwrap_or_default();
    let names: Vec<&str> = names.split_ascii_whitespace().collect();
    let of = |name: &str| names.iter().position(|known| known.eq_ignore_ascii_case(name));
    let columns = || {
        Some(Columns {
            method: of("cs-method")?,
            stem: of("cs-uri-stem").or_else(|| of("cs-uri"))?,
            query: of("cs-uri-query"),
            status: of("sc-status")?,
            client: of("c-ip"),
            date: of("date"),
            time: of("time"),
        })
    };
    Some(columns().ok_or(LineFault::NoColumns))
}

/// A day as logs have it, `2025-10-10`.
pub(super) type Day = [u8; 10];

/// The day that `#Date:` names: that of the lines below it, where they have a time and no date. `None` for other directives, and for
/// what is not a day.
pub(super) fn day(directive: &[u8]) -> Option<Day> {
    let text = directive.strip_prefix(b"#Date:")?.trim_ascii_start();
    let day: Day = text.get(..10)?.try_into().ok()?;
    let is_day = day.iter().enumerate().all(|(place, byte)| match place {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    is_day.then_some(day)
}

impl Columns {
    /// Reads a line. `day` is that of the log, and `scratch` room for what must be put together.
    pub(super) fn parse<'a>(
        &self,
        line: &'a [u8],
        day: Option<&Day>,
        scratch: &'a mut [Vec<u8>; 2],
    ) -> Result<LogLine<'a>, LineFault> {
        let separator = if line.contains(&b'\t') { b'\t' } else { b' ' };
        let values: Vec<&[u8]> = line.split(|byte| *byte == separator).filter(|it| !it.is_empty()).collect();
        let needed = |column: usize| values.get(column).copied().ok_or(LineFault::FewColumns);
        let given = |column: Option<usize>| values.get(column?).copied().filter(|value| *value != b"-");
        let status = needed(self.status)?;
        let status =
            number(status).filter(|status| (100..=999).contains(status)).ok_or(LineFault::FewColumns)?;
        let [target, time] = scratch;
        target.clear();
        target.extend_from_slice(needed(self.stem)?);
        if let Some(query) = given(self.query) {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        time.clear();
        let date = given(self.date).or(day.map(Day::as_slice));
        if let (Some(date), Some(of_day)) = (date, given(self.time)) {
            time.extend_from_slice(&[date, b" ", of_day].concat());
        }
        Ok(LogLine {
            client: given(self.client).unwrap_or_default(),
            time,
            method: needed(self.method)?,
            target,
            status: status as u16,
            // `sc-bytes` counts the header fields as well: no file has that size.
            size: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::seconds;
    use super::*;

    fn shown(header: &str, line: &str) -> Result<(String, String, u16, Option<i64>), LineFault> {
        let mut scratch = [Vec::new(), Vec::new()];
        let columns = fields(header.as_bytes()).unwrap()?;
        let line = columns.parse(line.as_bytes(), None, &mut scratch)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok((text(line.client), text(line.target), line.status, seconds(line.time)))
    }

    #[test]
    fn columns_are_where_fields_says() {
        let iis = "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status sc-bytes time-taken";
        let line = |query: &str| {
            format!(
                "2025-10-10 13:55:36 192.0.2.9 GET /iis.htm {query} 80 - 192.0.2.1 curl/7.0+(x) 200 123 5"
            )
        };
        let at = Some(1_760_104_536);
        let found = |target: &str| Ok(("192.0.2.1".to_owned(), target.to_owned(), 200, at));
        assert_eq!(shown(iis, &line("-")), found("/iis.htm"));
        assert_eq!(shown(iis, &line("a=1&b=2")), found("/iis.htm?a=1&b=2"));
        // CloudFront: tabs, and no bytes that a space could be among.
        let cloudfront =
            "#Fields: date time sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(User-Agent)";
        let line = "2025-10-10\t13:55:36\t9\t2001:db8::1\tGET\td.example\t/c d\t304\tMozilla 5";
        let expected = ("2001:db8::1".to_owned(), "/c d".to_owned(), 304, at);
        assert_eq!(shown(cloudfront, line), Ok(expected));
        let least = "#Fields:\tcs-uri\tsc-status cs-method";
        assert_eq!(shown(least, "/m 200 GET"), Ok((String::new(), "/m".to_owned(), 200, None)));
    }

    #[test]
    fn a_line_without_a_column_is_not_understood() {
        assert!(fields(b"#Software: x").is_none());
        assert_eq!(shown("#Fields: date time cs-method cs-uri-stem", "").unwrap_err(), LineFault::NoColumns);
        let fields = "#Fields: cs-method cs-uri-stem sc-status";
        for line in ["GET /", "GET / -", "GET / abc", "GET / 99", "GET / 99999999999999999999"] {
            assert_eq!(shown(fields, line).unwrap_err(), LineFault::FewColumns, "{line}");
        }
    }
}
