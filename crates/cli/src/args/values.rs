//! Parsers of single values: from text to the specification's types.
//!
//! An error is one sentence with the value and the rule, then `; write …` or `: write …` with the remedy; `usage`
//! moves the remedy to a line of its own.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use webstone_judge::comparison::FailWhen;
use webstone_judge::search::{LOOK_FIRST, REPEATS_MAX};
use webstone_judge::verdict::Standing;
use webstone_measure::metrics::Histograms;
use webstone_measure::rate::{Rates, RatesError};
use webstone_measure::units::{NANOS_PER_SECOND, Nanos, QuantityError, parse_count};
use webstone_model::kubernetes;
use webstone_model::search::Over;
use webstone_model::series::Caching;
use webstone_model::spec::{
    Check, ConnectionPolicy, HttpVersion, Levels, Order, Profile, QuicVersion, Resolve, WhenBusy,
    parse_cpu_list,
};
use webstone_model::threshold::{GateError, Threshold, Thresholds};
use webstone_report::{CsvTable, Format, Subject};
use webstone_runner::check;
use webstone_store::library::HistoryMetric;
use webstone_workload::arrivals::ArrivalProcess;
use webstone_workload::route::ProxyProtocol;
use webstone_workload::target::Place;

pub(super) fn connection_policy() -> impl TypedValueParser<Value = ConnectionPolicy> {
    one_of([
        ("per-request", "a new connection for each file, as WebStone measures"),
        ("per-page", "a new connection, or --parallel of them, for each page"),
        ("keep-alive", "connections are kept until the server ends them"),
    ])
}

pub(super) fn http_version() -> impl TypedValueParser<Value = HttpVersion> {
    one_of([
        ("1.0", "HTTP/1.0"),
        ("1.1", "HTTP/1.1"),
        ("2", "HTTP/2"),
        ("3", "HTTP/3"),
        ("auto", "the highest that the server offers, by ALPN and Alt-Svc"),
    ])
}

pub(super) fn quic_version() -> impl TypedValueParser<Value = QuicVersion> {
    one_of([("1", "RFC 9000, which all servers of HTTP/3 have"), ("2", "RFC 9369")])
}

/// The highest version that a server supports: 1, 2 or 3.
pub(super) fn server_http(text: &str) -> Result<u8, String> {
    match text {
        "1.1" => Ok(1),
        "2" => Ok(2),
        "3" => Ok(3),
        _ => Err(format!("`{text}` is no version of HTTP that is spoken here; write 1.1, 2 or 3")),
    }
}

