//! Bytes of the ring -> an event. Pure and total.

use drift_common::abi::{Event, Kind};
use thiserror::Error;
use zerocopy::FromBytes;

/// One doorbell whose kind is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    pub kind: Kind,
    pub event: Event,
}

/// Why a record of the ring is not an event. Never expected: both halves are built from one `abi`.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    #[error("a record of {found} bytes; {expected} were expected", expected = size_of::<Event>())]
    Length { found: usize },
    #[error("a record of unknown kind {0}")]
    Kind(u32),
}

/// Reads one record.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let event =
        Event::read_from_bytes(bytes).map_err(|_| DecodeError::Length { found: bytes.len() })?;
    let kind = Kind::from_u32(event.kind).ok_or(DecodeError::Kind(event.kind))?;
    Ok(Decoded { kind, event })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_an_event_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            match decode(&bytes) {
                Ok(decoded) => {
                    prop_assert_eq!(bytes.len(), size_of::<Event>());
                    prop_assert_eq!(decoded.kind as u32, decoded.event.kind);
                }
                Err(DecodeError::Length { found }) => {
                    prop_assert_eq!(found, bytes.len());
                    prop_assert_ne!(found, size_of::<Event>());
                }
                Err(DecodeError::Kind(kind)) => prop_assert_eq!(Kind::from_u32(kind), None),
            }
        }

        #[test]
        fn each_kind_is_read_from_its_number(number in 0u32..20, slot in any::<u32>()) {
            let mut bytes = [0u8; size_of::<Event>()];
            bytes[48..52].copy_from_slice(&slot.to_le_bytes());
            bytes[52..56].copy_from_slice(&number.to_le_bytes());
            match decode(&bytes) {
                Ok(decoded) => prop_assert_eq!((decoded.event.slot, decoded.kind as u32), (slot, number)),
                Err(error) => prop_assert_eq!(error, DecodeError::Kind(number)),
            }
        }

        /// B066: inode numbers beyond 2^32 and 2^63 are numbers like any other.
        #[test]
        fn an_inode_number_of_any_size_is_read_as_it_is(small in any::<u32>(), shift in 0u32..=32, dev in any::<u32>()) {
            for ino in [u64::from(small) << shift, u64::MAX - u64::from(small), 1 << 63, u64::from(u32::MAX) + 1] {
                let mut bytes = [0u8; size_of::<Event>()];
                bytes[32..40].copy_from_slice(&ino.to_le_bytes());
                bytes[40..44].copy_from_slice(&dev.to_le_bytes());
                bytes[52..56].copy_from_slice(&(Kind::ALL[0] as u32).to_le_bytes());
                let key = decode(&bytes).map(|decoded| decoded.event.key);
                prop_assert_eq!(key.map(|key| (key.ino, key.dev)), Ok((ino, dev)));
            }
        }
    }
}
