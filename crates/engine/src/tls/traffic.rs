//! A connection after its handshake: what its records mean. Data goes to the session; alerts, tickets and new keys
//! are handled here. How many of each a peer may send without data in between is limited as in rustls.

use std::mem::{replace, take};

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, Error, ExtractedSecrets, HandshakeType, InvalidMessage,
    PeerMisbehaved, ProtocolVersion, SupportedCipherSuite,
};

use super::records::{self, ALERT, Cipher, DATA, Direction, HANDSHAKE, HEAD_BYTES, RecordError, Scratch};

/// Maximum length of a handshake message, in bytes.
const MESSAGE_BYTES_MAX: usize = 0xffff;
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;
/// How often a peer may send records without content in a row, ask for new keys without data in between, warn, and
/// ask for another handshake.
const EMPTY_MAX: u8 = 32;
const KEY_UPDATES_MAX: u8 = 32;
const WARNINGS_MAX: u8 = 4;
const RENEGOTIATIONS_MAX: u8 = 1;

/// What ends a connection.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Not a record, or not allowed here.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An error as rustls would report it.
    #[error(transparent)]
    Tls(#[from] Error),
}

/// Where new keys come from, and where tickets go.
pub trait Schedule {
    /// Keys for sending from now on.
    fn next_sender(&mut self) -> Option<Direction>;
    /// Keys for receiving from now on.
    fn next_receiver(&mut self) -> Option<Direction>;
    /// Takes a ticket that came.
    ///
    /// # Errors
    /// If it is not a ticket.
    fn take_ticket(&mut self, ticket: &[u8]) -> Result<(), Fault>;
}

/// rustls's key schedule.
pub struct Kernel(KernelConnection<ClientConnectionData>);

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").finish_non_exhaustive()
    }
}

impl Schedule for Kernel {
    fn next_sender(&mut self) -> Option<Direction> {
        let (sequence, secrets) = self.0.update_tx_secret().ok()?;
        direction(&secrets, true, sequence)
    }

    fn next_receiver(&mut self) -> Option<Direction> {
        let (sequence, secrets) = self.0.update_rx_secret().ok()?;
        direction(&secrets, true, sequence)
    }

    fn take_ticket(&mut self, ticket: &[u8]) -> Result<(), Fault> {
        Ok(self.0.handle_new_session_ticket(ticket)?)
    }
}

/// Records in one direction with the keys that rustls agreed on; `None` if the cipher is not known here.
fn direction(secrets: &ConnectionTrafficSecrets, is_tls13: bool, sequence: u64) -> Option<Direction> {
    let (cipher, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Cipher::ChaCha20Poly1305, key, iv),
        _ => return None,
    };
    Direction::new(cipher, is_tls13, key.as_ref(), iv.as_ref(), sequence)
}

fn no_keys() -> Error {
    Error::General("no records can be made with the keys that were agreed on".to_owned())
}

/// See the module comment.
pub struct Traffic<S = Kernel> {
    sender: Direction,
    receiver: Direction,
    /// Number of records that one key may protect (the cipher's confidentiality limit).
    records_max: u64,
    /// For TLS 1.3; in TLS 1.2 keys never change, and tickets come before the end of the handshake.
    schedule: Option<S>,
    /// The beginning of an incomplete record.
    part: Vec<u8>,
    /// The beginning of an incomplete handshake message.
    message: Vec<u8>,
    /// Alerts to be sent, and an answer to the peer's new keys, which is sent with the next data.
    owes_close: bool,
    owes_refusal: bool,
    owes_key_update: bool,
    was_close_said: bool,
    was_close_heard: bool,
    /// The keys of TLS 1.2 may protect no more data.
    is_spent: bool,
    empty: u8,
    key_updates: u8,
    warnings: u8,
    renegotiations: u8,
}

impl<S> std::fmt::Debug for Traffic<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traffic").finish_non_exhaustive()
    }
}

impl Traffic {
    /// Takes over from rustls's handshake, with the first bytes of an incomplete record.
    pub(super) fn new(
        secrets: &ExtractedSecrets,
        kernel: KernelConnection<ClientConnectionData>,
        part: Vec<u8>,
        was_close_heard: bool,
    ) -> Result<Traffic, Error> {
        let is_tls13 = kernel.protocol_version() == ProtocolVersion::TLSv1_3;
        let common = match kernel.negotiated_cipher_suite() {
            SupportedCipherSuite::Tls12(suite) => &suite.common,
            SupportedCipherSuite::Tls13(suite) => &suite.common,
        };
        let records_max = common.confidentiality_limit;
        let sender = direction(&secrets.tx.1, is_tls13, secrets.tx.0).ok_or_else(no_keys)?;
        let receiver = direction(&secrets.rx.1, is_tls13, secrets.rx.0).ok_or_else(no_keys)?;
        let schedule = is_tls13.then_some(Kernel(kernel));
        Ok(Traffic { part, was_close_heard, ..Traffic::with(sender, receiver, records_max, schedule) })
    }
}

