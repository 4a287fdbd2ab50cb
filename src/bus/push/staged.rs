//! The binary format of a staged event: prepared and encoded like one that is pushed, and kept by
//! the caller until it is pushed.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | format: 1 |
//! | 1 | 1 | flags: 1 its id was given by the caller, 2 it replaces the holder of its unique key, 4 it has a due time, 8 its id and its bucket follow from a row of plain SQL |
//! | 2 | 1 | durability: 0 the store's own, 1 memory, 2 os_cache, 3 disk, 4 replicated |
//! | 3 | 2 | replicas, big-endian |
//! | 5 | 8 | due time in milliseconds, big-endian |
//! | 13 | 4 | checksum of the bytes before it, big-endian |
//! | 17 | .. | [envelope](crate::codec::wire) |

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::codec::wire;
use crate::core::op::{NewEvent, Unique};
use crate::error::{Error, Result};
use crate::event::{BucketId, EventId};
use crate::store::Durability;
use crate::time::{Timestamp, When};

const FORMAT: u8 = 1;
const HEAD: usize = 13;
const GIVEN: u8 = 1;
const REPLACES: u8 = 2;
const HAS_DUE: u8 = 4;
const DERIVED: u8 = 8;

/// An event that is prepared and not pushed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedEvent {
    pub(super) event: NewEvent,
    /// Whether the caller chose its id.
    pub(super) is_given: bool,
    /// Whether its id and its bucket follow from a row of plain SQL, which may be read again when its
    /// queue has another number of buckets.
    pub(super) is_derived: bool,
    pub(super) durability: Option<Durability>,
    /// Whether it may have been pushed before; not among its bytes.
    pub(super) is_repeated: bool,
}

impl StagedEvent {
    /// Fixes the due time of an event at `now_us`.
    pub(super) fn new(
        mut event: NewEvent,
        is_given: bool,
        durability: Option<Durability>,
        now_us: u64,
    ) -> Self {
        if matches!(event.when, When::After(_)) {
            event.when = When::At(event.when.due(now_us));
        }
        Self {
            event,
            is_given,
            is_derived: false,
            durability,
            is_repeated: false,
        }
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> EventId {
        self.event.envelope.id
    }

    /// Returns the name of its queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.event.envelope.queue
    }

    /// Returns its bucket.
    #[must_use]
    pub fn bucket(&self) -> BucketId {
        self.event.envelope.bucket()
    }

