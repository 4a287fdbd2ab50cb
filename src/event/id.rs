//! Event ids: 128 bits, written as the 26 characters of a ULID.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result};
use crate::event::bucket::BucketId;
use crate::event::queue::QueueName;
use crate::time::Timestamp;

/// Crockford's base 32, as in the ULID specification.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TEXT_LEN: usize = 26;

/// The number of buckets that the ids of names name, which says nothing of where their events lie.
/// Must not change, or a name would get another id.
pub const NAMED_BUCKETS: u16 = 8;

/// The id of an event, sortable by creation time; also its idempotency key.
///
/// 48 bits of creation time in milliseconds, 16 of bucket, 64 of entropy, of which up to 64 ids that
/// are made together share 56. An id of another library, such as any ULID, does as well: where it
/// names no bucket of its queue, a hash chooses one of them ([`place`](Self::place)). Pushing again with the same id changes nothing, so an id chosen before
/// the first try makes every retry safe.
///
/// # Examples
///
/// ```
/// use duly::EventId;
/// use duly::event::BucketId;
/// use duly::time::Timestamp;
///
/// let id = EventId::from_parts(Timestamp::from_millis(1_700_000_000_000), BucketId(7), 42);
/// assert_eq!(id.bucket(), BucketId(7));
/// assert_eq!(id.to_string().parse::<EventId>()?, id);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u128);

impl EventId {
    /// Builds an id from its parts; creation times past the year 10889 lose their high bits.
    #[must_use]
    pub const fn from_parts(created: Timestamp, bucket: BucketId, entropy: u64) -> Self {
        let created = (created.as_millis() & 0xFFFF_FFFF_FFFF) as u128;
        Self(created << 80 | (bucket.0 as u128) << 64 | entropy as u128)
    }

    /// Derives the id for a name in a queue: always the same, in every process and for any number
    /// of buckets, so that pushing under it again does nothing.
    ///
    /// It has no creation time. So it is never rejected as too old, and is recognised as a
    /// duplicate for as long as the dedup window keeps it after its event has ended; for a
    /// guaranteed time also give the event a unique key that stays taken
    /// ([`EventBuilder::unique_for`](crate::EventBuilder::unique_for)). The names of a queue are
    /// distributed over the buckets that it has at the push ([`place`](Self::place)), by 64 bits of a
    /// hash.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::EventId;
    ///
    /// let mail = "mail".parse()?;
    /// let id = EventId::for_name(&mail, "order:7:first-mail");
    /// assert_eq!(id, EventId::for_name(&mail, "order:7:first-mail"));
    /// assert_ne!(id, EventId::for_name(&mail, "order:8:first-mail"));
    /// # Ok::<(), duly::Error>(())
    /// ```
    #[must_use]
    pub fn for_name(queue: &QueueName, name: &str) -> Self {
        let mut hash = Xxh3::new();
        hash.update(queue.as_bytes());
        hash.update(&[0]);
        hash.update(name.as_bytes());
        let entropy = hash.digest() & !u64::from(Self::RUN_FIRST);
        let bucket = BucketId((entropy % u64::from(NAMED_BUCKETS)) as u16);
        Self::from_parts(Timestamp::EPOCH, bucket, entropy)
    }

    /// Derives the id for a name in a queue, as [`for_name`](Self::for_name), of an event whose place is
    /// chosen otherwise: the id names that bucket, so that whoever has it finds the event.
    #[cfg(feature = "schedules")]
    pub(crate) fn for_name_in(queue: &QueueName, bucket: BucketId, name: &str) -> Self {
        let named = Self::for_name(queue, name);
        Self::from_parts(Timestamp::EPOCH, bucket, named.0 as u64)
    }

