//! Transport parameters (RFC 9000 section 18): what each side allows the other, exchanged in the handshake.

use super::error::Fault;
use super::ids::Id;
use super::settings::{Settings, Version};
use super::varint::{self, Writer};

/// What the server allows, and what it proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) idle_timeout_ns: u64,
    pub(super) udp_payload_max: u16,
    pub(super) data: u64,
    /// Of streams that the client opens.
    pub(super) stream_data_bi: u64,
    pub(super) stream_data_uni: u64,
    pub(super) streams_bi: u64,
    pub(super) streams_uni: u64,
    pub(super) ack_delay_exponent: u8,
    pub(super) ack_delay_max_ns: u64,
    reset_token: Option<[u8; 16]>,
    preferred: Option<(Id, [u8; 16])>,
    original_destination: Option<Id>,
    initial_source: Option<Id>,
    retry_source: Option<Id>,
    /// `chosen_version` of version_information.
    chosen_version: Option<u32>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            idle_timeout_ns: 0,
            udp_payload_max: u16::MAX,
            data: 0,
            stream_data_bi: 0,
            stream_data_uni: 0,
            streams_bi: 0,
            streams_uni: 0,
            ack_delay_exponent: 3,
            ack_delay_max_ns: 25_000_000,
            reset_token: None,
            preferred: None,
            original_destination: None,
            initial_source: None,
            retry_source: None,
            chosen_version: None,
        }
    }
}

const IDLE_TIMEOUT: u64 = 0x01;
const UDP_PAYLOAD_MAX: u64 = 0x03;
const DATA: u64 = 0x04;
const STREAM_DATA_BI_LOCAL: u64 = 0x05;
const STREAM_DATA_BI_REMOTE: u64 = 0x06;
const STREAM_DATA_UNI: u64 = 0x07;
const STREAMS_BI: u64 = 0x08;
const STREAMS_UNI: u64 = 0x09;
const ACK_DELAY_EXPONENT: u64 = 0x0a;
const ACK_DELAY_MAX: u64 = 0x0b;
const INITIAL_SOURCE: u64 = 0x0f;
const VERSION_INFORMATION: u64 = 0x11;

/// The client's own; its connection ID is empty.
pub(super) fn write(settings: &Settings) -> Vec<u8> {
    let mut out = [0; 160];
    let end = out.len();
    let mut writer = Writer::new(&mut out, 0, end);
    for (id, value) in [
        (IDLE_TIMEOUT, settings.idle_timeout_ns / 1_000_000),
        (UDP_PAYLOAD_MAX, settings.udp_payload_bytes_max.into()),
        (DATA, settings.connection_window.min(varint::MAX)),
        (STREAM_DATA_BI_LOCAL, settings.stream_window.min(varint::MAX)),
        (STREAM_DATA_UNI, settings.stream_window.min(varint::MAX)),
        (STREAMS_UNI, settings.peer_streams_uni.min(1 << 60)),
    ] {
        writer.varint(id);
        writer.varint(varint::bytes(value) as u64);
        writer.varint(value);
    }
    writer.varint(INITIAL_SOURCE);
    writer.varint(0);
    // Chosen, and the only one available (RFC 9368 section 3).
    writer.varint(VERSION_INFORMATION);
    writer.varint(8);
    writer.bytes(&settings.version.number().to_be_bytes());
    writer.bytes(&settings.version.number().to_be_bytes());
    let at = writer.at();
    out[..at].to_vec()
}

/// Reads the server's.
pub(super) fn read(mut bytes: &[u8]) -> Result<Parameters, Fault> {
    const CUT: Fault = Fault::TransportParameter("transport parameters that are cut off");
    let mut found = Parameters::default();
    let mut seen = 0_u32;
    while !bytes.is_empty() {
        let (id, length) = varint::read(bytes).ok_or(CUT)?;
        bytes = &bytes[length..];
        let (size, length) = varint::read(bytes).ok_or(CUT)?;
        let (value, rest) =
            usize::try_from(size).ok().and_then(|size| bytes[length..].split_at_checked(size)).ok_or(CUT)?;
        bytes = rest;
        if id < 32 {
            if seen & 1 << id != 0 {
                return Err(Fault::TransportParameter("a transport parameter twice"));
            }
            seen |= 1 << id;
        }
        one(id, value, &mut found)?;
    }
    Ok(found)
}