    /// Returns whether the caller chose its id, so that no other may take its place.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.is_given
    }

    /// Returns what it has in common with the events among which the order of the pushes decides: its
    /// unique key, or an id that its caller chose.
    #[must_use]
    pub fn order_key(&self) -> Option<String> {
        let unique = self.event.envelope.unique.as_ref();
        let unique = unique.map(|key| format!("unique {key}"));
        unique.or_else(|| self.is_given.then(|| self.id().to_string()))
    }

    /// Returns when it was prepared, which is no later than its first push.
    #[must_use]
    pub fn staged_at(&self) -> Timestamp {
        self.event.envelope.pushed
    }

    /// Sets whether it may have been pushed before.
    #[must_use]
    pub fn repeated(mut self, is_repeated: bool) -> Self {
        self.is_repeated = is_repeated;
        self
    }

    /// Returns whether it may have been pushed before.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Returns its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, 0, 0];
        if self.is_given {
            bytes[1] |= GIVEN;
        }
        if self.event.on_taken == Unique::Replace {
            bytes[1] |= REPLACES;
        }
        if self.is_derived {
            bytes[1] |= DERIVED;
        }
        let (level, replicas) = match self.durability {
            None => (0, 0),
            Some(Durability::Memory) => (1, 0),
            Some(Durability::OsCache) => (2, 0),
            Some(Durability::Disk) => (3, 0),
            Some(Durability::Replicated(replicas)) => (4, replicas),
        };
        bytes[2] = level;
        bytes.extend_from_slice(&replicas.to_be_bytes());
        let due = match self.event.when {
            When::At(due) => {
                bytes[1] |= HAS_DUE;
                due.as_millis()
            }
            When::Now | When::After(_) => 0, // `new` leaves no delay
        };
        bytes.extend_from_slice(&due.to_be_bytes());
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum);
        wire::encode(&self.event.envelope, &mut bytes);
        bytes
    }

    /// Decodes the bytes of [`encode`](Self::encode).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) for bytes that are damaged, and for those of
    /// a newer duly.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let truncated = || Error::corrupt("the staged event is truncated");
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or_else(truncated)?;
        let (sum, envelope) = rest.split_first_chunk::<4>().ok_or_else(truncated)?;
        if head[0] != FORMAT {
            return Err(Error::corrupt(format!(
                "the staged event has format {}, this duly reads format {FORMAT}; it was written by \
                 another version, or is damaged",
                head[0]
            )));
        }
        if checksum(head) != *sum {
            return Err(Error::corrupt("the checksum of the staged event is wrong"));
        }
        let replicas = u16::from_be_bytes([head[3], head[4]]);
        let durability = match head[2] {
            0 => None,
            1 => Some(Durability::Memory),
            2 => Some(Durability::OsCache),
            3 => Some(Durability::Disk),
            4 => Some(Durability::Replicated(replicas)),
            other => {
                let wrong = format!("the staged event has durability {other}, known are 0 to 4");
                return Err(Error::corrupt(wrong));
            }
        };
        let due = head[5..]
            .iter()
            .fold(0, |ms, byte| ms << 8 | u64::from(*byte));
        let is = |flag| head[1] & flag > 0;
        Ok(Self {
            event: NewEvent {
                envelope: Arc::new(wire::decode(envelope)?),
                when: if is(HAS_DUE) {
                    When::At(Timestamp::from_millis(due))
                } else {
                    When::Now
                },
                on_taken: if is(REPLACES) {
                    Unique::Replace
                } else {
                    Unique::Keep
                },
            },
            is_given: is(GIVEN),
            is_derived: is(DERIVED),
            durability,
            is_repeated: false,
        })
    }
}

fn checksum(head: &[u8]) -> [u8; 4] {
    (xxh3_64(head) as u32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::event::{Envelope, Payload, QueueName};

    fn staged(when: When, on_taken: Unique, durability: Option<Durability>) -> StagedEvent {
        let id = EventId::from_parts(Timestamp::from_millis(77), BucketId(3), 9);
        let queue = QueueName::new("order-close").unwrap();
        let envelope = Envelope::new(id, queue, Payload::from(&b"{}"[..]));
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when,
            on_taken,
        };
        StagedEvent::new(event, on_taken == Unique::Replace, durability, 5_000_000)
    }

    #[test]
    fn what_is_decoded_is_what_was_encoded() {
        let durabilities = [
            None,
            Some(Durability::Memory),
            Some(Durability::OsCache),
            Some(Durability::Disk),
            Some(Durability::Replicated(700)),
        ];
        for durability in durabilities {
            for when in [When::Now, When::At(Timestamp::from_millis(u64::MAX >> 8))] {
                for on_taken in [Unique::Keep, Unique::Replace] {
                    let mut event = staged(when, on_taken, durability);
                    for is_derived in [false, true] {
                        event.is_derived = is_derived;
                        assert_eq!(StagedEvent::decode(&event.encode()).unwrap(), event);
                    }
                }
            }
        }
    }

    #[test]
    fn a_delay_counts_from_the_insert() {
        let delay = When::After(std::time::Duration::from_secs(3));
        let event = staged(delay, Unique::Keep, None);
        assert_eq!(event.event.when, When::At(Timestamp::from_millis(8_000)));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed() {
        let bytes = staged(When::Now, Unique::Keep, None).encode();
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            let error = StagedEvent::decode(&damaged).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {at}: {error}");
        }
        for len in 0..bytes.len() {
            assert!(StagedEvent::decode(&bytes[..len]).is_err(), "{len}");
        }
    }
}
