//! The field Alt-Svc (RFC 7838): where else, and in which protocol, a server may be asked. Of protocols, HTTP/3 alone matters here.

use crate::target::Place;

/// A place where a server offers HTTP/3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AltSvc {
    /// Its host, without brackets; `None`: that of the URL.
    pub host: Option<String>,
    /// Its UDP port.
    pub port: u16,
    /// The alternative as the server wrote it, without parameters: `h3=":443"`.
    pub text: String,
}

/// The first offer of HTTP/3 among the values of a response's Alt-Svc fields. `clear`, drafts of HTTP/3, and offers that are stale at
/// once (`ma=0`) do not count; what cannot be read is passed over.
pub fn offer_of_h3<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<AltSvc> {
    values.into_iter().flat_map(|value| split(value, b',')).find_map(alternative)
}

/// Reads `h3="host:port"; ma=86400; persist=1`.
fn alternative(text: &str) -> Option<AltSvc> {
    let mut parts = split(text, b';');
    let text = parts.next()?.trim();
    let (protocol, authority) = text.split_once('=')?;
    let authority = unquoted(authority.trim())?;
    let is_stale = parts.filter_map(|part| part.split_once('=')).any(|(name, value)| {
        let seconds = unquoted(value.trim()).and_then(|value| value.parse::<u64>().ok());
        name.trim().eq_ignore_ascii_case("ma") && seconds == Some(0)
    });
    if protocol.trim() != "h3" || is_stale {
        return None;
    }
    let (host, port) = authority.rsplit_once(':')?;
    let port = port.parse().ok().filter(|number: &u16| *number > 0 && !port.starts_with('+'))?;
    let host = match host {
        "" => None,
        host => match host.parse() {
            Ok(Place { host, port: None }) => Some(host),
            _ => return None,
        },
    };
    Some(AltSvc { host, port, text: text.to_owned() })
}

/// The parts of a value between separators that do not stand in quotes.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |c: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            '\\' if is_quoted => is_escaped = !was_escaped,
            '"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        !is_quoted && c == char::from(separator)
    })
}

/// A token, or what stands in a quoted string. Escapes have no place in what is read here.
fn unquoted(text: &str) -> Option<&str> {
    match text.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').filter(|inner| !inner.contains(['"', '\\'])),
        None => (!text.contains('"')).then_some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[&str]) -> Option<(Option<String>, u16, String)> {
        let offer = offer_of_h3(values.iter().copied())?;
        Some((offer.host, offer.port, offer.text))
    }

    #[test]
    fn the_first_offer_of_http3_is_found() {
        let here = |port: u16, text: &str| Some((None, port, text.to_owned()));
        assert_eq!(found(&["h3=\":443\""]), here(443, "h3=\":443\""));
        assert_eq!(found(&["h3=\":443\"; ma=86400, h3-29=\":443\"; ma=86400"]), here(443, "h3=\":443\""));
        assert_eq!(
            found(&["h2=\"a:1\"", " h3 = \":8443\" ;persist=1; ma=\"5\""]),
            here(8443, "h3 = \":8443\"")
        );
        assert_eq!(found(&["w=\":1,h3=\", h3=\":2\""]), here(2, "h3=\":2\""));
        let other = |host: &str| Some((Some(host.to_owned()), 1, format!("h3=\"{}:1\"", bracketed(host))));
        assert_eq!(found(&["h3=\"alt.test:1\""]), other("alt.test"));
        assert_eq!(found(&["h3=\"[::1]:1\""]), other("::1"));
    }

    fn bracketed(host: &str) -> String {
        if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
    }

    #[test]
    fn what_offers_nothing_is_passed_over() {
        for value in [
            "",
            "clear",
            "h3-29=\":443\"",
            "H3=\":443\"",
            "h2=\":443\"",
            "h3=\":443\"; ma=0",
            "h3=\":443\"; MA = \"0\"",
            "h3=\"\"",
            "h3=\":\"",
            "h3=\":0\"",
            "h3=\":+1\"",
            "h3=\":65536\"",
            "h3=\":443",
            "h3=\"a b:443\"",
            "h3=\"a:b:443\"",
            "h3",
        ] {
            assert_eq!(found(&[value]), None, "{value}");
        }
        assert!(found(&["h3=\":443\"; ma=0, h3=\":444\""]).is_some_and(|offer| offer.1 == 444));
    }
}