fn one(id: u64, value: &[u8], found: &mut Parameters) -> Result<(), Fault> {
    const INVALID: Fault = Fault::TransportParameter("an invalid transport parameter");
    let number = || {
        varint::read(value)
            .filter(|(_, length)| *length == value.len())
            .map(|(number, _)| number)
            .ok_or(INVALID)
    };
    let at_most = |most: u64| number().ok().filter(|number| *number <= most).ok_or(INVALID);
    let connection_id = || Id::new(value).map(Some).ok_or(INVALID);
    match id {
        0x00 => found.original_destination = connection_id()?,
        IDLE_TIMEOUT => found.idle_timeout_ns = number()?.saturating_mul(1_000_000),
        0x02 => found.reset_token = Some(value.try_into().map_err(|_| INVALID)?),
        UDP_PAYLOAD_MAX => {
            let size = number()?;
            if size < 1200 {
                return Err(Fault::TransportParameter("max_udp_payload_size below 1,200"));
            }
            found.udp_payload_max = u16::try_from(size).unwrap_or(u16::MAX);
        }
        DATA => found.data = number()?,
        STREAM_DATA_BI_LOCAL => _ = number()?,
        // From the server's side, the client's streams are remote.
        STREAM_DATA_BI_REMOTE => found.stream_data_bi = number()?,
        STREAM_DATA_UNI => found.stream_data_uni = number()?,
        STREAMS_BI => found.streams_bi = at_most(1 << 60)?,
        STREAMS_UNI => found.streams_uni = at_most(1 << 60)?,
        ACK_DELAY_EXPONENT => found.ack_delay_exponent = at_most(20)? as u8,
        ACK_DELAY_MAX => found.ack_delay_max_ns = at_most((1 << 14) - 1)? * 1_000_000,
        0x0c if !value.is_empty() => return Err(INVALID),
        0x0d => {
            // Addresses and ports of both families, an ID, and a token.
            let length = usize::from(*value.get(24).ok_or(INVALID)?);
            let rest = &value[25..];
            if !(1..=20).contains(&length) || rest.len() != length + 16 {
                return Err(INVALID);
            }
            let (id, token) = rest.split_at(length);
            found.preferred = Id::new(id).zip(token.try_into().ok());
        }
        0x0e if number()? < 2 => return Err(Fault::TransportParameter("active_connection_id_limit below 2")),
        INITIAL_SOURCE => found.initial_source = connection_id()?,
        0x10 => found.retry_source = connection_id()?,
        VERSION_INFORMATION => {
            let (chosen, available) = value.split_first_chunk::<4>().ok_or(INVALID)?;
            if !available.len().is_multiple_of(4) {
                return Err(INVALID);
            }
            found.chosen_version = Some(u32::from_be_bytes(*chosen));
        }
        _ => {}
    }
    Ok(())
}

impl Parameters {
    /// Whether the server proves that it saw the IDs and the version of this handshake (RFC 9000 section 7.3, RFC 9368 section 4).
    pub(super) fn check(
        &self,
        version: Version,
        original: &Id,
        source: &Id,
        retry: Option<&Id>,
    ) -> Result<(), Fault> {
        let fault = |what| Err(Fault::TransportParameter(what));
        if self.original_destination.as_ref() != Some(original) {
            return fault("another original_destination_connection_id");
        }
        if self.initial_source.as_ref() != Some(source) {
            return fault("another initial_source_connection_id");
        }
        if self.retry_source.as_ref() != retry {
            return fault("another retry_source_connection_id");
        }
        if self.preferred.is_some() && source.bytes().is_empty() {
            return fault("preferred_address without connection IDs");
        }
        if self.chosen_version.is_some_and(|chosen| chosen != version.number()) {
            return Err(Fault::VersionNegotiation);
        }
        Ok(())
    }

    /// What early data may rely on of parameters of an earlier connection (RFC 9000 section 7.4.1).
    pub(super) fn for_early_data(&self) -> Parameters {
        Parameters {
            data: self.data,
            stream_data_bi: self.stream_data_bi,
            stream_data_uni: self.stream_data_uni,
            streams_bi: self.streams_bi,
            streams_uni: self.streams_uni,
            ..Parameters::default()
        }
    }

    pub(super) fn reset_token(&self) -> Option<[u8; 16]> {
        self.reset_token
    }

    pub(super) fn preferred(&self) -> Option<(Id, [u8; 16])> {
        self.preferred
    }

    /// Whether these are no less than those remembered, on which accepted early data relied (RFC 9000 section 7.4.1).
    pub(super) fn cover(&self, remembered: &Parameters) -> bool {
        self.data >= remembered.data
            && self.stream_data_bi >= remembered.stream_data_bi
            && self.stream_data_uni >= remembered.stream_data_uni
            && self.streams_bi >= remembered.streams_bi
            && self.streams_uni >= remembered.streams_uni
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(bytes: &[u8]) -> Fault {
        read(bytes).unwrap_err()
    }

    #[test]
    fn invalid_parameters_are_faults() {
        for bytes in [
            &[0x03, 2, 0x44, 0xaf][..], // 1,199
            &[0x03, 1, 0x44],
            &[0x0a, 1, 21],
            &[0x0b, 4, 0x80, 0, 0x40, 0],
            &[0x0e, 1, 1],
            &[0x02, 3, 1, 2, 3],
            &[0x0c, 1, 0],
            &[0x0d, 1, 0],
            &[0x08, 8, 0xd0, 0, 0, 0, 0, 0, 0, 1],
            &[0x04, 1, 1, 0x04, 1, 1],
            &[0x04, 2, 1],
            &[0x04],
            &[0x11, 3, 0, 0, 0],
        ] {
            assert!(matches!(fault(bytes), Fault::TransportParameter(_)), "{bytes:?}");
        }
        assert_eq!(read(&[0x40, 0x7b, 2, 1, 2]), Ok(Parameters::default()));
    }

    #[test]
    fn the_server_must_name_the_ids_of_the_handshake() {
        let id = |byte| Id::new(&[byte; 4]).unwrap();
        let named = Parameters {
            original_destination: Some(id(1)),
            initial_source: Some(id(2)),
            ..Parameters::default()
        };
        assert_eq!(named.check(Version::V1, &id(1), &id(2), None), Ok(()));
        assert!(named.check(Version::V1, &id(2), &id(2), None).is_err());
        assert!(named.check(Version::V1, &id(1), &id(1), None).is_err());
        assert!(named.check(Version::V1, &id(1), &id(2), Some(&id(3))).is_err());
        let other = Parameters { chosen_version: Some(Version::V2.number()), ..named };
        assert_eq!(other.check(Version::V1, &id(1), &id(2), None), Err(Fault::VersionNegotiation));
        assert_eq!(other.check(Version::V2, &id(1), &id(2), None), Ok(()));
    }
}
