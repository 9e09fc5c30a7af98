//! A line of a JSON log: the field names of nginx, Caddy, Traefik and Envoy.
//!
//! nginx has no names of its own (`log_format … escape=json`): those of its variables are known. Caddy puts the request into an object
//! of its own; Traefik and Envoy have the names of their fields; what a container's log driver wraps (`{"log":"…"}`) is unwrapped.

use std::borrow::Cow;
use std::net::SocketAddr;

use serde_json::{Map, Value};
use webstone_measure::strict;

use super::line::{self, LineFault, LogLine};

const CLIENT: &[&str] = &[
    "remote_ip",
    "client_ip",
    "remote_addr",
    "ClientHost",
    "ClientAddr",
    "downstream_remote_address",
    "downstream_direct_remote_address",
    "clientip",
    "client",
];
const TIME: &[&str] = &[
    "time_iso8601",
    "time_local",
    "StartUTC",
    "start_time",
    "@timestamp",
    "timestamp",
    "ts",
    "msec",
    "time",
];
const METHOD: &[&str] = &["method", "request_method", "RequestMethod", ":method"];
const TARGET: &[&str] = &["request_uri", "uri", "RequestPath", "path", ":path", "url"];
const QUERY: &[&str] = &["args", "query_string"];
const STATUS: &[&str] = &["status", "DownstreamStatus", "response_code", "status_code"];
const SIZE: &[&str] = &["body_bytes_sent", "size", "DownstreamContentSize", "response_size", "bytes"];

/// A line that had to be rewritten.
#[derive(Debug)]
pub(super) struct Owned {
    client: String,
    time: String,
    method: String,
    target: String,
    status: u16,
    size: Option<u64>,
}

impl Owned {
    pub(super) fn line(&self) -> LogLine<'_> {
        LogLine {
            client: self.client.as_bytes(),
            time: self.time.as_bytes(),
            method: self.method.as_bytes(),
            target: self.target.as_bytes(),
            status: self.status,
            size: self.size,
        }
    }
}

/// Reads a line that begins with a brace.
pub(super) fn parse(text: &[u8]) -> Result<Owned, LineFault> {
    let Ok(Value::Object(all)) = strict::json(text) else { return Err(LineFault::NotJson) };
    let request = all.get("request").and_then(Value::as_object);
    if let (Some(inner), None) = (all.get("log").and_then(Value::as_str), first(&all, METHOD)) {
        return unwrapped(inner.trim_end());
    }
    let within =
        |names: &[&str]| request.and_then(|request| first(request, names)).or_else(|| first(&all, names));
    let line = all.get("request").and_then(Value::as_str).and_then(|line| line::request(line.as_bytes()));
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (method, target) = match (line, within(METHOD), within(TARGET)) {
        (Some((method, target)), ..) => (lossy(method), lossy(target)),
        (None, Some(method), Some(target)) => (method.into_owned(), target.into_owned()),
        _ => return Err(LineFault::NoFields),
    };
    let target = match first(&all, QUERY).filter(|query| !target.contains('?') && *query != "-") {
        Some(query) if !query.is_empty() => format!("{target}?{query}"),
        _ => target,
    };
    let status = within_status(first(&all, STATUS).as_deref()).ok_or(LineFault::NoFields)?;
    // nginx's variable of this name counts the header fields as well; Envoy's does not.
    let of_envoy = || first(&all, &["bytes_sent"]).filter(|_| all.contains_key("response_code"));
    let size = first(&all, SIZE).or_else(of_envoy).and_then(|size| line::number(size.as_bytes()));
    let client = within(CLIENT).unwrap_or_default();
    // The port differs from connection to connection.
    let client = client.parse().map_or(client.into_owned(), |address: SocketAddr| address.ip().to_string());
    let time = first(&all, TIME).unwrap_or_default().into_owned();
    Ok(Owned { client, time, method, target, status, size })
}

/// A line that a container's log driver put into an object.
fn unwrapped(inner: &str) -> Result<Owned, LineFault> {
    // Only once: no log is wrapped twice.
    if inner.starts_with('{') {
        return match strict::json(inner.as_bytes()) {
            Ok(Value::Object(map)) if !map.contains_key("log") => parse(inner.as_bytes()),
            _ => Err(LineFault::NotJson),
        };
    }
    let LogLine { client, time, method, target, status, size } = line::parse(inner.as_bytes())?;
    let [client, time, method, target] =
        [client, time, method, target].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ok(Owned { client, time, method, target, status, size })
}

/// The first of some fields that is there, as text.
fn first<'a>(map: &'a Map<String, Value>, names: &[&str]) -> Option<Cow<'a, str>> {
    names.iter().find_map(|name| match map.get(*name)? {
        Value::String(text) => Some(Cow::Borrowed(text.as_str())),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    })
}

