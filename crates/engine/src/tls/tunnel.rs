//! Through a proxy: `CONNECT` and its answer, before the handshake (RFC 9110, section 9.3.6).

use webstone_measure::errors::ErrorClass;

use crate::h1::response::INTERIM_MAX;
use crate::session::AnswerError;

/// Maximum length of the head of an answer to `CONNECT`, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A tunnel that has been requested.
#[derive(Debug, Default)]
pub(super) struct Tunnel {
    /// The part of the answer's head that has arrived.
    head: Vec<u8>,
    /// Interim answers so far.
    interim: u8,
}

/// The request to a proxy for a tunnel to `host:port`.
pub(super) fn request(host_and_port: &str) -> Vec<u8> {
    format!("CONNECT {host_and_port} HTTP/1.1\r\nHost: {host_and_port}\r\n\r\n").into_bytes()
}

fn failed(class: ErrorClass, what: String) -> AnswerError {
    AnswerError::Layer(Box::new((class, what)))
}

impl Tunnel {
    /// Takes bytes of the answer: returns how many, and whether the tunnel is established.
    pub(super) fn take(&mut self, wire: &[u8]) -> Result<(usize, bool), AnswerError> {
        let mut taken = 0;
        while let Some((bytes, status)) = self.head(&wire[taken..])? {
            taken += bytes;
            match status {
                200..=299 => return Ok((taken, true)),
                // Interim answers may come before the final one (RFC 9110, section 15.2); 101 was not asked for.
                100 | 102..=199 if self.interim < INTERIM_MAX => self.interim += 1,
                _ => {
                    let what = format!("the proxy answered CONNECT with status {status}");
                    return Err(failed(ErrorClass::WrongStatus, what));
                }
            }
        }
        Ok((wire.len(), false))
    }

    /// Takes bytes of a head: returns how many and its status, once it is complete.
    fn head(&mut self, wire: &[u8]) -> Result<Option<(usize, u16)>, AnswerError> {
        let before = self.head.len();
        self.head.extend_from_slice(wire);
        let Some(end) = memchr::memmem::find(&self.head, b"\r\n\r\n").map(|at| at + 4) else {
            if self.head.len() > HEAD_BYTES_MAX {
                let what = "the proxy's answer to CONNECT has too long a head".to_owned();
                return Err(failed(ErrorClass::Malformed, what));
            }
            return Ok(None);
        };
        let status = status(&self.head).ok_or_else(|| {
            failed(ErrorClass::Malformed, "the proxy's answer to CONNECT is not HTTP/1".to_owned())
        })?;
        self.head.clear();
        Ok(Some((end - before, status)))
    }
}

fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = line.split(|byte| *byte == b' ');
    words.next().filter(|word| word.starts_with(b"HTTP/1."))?;
    std::str::from_utf8(words.next()?).ok()?.parse().ok()
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
    fn interim_answers_are_passed_over() {
        const ANSWER: &[u8] =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 200\r\n\r\nTLS";
        assert_eq!(Tunnel::default().take(ANSWER).unwrap(), (ANSWER.len() - 3, true));
        for cut in 1..ANSWER.len() - 3 {
            let mut tunnel = Tunnel::default();
            assert_eq!(tunnel.take(&ANSWER[..cut]).unwrap(), (cut, false));
            assert_eq!(tunnel.take(&ANSWER[cut..]).unwrap(), (ANSWER.len() - 3 - cut, true), "{cut}");
        }
        let flood = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(65);
        assert_eq!(Tunnel::default().take(&flood).unwrap_err().class(), ErrorClass::WrongStatus);
    }

    #[test]
    fn a_refusal_is_reported() {
        for (answer, class) in [
            (&b"HTTP/1.1 403 No\r\n\r\n"[..], ErrorClass::WrongStatus),
            (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", ErrorClass::WrongStatus),
            (b"SSH-2.0\r\n\r\n", ErrorClass::Malformed),
            (&[b'x'; HEAD_BYTES_MAX + 1], ErrorClass::Malformed),
        ] {
            assert_eq!(Tunnel::default().take(answer).unwrap_err().class(), class);
        }
    }
}
