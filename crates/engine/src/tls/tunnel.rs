//! Through a proxy: `CONNECT` and its answer, before the handshake (RFC 9110, section 9.3.6).

use webstone_measure::errors::ErrorClass;

use crate::session::AnswerError;

/// Maximum length of the head of an answer to `CONNECT`, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A tunnel that has been requested.
#[derive(Debug, Default)]
pub(super) struct Tunnel {
    /// The part of the answer's head that has arrived.
    head: Vec<u8>,
}

/// The request to a proxy for a tunnel to `host:port`.
pub(super) fn request(host_and_port: &str) -> Vec<u8> {
    format!("CONNECT {host_and_port} HTTP/1.1\r\nHost: {host_and_port}\r\n\r\n").into_bytes()
}

impl Tunnel {
    /// Takes bytes of the answer: returns how many, and whether the tunnel is established.
    pub(super) fn take(&mut self, wire: &[u8]) -> Result<(usize, bool), AnswerError> {
        let failed = |class: ErrorClass, what: String| AnswerError::Layer(Box::new((class, what)));
        let before = self.head.len();
        self.head.extend_from_slice(wire);
        let Some(end) = memchr::memmem::find(&self.head, b"\r\n\r\n").map(|at| at + 4) else {
            if self.head.len() > HEAD_BYTES_MAX {
                let what = "the proxy's answer to CONNECT has too long a head".to_owned();
                return Err(failed(ErrorClass::Malformed, what));
            }
            return Ok((wire.len(), false));
        };
        let line = self.head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|byte| *byte == b' ');
        let is_http = words.next().is_some_and(|word| word.starts_with(b"HTTP/1."));
        let status = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse::<u16>().ok());
        match status.filter(|_| is_http) {
            Some(200..=299) => Ok((end - before, true)),
            Some(status) => {
                let what = format!("the proxy answered CONNECT with status {status}");
                Err(failed(ErrorClass::WrongStatus, what))
            }
            None => {
                let what = "the proxy's answer to CONNECT is not HTTP/1".to_owned();
                Err(failed(ErrorClass::Malformed, what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_is_established_after_the_answer_wherever_it_is_cut() {
        const ANSWER: &[u8] = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nTLS";
        for cut in 1..ANSWER.len() - 3 {
            let mut tunnel = Tunnel::default();
            let (taken, stands) = tunnel.take(&ANSWER[..cut]).unwrap();
            assert_eq!((taken, stands), (cut, false));
            let (taken, stands) = tunnel.take(&ANSWER[cut..]).unwrap();
            assert_eq!((&ANSWER[cut + taken..], stands), (&b"TLS"[..], true), "{cut}");
        }
    }

    #[test]
    fn a_refusal_is_reported() {
        for (answer, class) in [
            (&b"HTTP/1.1 403 No\r\n\r\n"[..], ErrorClass::WrongStatus),
            (b"SSH-2.0\r\n\r\n", ErrorClass::Malformed),
            (&[b'x'; HEAD_BYTES_MAX + 1], ErrorClass::Malformed),
        ] {
            assert_eq!(Tunnel::default().take(answer).unwrap_err().class(), class);
        }
    }
}