fn within_status(text: Option<&str>) -> Option<u16> {
    text?.parse().ok().filter(|status| (100..=999).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Method, URL, status, size, client, time.
    type Shown = (String, String, u16, Option<u64>, String, Option<i64>);

    fn shown(line: &str) -> Result<Shown, LineFault> {
        let Owned { client, time, method, target, status, size } = parse(line.as_bytes())?;
        Ok((method, target, status, size, client, line::seconds(time.as_bytes())))
    }

    #[test]
    fn the_fields_of_servers_are_understood() {
        for (line, method, target, status, size, client, seconds) in [
            // nginx: names as people write them most often.
            (
                r#"{"time":"2025-10-10T13:55:36+02:00","remote_addr":"192.0.2.1","request":"GET /j.html HTTP/1.1","status":200,"body_bytes_sent":42}"#,
                "GET",
                "/j.html",
                200,
                Some(42),
                "192.0.2.1",
                Some(1_760_097_336),
            ),
            (
                r#"{"time_local":"10/Oct/2000:13:55:36 -0700","request_method":"GET","uri":"/a","args":"x=1","status":"304","bytes_sent":"0"}"#,
                "GET",
                "/a?x=1",
                304,
                None,
                "",
                Some(971_211_336),
            ),
            (
                r#"{"msec":"1700000000.123","request_method":"POST","request_uri":"/a?x=1","args":"x=1","status":"200","body_bytes_sent":"7"}"#,
                "POST",
                "/a?x=1",
                200,
                Some(7),
                "",
                Some(1_700_000_000),
            ),
            // Caddy.
            (
                r#"{"level":"info","ts":1700000000.1,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.1","remote_port":"5","method":"GET","host":"localhost","uri":"/caddy.html?q","headers":{"User-Agent":["curl"]}},"bytes_read":0,"duration":0.001,"size":42,"status":200}"#,
                "GET",
                "/caddy.html?q",
                200,
                Some(42),
                "192.0.2.1",
                Some(1_700_000_000),
            ),
            // Traefik.
            (
                r#"{"ClientAddr":"192.0.2.1:40312","ClientHost":"192.0.2.1","DownstreamContentSize":12,"DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/t?x","StartUTC":"2025-10-10T11:55:36.5Z","time":"2025-10-10T11:55:37Z"}"#,
                "GET",
                "/t?x",
                200,
                Some(12),
                "192.0.2.1",
                Some(1_760_097_336),
            ),
            // Envoy.
            (
                r#"{"start_time":"2025-10-10T11:55:36.123Z","method":"GET","path":"/e?y","protocol":"HTTP/1.1","response_code":200,"bytes_received":0,"bytes_sent":99,"downstream_remote_address":"[2001:db8::1]:40312"}"#,
                "GET",
                "/e?y",
                200,
                Some(99),
                "2001:db8::1",
                Some(1_760_097_336),
            ),
            // A container's log driver around each.
            (
                r#"{"log":"h - - [10/Oct/2000:13:55:36 -0700] \"GET /d HTTP/1.1\" 200 5\n","stream":"stdout","time":"2025-10-10T11:55:37Z"}"#,
                "GET",
                "/d",
                200,
                Some(5),
                "h",
                Some(971_211_336),
            ),
            (
                r#"{"log":"{\"ts\":1700000000,\"request\":{\"method\":\"GET\",\"uri\":\"/k\"},\"status\":200}\n","stream":"stdout"}"#,
                "GET",
                "/k",
                200,
                None,
                "",
                Some(1_700_000_000),
            ),
            (
                r#"{"method":"GET","uri":"/large","status":200,"size":9223372036854775808}"#,
                "GET",
                "/large",
                200,
                None,
                "",
                None,
            ),
            (
                r#"{"method":"GET","path":"/q\"\u00e4","response_code":200,"bytes_sent":"-"}"#,
                "GET",
                "/q\"ä",
                200,
                None,
                "",
                None,
            ),
        ] {
            let expected = (method.to_owned(), target.to_owned(), status, size, client.to_owned(), seconds);
            assert_eq!(shown(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn lines_without_a_request_are_refused() {
        for (line, fault) in [
            ("{", LineFault::NotJson),
            (r#"{"request":"GET \x16 HTTP/1.1","status":200}"#, LineFault::NotJson),
            ("{}", LineFault::NoFields),
            (r#"{"level":"error","msg":"method"}"#, LineFault::NoFields),
            (r#"{"method":"GET","status":200}"#, LineFault::NoFields),
            (r#"{"method":"GET","uri":"/","status":0}"#, LineFault::NoFields),
            (r#"{"method":["GET"],"uri":"/","status":200}"#, LineFault::NoFields),
            (r#"{"request":"-","status":400}"#, LineFault::NoFields),
            (r#"{"log":"{\"log\":\"{}\"}"}"#, LineFault::NotJson),
            (r#"{"log":"hello"}"#, LineFault::NoTime),
        ] {
            assert_eq!(shown(line), Err(fault), "{line}");
        }
    }
}