pub(super) fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}` is neither on nor off; write one of them")),
    }
}

/// Two files, separated by a comma.
pub(super) fn certificate_and_key(text: &str) -> Result<(String, String), String> {
    match text.split_once(',') {
        Some((cert, key)) if !cert.is_empty() && !key.is_empty() => Ok((cert.to_owned(), key.to_owned())),
        _ => Err(format!("`{text}` does not name two files; write CERT,KEY, as in server.crt,server.key")),
    }
}

pub(super) fn order() -> impl TypedValueParser<Value = Order> {
    one_of([
        ("interleaved", "all levels once, then all levels again: drift does not look like a trend"),
        ("sequential", "all iterations of a level before the next level"),
        ("random", "a shuffle by the seed"),
    ])
}

pub(super) fn resolve() -> impl TypedValueParser<Value = Resolve> {
    one_of([("once", "before the run"), ("per-connection", "each time; counts as connect time")])
}

pub(super) fn proxy_protocol() -> impl TypedValueParser<Value = ProxyProtocol> {
    one_of([("v1", "a line of text"), ("v2", "a binary header")])
}

pub(super) fn check() -> impl TypedValueParser<Value = Check> {
    one_of([
        ("status", "the status"),
        ("size", "and the length, where the workload states one"),
        ("content", "and every byte of the generated files"),
    ])
}

pub(super) fn arrivals() -> impl TypedValueParser<Value = ArrivalProcess> {
    one_of([
        ("constant", "evenly, as many in each second as the rate says"),
        ("poisson", "as independent users come, in bursts and gaps"),
    ])
}

pub(super) fn when_busy() -> impl TypedValueParser<Value = WhenBusy> {
    one_of([
        ("queue", "it waits for a client, and its waiting is part of its latency"),
        ("skip", "it is skipped, and counted"),
    ])
}

/// Exactly one rate or ramp.
pub(super) fn one_rate(text: &str) -> Result<Rates, String> {
    let rates: Rates = text.parse().map_err(|error: RatesError| error.to_string())?;
    if rates.0.len() == 1 {
        return Ok(rates);
    }
    Err(format!("`{text}` names {} levels; write one rate, or use `webstone run` for a sweep", rates.0.len()))
}

pub(super) fn report_format() -> impl TypedValueParser<Value = Format> {
    let values = Format::ALL.map(|format| PossibleValue::new(format.name()).help(format.description()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Format>())
}

/// A format that a report of something else than a run has.
pub(super) fn format_of(subject: Subject) -> impl TypedValueParser<Value = Format> {
    let value = |format: &Format| PossibleValue::new(format.name()).help(subject.description(*format));
    PossibleValuesParser::new(subject.formats().iter().map(value)).try_map(|name| name.parse::<Format>())
}

pub(super) fn fail_when() -> impl TypedValueParser<Value = FailWhen> {
    one_of([
        ("shown", "the whole interval of the change meets the condition, beyond the noise floor"),
        ("measured", "the measured change meets it, whatever its interval"),
        ("possible", "the interval does not exclude it: to pass, the opposite must be proven"),
    ])
}

pub(super) fn required() -> impl TypedValueParser<Value = Standing> {
    one_of([
        ("valid", "Every run rule is met"),
        ("sound", "No noise that matters"),
        ("noisy", "What noise did is known"),
    ])
}

pub(super) fn history_metric() -> impl TypedValueParser<Value = HistoryMetric> {
    one_of([("rate", "Valid responses per second"), ("p99", "99th percentile of the response time")])
}

/// Names of the distributions in a record.
pub(super) fn histogram() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(Histograms::default().named().map(|(name, _)| PossibleValue::new(name)))
}

pub(super) fn csv_table() -> impl TypedValueParser<Value = CsvTable> {
    let values = [
        PossibleValue::new("levels").help("one row per level and iteration"),
        PossibleValue::new("pages").help("one row per page in a level and iteration"),
        PossibleValue::new("generators")
            .help("one row per host in a level and iteration, where several made the load"),
        PossibleValue::new("server-hosts")
            .help("one row per host of the server in a level and iteration, where agents monitored it"),
    ];
    PossibleValuesParser::new(values).map(|name| match name.as_str() {
        "pages" => CsvTable::Pages,
        "generators" => CsvTable::Generators,
        "server-hosts" => CsvTable::ServerHosts,
        _ => CsvTable::Levels,
    })
}

/// A count of at least 1, with k, m or g.
pub(super) fn count(text: &str) -> Result<u64, String> {
    match parse_count(text).map_err(|error| error.to_string())? {
        0 => Err(format!("`{text}` is less than 1; write at least 1")),
        value => Ok(value),
    }
}

/// A count of at least 1 that fits 32 bits.
pub(super) fn count_u32(text: &str) -> Result<u32, String> {
    narrow(text, count(text)?)
}

/// A number that may be 0, where 0 has a meaning of its own.
pub(super) fn number_u32(text: &str) -> Result<u32, String> {
    narrow(text, number(text)?)
}

/// A number that may be 0, with k, m or g.
pub(super) fn number(text: &str) -> Result<u64, String> {
    parse_count(text).map_err(|error| error.to_string())
}

/// A seed: any 64-bit number.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a seed; write a whole number from 0 to {}", u64::MAX))
}

/// A host that may be put under load.
pub(super) fn host(text: &str) -> Result<String, String> {
    match text.parse::<Place>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("`{text}` is not HOST or HOST:PORT, as in images.test or 127.0.0.2:8081")),
    }
}

/// Exactly one level.
pub(super) fn one_level(text: &str) -> Result<Levels, String> {
    let levels: Levels =
        text.parse().map_err(|error: webstone_model::spec::LevelsError| error.to_string())?;
    if levels.0.len() == 1 {
        return Ok(levels);
    }
    Err(format!(
        "`{text}` names {} levels; write one count, or use `webstone run` for a sweep",
        levels.0.len()
    ))
}

/// A list of CPUs, unchanged.
pub(super) fn cpu_list(text: &str) -> Result<String, String> {
    if parse_cpu_list(text)?.is_empty() {
        return Err("the list is empty; write numbers and ranges, as in 0-1,4".to_owned());
    }
    Ok(text.to_owned())
}

/// Addresses with ports, unchanged; the server resolves and checks them.
pub(super) fn listen(text: &str) -> Result<String, String> {
    check::listen(text).map(|()| text.to_owned()).map_err(|error| format!("{}; {}", error.rule, error.remedy))
}

/// A profile.
pub(super) fn profile() -> impl TypedValueParser<Value = Profile> {
    one_of([("stock", "as Debian ships it"), ("tuned", "for speed")])
}

/// Whether a server caches.
pub(super) fn caching() -> impl TypedValueParser<Value = Caching> {
    one_of([("on", "answers, or files, are cached"), ("off", "they are not")])
}

/// Whether a server looks up names.
pub(super) fn lookups() -> impl TypedValueParser<Value = Caching> {
    one_of([("on", "names are looked up"), ("off", "they are not")])
}

/// The conditions of a search: on what clients see, at any level.
pub(super) fn slo(text: &str) -> Result<String, String> {
    let thresholds: Thresholds = text.parse().map_err(|error: GateError| error.to_string())?;
    for condition in &thresholds.0 {
        if !condition.metric().is_of_clients() {
            return Err(format!(
                "`{condition}` is not a figure of clients; write a condition on times, rates or errors"
            ));
        }
        if !(1..=3).all(|clients| condition.selects(clients)) {
            return Err(format!(
                "`{condition}` selects a level, and a search looks for one; write it without braces"
            ));
        }
    }
    Ok(thresholds.0.iter().map(Threshold::text).collect::<Vec<_>>().join(","))
}

/// What a search increases.
pub(super) fn over() -> impl TypedValueParser<Value = Over> {
    one_of([
        ("rate", "the arrivals per second of an open loop"),
        ("clients", "the number of clients of a closed loop"),
    ])
}

/// A number of clients.
pub(super) fn clients_max(text: &str) -> Result<u32, String> {
    match count_u32(text)? {
        0 => Err(format!("`{text}` clients ask for nothing; write at least 1")),
        many if many > 10_000_000 => Err(format!("`{text}` is too many; write at most 10m")),
        clients => Ok(clients),
    }
}

/// The resolution of a search, in percent.
pub(super) fn resolution(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|percent| (0.01..=100.0).contains(percent))
        .ok_or_else(|| format!("`{text}` is not a percentage from 0.01 to 100; write it as in 5%"))
}

/// The load of a search: arrivals per second, or clients.
pub(super) fn load(text: &str) -> Result<u64, String> {
    count_u32(text).map(u64::from)
}

/// Number of repeats of an undecided level.
pub(super) fn repeats(text: &str) -> Result<u32, String> {
    let number = count_u32(text)?;
    if (LOOK_FIRST..=REPEATS_MAX).contains(&number) {
        return Ok(number);
    }
    Err(format!("`{text}` is not a possible number of repeats; write {LOOK_FIRST} to {REPEATS_MAX}"))
}

/// One header field.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once(':') else {
        return Err(format!(
            "`{text}` has no colon; write the field's name, a colon and its value, as in 'Accept: */*'"
        ));
    };
    let (name, value) = (name.trim(), value.trim());
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!(
            "`{name}` is not a field name; write letters, digits and hyphens, as in Accept-Encoding"
        ));
    }
    if http::HeaderValue::from_str(value).is_err() {
        return Err(format!(
            "the value of `{name}` holds a control character; write printable text on one line"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// A span of time longer than zero.
pub(super) fn some_time(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>().map_err(|error: QuantityError| error.to_string())? {
        Nanos::ZERO => Err(format!("`{text}` is no time at all; write at least 1s")),
        time => Ok(time),
    }
}

/// A span of time in whole seconds, as in Kubernetes, of at most a year.
pub(super) fn whole_seconds(text: &str) -> Result<Nanos, String> {
    let time = some_time(text)?;
    if !time.0.is_multiple_of(NANOS_PER_SECOND) || time > Nanos::from_secs(366 * 86_400) {
        return Err(format!(
            "`{text}` is not a whole number of seconds up to a year; write it as in 90s or 2h"
        ));
    }
    Ok(time)
}

/// A name in a Kubernetes cluster.
pub(super) fn label(text: &str) -> Result<String, String> {
    match kubernetes::label(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(rule) => {
            Err(format!("`{text}` is {rule}; write lower-case letters, digits and hyphens, at most 63"))
        }
    }
}

/// A label of a node.
pub(super) fn node_label(text: &str) -> Result<(String, String), String> {
    kubernetes::node_label(text)
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("`{text}` is not a node's label; write KEY=VALUE, as in pool=load"))
}

/// Number of pods of a Job.
pub(super) fn pods(text: &str) -> Result<u32, String> {
    match count_u32(text)? {
        many if many > 1_000 => Err(format!("`{text}` is more than 1000 hosts; write at most 1000")),
        pods => Ok(pods),
    }
}

/// Number of whole CPUs of a pod.
pub(super) fn pod_cpus(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is not a whole number of CPUs from 1 to 1024; write it as in 8");
    text.parse().ok().filter(|cpus| (1..=1_024).contains(cpus)).ok_or_else(wrong)
}

/// Minimum memory of a pod: an agent's program alone has 20 MB.
const POD_BYTES_MIN: u128 = 64 << 20;

/// An amount of memory in Kubernetes' notation.
pub(super) fn memory(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_number = digits.parse::<u64>().is_ok_and(|number| number > 0);
    let is_unit = ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&&text[digits.len()..]);
    if !(is_number && is_unit && digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!("`{text}` is not an amount of memory; write it as in 512Mi or 4Gi"));
    }
    let scale: u128 = match &text[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "Ki" => 1 << 10,
        "M" => 1_000_000,
        "Mi" => 1 << 20,
        // With these units any number is enough.
        _ => POD_BYTES_MIN,
    };
    match digits.parse::<u128>().is_ok_and(|number| number.saturating_mul(scale) >= POD_BYTES_MIN) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is less memory than an agent needs; write at least 64Mi")),
    }
}

/// The name of an image. Kubernetes checks it; here it only has to be one word.
pub(super) fn image(text: &str) -> Result<String, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-._/:@".contains(c);
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_word) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is not the name of an image; write it as in registry.example/webstone:1"))
}

/// A TCP port.
pub(super) fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("`{text}` is not a port from 1 to 65535; write it as in 8080")),
    }
}

fn narrow(text: &str, value: u64) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("`{text}` is too many; write at most {}", u32::MAX))
}

/// The variants of one of the specification's enumerations, by their names in files.
fn one_of<T, const N: usize>(variants: [(&'static str, &'static str); N]) -> impl TypedValueParser<Value = T>
where
    T: for<'de> Deserialize<'de> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(variants.map(|(name, help)| PossibleValue::new(name).help(help))).map(|name| {
        let name: StrDeserializer<'_, ValueError> = name.as_str().into_deserializer();
        T::deserialize(name)
            .expect("the listed names are the specification's own, which a test reads one by one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<P: TypedValueParser>(parser: &P) -> usize {
        let command = clap::Command::new("test");
        let names: Vec<String> =
            parser.possible_values().unwrap().map(|value| value.get_name().to_owned()).collect();
        for name in &names {
            parser.parse_ref(&command, None, name.as_ref()).unwrap();
        }
        names.len()
    }

    #[test]
    fn every_listed_name_is_one_of_the_specifications() {
        assert_eq!(read(&connection_policy()), 3);
        assert_eq!(read(&http_version()), 5);
        assert_eq!(read(&quic_version()), 2);
        assert_eq!(read(&order()), 3);
        assert_eq!(read(&resolve()), 2);
        assert_eq!(read(&proxy_protocol()), 2);
        assert_eq!(read(&check()), 3);
        assert_eq!(read(&arrivals()), 2);
        assert_eq!(read(&when_busy()), 2);
        assert_eq!(read(&fail_when()), 3);
        assert_eq!((read(&required()), read(&history_metric())), (3, 2));
        assert_eq!(read(&over()), 2);
        assert_eq!(read(&format_of(Subject::Comparison)), 4);
        assert_eq!(read(&profile()), 2);
    }

    #[test]
    fn a_header_is_a_name_a_colon_and_a_value() {
        assert_eq!(header("Accept: */*"), Ok(("Accept".into(), "*/*".into())));
        assert_eq!(header("X-Time: 12:30"), Ok(("X-Time".into(), "12:30".into())));
        assert_eq!(header("X-Empty:"), Ok(("X-Empty".into(), String::new())));
        for wrong in ["Accept", ": x", "a b: c", "X: a\nY: b"] {
            assert!(header(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_port_is_what_can_be_listened_on() {
        assert_eq!((port("1"), port("65535")), (Ok(1), Ok(65535)));
        for wrong in ["0", "65536", "-1", "nonsense", ""] {
            assert!(port(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn values_of_a_manifest_are_what_kubernetes_takes() {
        for good in ["512Mi", "4Gi", "1000000000", "2G"] {
            assert_eq!(memory(good).as_deref(), Ok(good));
        }
        for wrong in ["", "0", "Gi", "1.5Gi", "-1Gi", "1gb", "+1Gi", "4 Gi"] {
            assert!(memory(wrong).is_err_and(|error| error.contains("; write it as in")), "{wrong:?}");
        }
        for good in ["webstone", "registry.example:5000/a/webstone:1", "webstone@sha256:abc"] {
            assert_eq!(image(good).as_deref(), Ok(good));
        }
        for wrong in ["", "-x", "a b", "a\nb", "a\"b", "ä"] {
            assert!(image(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!((pod_cpus("8"), pods("1000")), (Ok(8), Ok(1_000)));
        for wrong in ["0", "1.5", "500m", "2000", ""] {
            assert!(pod_cpus(wrong).is_err(), "{wrong:?}");
        }
        assert!(pods("1001").is_err() && pods("0").is_err());
        assert_eq!(whole_seconds("2m"), Ok(Nanos::from_secs(120)));
        for wrong in ["1500ms", "0s", "400d", "9000h", "x"] {
            assert!(whole_seconds(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(node_label("pool=load"), Ok(("pool".into(), "load".into())));
        assert!(node_label("pool").is_err_and(|error| error.contains("; write KEY=VALUE")));
        assert!(
            label("Web_Stone")
                .is_err_and(|error| error.starts_with("`Web_Stone` is not a name of lower-case"))
        );
    }

    #[test]
    fn counts_start_at_one_and_end_at_their_type() {
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("0"), Err("`0` is less than 1; write at least 1".into()));
        assert_eq!(count_u32("5g"), Err("`5g` is too many; write at most 4294967295".into()));
        assert_eq!(number_u32("0"), Ok(0));
    }
}