    /// Derives the id of what was created then, from what it is made of: always the same.
    pub(crate) fn derived(created: Timestamp, parts: &[&[u8]]) -> Self {
        let mut hash = Xxh3::new();
        for part in parts {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.digest128();
        let entropy = digest as u64 & !u64::from(Self::RUN_FIRST);
        Self::from_parts(created, BucketId((digest >> 64) as u16), entropy)
    }

    /// How many ids a run has at most.
    pub(crate) const RUN_MAX: u8 = 64;

    /// The last byte of the first id of a run: no other id that is made at random has a last byte
    /// from this one on.
    const RUN_FIRST: u8 = 128;

    /// Returns a random id in a bucket.
    pub(crate) fn random(created: Timestamp, bucket: BucketId) -> Self {
        Self::from_parts(
            created,
            bucket,
            fastrand::u64(..) & !u64::from(Self::RUN_FIRST),
        )
    }

    /// Returns the first id of a random run: of up to [`RUN_MAX`](Self::RUN_MAX) ids that differ in
    /// their last byte only, so that a store can find one by what it has in common with the others.
    pub(crate) fn random_run(created: Timestamp, bucket: BucketId) -> Self {
        let entropy = (fastrand::u64(..) & !0xFF) | u64::from(Self::RUN_FIRST);
        Self::from_parts(created, bucket, entropy)
    }

    /// Returns its place in its run, from 0, if it has one.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn place_in_run(self) -> Option<u8> {
        let place = (self.0 as u8).checked_sub(Self::RUN_FIRST);
        place.filter(|place| *place < Self::RUN_MAX)
    }

    /// Returns the id at a later place of its run; the caller stays within it.
    pub(crate) const fn plus(self, places: u8) -> Self {
        Self(self.0.wrapping_add(places as u128))
    }

    /// Returns what the ids of its run have in common.
    #[cfg(any(feature = "redis", test))]
    pub(crate) const fn run(self) -> u128 {
        self.0 >> 8
    }

    /// Returns whether `next` is the next id of its run.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn precedes(self, next: Self) -> bool {
        next.place_in_run().is_some_and(|place| place > 0) && next.0 == self.0 + 1
    }

    /// Returns whether it has a creation time; one derived from a name does not.
    #[must_use]
    pub const fn tells_time(self) -> bool {
        self.created().as_millis() > 0
    }

    /// Builds an id from its 16 bytes, big-endian.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Returns the 16 bytes, big-endian; they sort as ids do.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The creation time, by the clock of the process that generated it.
    #[must_use]
    pub const fn created(self) -> Timestamp {
        Timestamp::from_millis((self.0 >> 80) as u64)
    }

    /// The bucket that it names; its event may lie in another ([`place`](Self::place)).
    #[must_use]
    pub const fn bucket(self) -> BucketId {
        BucketId((self.0 >> 64) as u16)
    }

    /// The random part.
    #[must_use]
    pub const fn entropy(self) -> u64 {
        self.0 as u64
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; TEXT_LEN];
        let mut rest = self.0;
        for letter in text.iter_mut().rev() {
            *letter = ALPHABET[(rest & 31) as usize];
            rest >>= 5;
        }
        // Every byte comes from an ASCII alphabet.
        f.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({self})")
    }
}

/// Parses the 26 letters in either case; the look-alikes `I`, `L` and `O` read as `1`, `1` and `0`.
impl FromStr for EventId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() != TEXT_LEN {
            return Err(Error::invalid(format!(
                "an event id has {TEXT_LEN} characters, this one has {}",
                text.chars().count()
            )));
        }
        let mut id = 0_u128;
        for (at, letter) in text.bytes().enumerate() {
            let upper = match letter.to_ascii_uppercase() {
                b'I' | b'L' => b'1',
                b'O' => b'0',
                upper => upper,
            };
            let Some(digit) = ALPHABET.iter().position(|known| *known == upper) else {
                return Err(Error::invalid(format!(
                    "an event id has only letters and digits of base 32, character {} is another",
                    at + 1
                )));
            };
            if at == 0 && digit > 7 {
                return Err(Error::invalid(
                    "an event id starts with a digit from 0 to 7",
                ));
            }
            id = id << 5 | digit as u128;
        }
        Ok(Self(id))
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