impl<S: Schedule> Traffic<S> {
    /// With these keys, each of which may protect this many records. `schedule`: TLS 1.3 only.
    pub fn with(sender: Direction, receiver: Direction, records_max: u64, schedule: Option<S>) -> Traffic<S> {
        Traffic {
            sender,
            receiver,
            records_max,
            schedule,
            part: Vec::new(),
            message: Vec::new(),
            owes_close: false,
            owes_refusal: false,
            owes_key_update: false,
            was_close_said: false,
            was_close_heard: false,
            is_spent: false,
            empty: 0,
            key_updates: 0,
            warnings: 0,
            renegotiations: 0,
        }
    }

    /// Appends what is to be sent: messages that are owed, then records of these bytes.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        if plain.is_empty() && !self.must_send() {
            return;
        }
        if take(&mut self.owes_key_update) {
            self.update_sender(wire);
        }
        if take(&mut self.owes_refusal) {
            self.sender.seal(ALERT, &[WARNING, NO_RENEGOTIATION], wire);
        }
        for piece in plain.chunks(records::PLAIN_BYTES_MAX) {
            // The last record of a key announces the next key.
            if self.sender.sequence() + 1 >= self.records_max {
                self.update_sender(wire);
            }
            if self.is_spent {
                break;
            }
            self.sender.seal(DATA, piece, wire);
        }
        if take(&mut self.owes_close) {
            self.sender.seal(ALERT, &[WARNING, CLOSE_NOTIFY], wire);
        }
    }

    /// Announces that what follows is sealed with the next key, without asking the peer to change its own. TLS 1.2
    /// has no next key.
    #[cold]
    fn update_sender(&mut self, wire: &mut Vec<u8>) {
        let next = self.schedule.as_mut().and_then(|schedule| schedule.next_sender());
        match next {
            Some(next) => {
                self.sender.seal(HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0], wire);
                self.sender = next;
            }
            None => self.is_spent = true,
        }
    }

    /// Whether there is something to send besides the session's bytes.
    pub fn must_send(&self) -> bool {
        self.owes_close || self.owes_refusal
    }

    /// Whether the keys may protect no more of the session's bytes.
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Announces the end, once.
    pub fn close(&mut self) {
        self.owes_close |= !replace(&mut self.was_close_said, true);
    }

    /// Whether the peer has announced the end.
    pub fn was_close_heard(&self) -> bool {
        self.was_close_heard
    }

    /// Takes bytes of the wire. The session's bytes are appended to `scratch`.
    ///
    /// # Errors
    /// For whatever ends the connection; it must not be used afterwards.
    pub fn unseal(&mut self, mut wire: &[u8], scratch: &mut Scratch) -> Result<(), Fault> {
        if !self.part.is_empty() {
            let mut part = take(&mut self.part);
            loop {
                let bytes = records::length(&part)?.unwrap_or(HEAD_BYTES);
                if part.len() >= HEAD_BYTES && part.len() == bytes {
                    break;
                }
                if wire.is_empty() {
                    self.part = part;
                    return Ok(());
                }
                let (missing, rest) = wire.split_at(wire.len().min(bytes - part.len()));
                part.extend_from_slice(missing);
                wire = rest;
            }
            self.take_record(&part, scratch)?;
            scratch.give_back(&mut part);
        }
        // What follows close_notify is ignored (RFC 8446, section 6.1).
        while !self.was_close_heard {
            let Some((record, rest)) = records::length(wire)?.and_then(|bytes| wire.split_at_checked(bytes))
            else {
                if !wire.is_empty() {
                    self.part = scratch.take_spare();
                    self.part.extend_from_slice(wire);
                }
                break;
            };
            self.take_record(record, scratch)?;
            wire = rest;
        }
        Ok(())
    }

    #[inline]
    fn take_record(&mut self, record: &[u8], scratch: &mut Scratch) -> Result<(), Fault> {
        let (kind, bytes) = self.receiver.open(record, scratch)?;
        if kind == DATA && bytes > 0 && self.message.is_empty() {
            scratch.keep(bytes);
            self.empty = 0;
            self.key_updates = 0;
            return Ok(());
        }
        self.take_own(kind, scratch.opened(bytes))
    }

    /// Handles a record without data for the session.
    #[cold]
    fn take_own(&mut self, kind: u8, content: &[u8]) -> Result<(), Fault> {
        if kind != HANDSHAKE && !self.message.is_empty() {
            return Err(Error::from(PeerMisbehaved::MessageInterleavedWithHandshakeMessage).into());
        }
        self.empty = if content.is_empty() { self.empty + 1 } else { 0 };
        if self.empty > EMPTY_MAX {
            return Err(Error::from(PeerMisbehaved::TooManyEmptyFragments).into());
        }
        match kind {
            DATA => Ok(()),
            ALERT => self.take_alert(content),
            HANDSHAKE => self.take_messages(content),
            kind => Err(RecordError::Unexpected(kind).into()),
        }
    }

    fn take_alert(&mut self, content: &[u8]) -> Result<(), Fault> {
        let [level, number] = *content else {
            return Err(Error::from(InvalidMessage::MissingData("AlertMessagePayload")).into());
        };
        let alert = || Error::AlertReceived(AlertDescription::from(number)).into();
        match (level, number) {
            (WARNING | FATAL, CLOSE_NOTIFY) => self.was_close_heard = true,
            (WARNING, _) => {
                self.warnings += 1;
                if self.warnings > WARNINGS_MAX {
                    return Err(Error::from(PeerMisbehaved::TooManyWarningAlertsReceived).into());
                }
                // TLS 1.3 has no other warning.
                if self.schedule.is_some() && number != USER_CANCELED {
                    return Err(alert());
                }
            }
            _ => return Err(alert()),
        }
        Ok(())
    }

    /// Handles a record of a handshake: whole messages, and perhaps the beginning of another.
    fn take_messages(&mut self, content: &[u8]) -> Result<(), Fault> {
        if self.message.is_empty() {
            let rest = self.take_whole_messages(content)?;
            self.message.extend_from_slice(rest);
            return Ok(());
        }
        let mut message = take(&mut self.message);
        message.extend_from_slice(content);
        let rest = self.take_whole_messages(&message)?;
        self.message = rest.to_vec();
        Ok(())
    }

    /// Handles each whole message; returns the rest.
    fn take_whole_messages<'a>(&mut self, mut bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
        while let [kind, high, middle, low, behind @ ..] = bytes {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            if length > MESSAGE_BYTES_MAX {
                return Err(Error::from(InvalidMessage::HandshakePayloadTooLarge).into());
            }
            let Some((payload, rest)) = behind.split_at_checked(length) else { break };
            self.take_message(*kind, payload, rest.is_empty())?;
            bytes = rest;
        }
        Ok(bytes)
    }

    fn take_message(&mut self, kind: u8, payload: &[u8], is_last: bool) -> Result<(), Fault> {
        match (kind, &mut self.schedule) {
            (NEW_SESSION_TICKET, Some(schedule)) => schedule.take_ticket(payload)?,
            (KEY_UPDATE, Some(schedule)) => {
                // What follows in the same record would be protected with the old key.
                if !is_last {
                    return Err(Error::from(PeerMisbehaved::KeyEpochWithPendingFragment).into());
                }
                let [asks @ (0 | 1)] = *payload else {
                    return Err(Error::from(InvalidMessage::InvalidKeyUpdate).into());
                };
                self.key_updates += 1;
                if self.key_updates > KEY_UPDATES_MAX {
                    return Err(Error::from(PeerMisbehaved::TooManyKeyUpdateRequests).into());
                }
                self.receiver = schedule.next_receiver().ok_or_else(no_keys)?;
                self.owes_key_update |= asks == 1;
            }
            (HELLO_REQUEST, None) if payload.is_empty() => {
                self.renegotiations += 1;
                if self.renegotiations > RENEGOTIATIONS_MAX {
                    return Err(Error::from(PeerMisbehaved::TooManyRenegotiationRequests).into());
                }
                self.owes_refusal = true;
            }
            (kind, schedule) => {
                let expect_types = match schedule {
                    Some(_) => vec![HandshakeType::NewSessionTicket, HandshakeType::KeyUpdate],
                    None => Vec::new(),
                };
                let got_type = HandshakeType::from(kind);
                return Err(Error::InappropriateHandshakeMessage { expect_types, got_type }.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl<S> Traffic<S> {
    pub(super) fn sender_mut(&mut self) -> &mut Direction {
        &mut self.sender
    }

    pub(super) fn schedule(&self) -> Option<&S> {
        self.schedule.as_ref()
    }

    pub(super) fn set_records_max(&mut self, records_max: u64) {
        self.records_max = records_max;
    }
}
