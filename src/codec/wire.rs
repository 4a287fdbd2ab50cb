//! The binary format of an [`Envelope`], with a version and a checksum.
//!
//! # Version 1, byte by byte
//!
//! Numbers are little-endian. A *length* is a LEB128 number in its shortest form; a *text* is a
//! length and that many bytes of UTF-8.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 1 | version, `1` |
//! | 1 | 1 | flags: 1 delayed, 2 key, 4 unique key, 8 expiry, 16 late: expire, 32 late: bury, 64 its records keep its payload |
//! | 2 | 16 | event id, big-endian, so that it sorts |
//! | 18 | 8 | pushed, ms since the epoch |
//! | 26 | 2 | attempts |
//! | 28 | 4 | version of the payload's type |
//! | 32 | 8 | expiry, ms since the epoch; only with flag 8 |
//! | .. | 12 | lateness: 8 of seconds, 4 of nanoseconds; only with flag 16 or 32 |
//! | .. | .. | queue, a text |
//! | .. | .. | key, a text; only with flag 2 |
//! | .. | .. | unique key, a text; only with flag 4 |
//! | .. | .. | headers: their number as a length, then name and value, both texts, of each |
//! | .. | .. | payload: its length and its bytes |
//! | .. | 8 | xxh3-64 of everything before |
//!
//! Every envelope has exactly one encoding; anything longer, shorter or different is rejected.
//!
//! # If you change this
//!
//! 1. Increment [`VERSION`] and add a table for the new form; keep the old one. Also increment the
//!    format of the embedded store, so that an older duly rejects the file: it would discard what it
//!    cannot read as damaged.
//! 2. Keep reading every older version: stores on disk contain them for as long as events wait.
//! 3. Add golden bytes of the new version to `tests/wire.rs`; never change those of an old one.

use std::time::Duration;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::error::{Error, Result};
use crate::event::{
    Envelope, EventId, LatePolicy, Payload, QueueName, TRACE_HEADER, TraceId, UNIQUE_HEADER,
    read_unique_for,
};
use crate::time::Timestamp;

/// The version that [`encode`] writes.
pub const VERSION: u8 = 1;

const DELAYED: u8 = 1;
const KEY: u8 = 2;
const UNIQUE: u8 = 4;
const EXPIRES: u8 = 8;
const LATE_EXPIRE: u8 = 16;
const LATE_BURY: u8 = 32;
const KEEPS_PAYLOAD: u8 = 64;
const KNOWN: u8 = DELAYED | KEY | UNIQUE | EXPIRES | LATE_EXPIRE | LATE_BURY | KEEPS_PAYLOAD;

const CHECKSUM_LEN: usize = 8;

/// Appends the encoding of `envelope` to `out`.
///
/// # Examples
///
/// ```
/// use duly::EventId;
/// use duly::__internal::wire;
/// use duly::event::{Envelope, Payload};
///
/// let id = EventId::from_bytes([7; 16]);
/// let envelope = Envelope::new(id, "order-close".parse()?, Payload::from(&b"{}"[..]));
/// let mut bytes = Vec::new();
/// wire::encode(&envelope, &mut bytes);
/// assert_eq!(wire::decode(&bytes)?, envelope);
///
/// bytes[20] ^= 1;
/// assert_eq!(wire::decode(&bytes).unwrap_err().kind(), duly::ErrorKind::Corrupt);
/// # Ok::<(), duly::Error>(())
/// ```
pub fn encode(envelope: &Envelope, out: &mut Vec<u8>) {
    let from = out.len();
    out.reserve(96 + envelope.payload.len());
    out.push(VERSION);
    out.push(flags(envelope));
    out.extend_from_slice(&envelope.id.to_bytes());
    out.extend_from_slice(&envelope.pushed.as_millis().to_le_bytes());
    out.extend_from_slice(&envelope.attempts.to_le_bytes());
    out.extend_from_slice(&envelope.version.to_le_bytes());
    if let Some(expires) = envelope.expires {
        out.extend_from_slice(&expires.as_millis().to_le_bytes());
    }
    if let LatePolicy::Expire(late) | LatePolicy::Bury(late) = envelope.late {
        out.extend_from_slice(&late.as_secs().to_le_bytes());
        out.extend_from_slice(&late.subsec_nanos().to_le_bytes());
    }
    put_bytes(out, envelope.queue.as_bytes());
    for text in envelope.key.iter().chain(&envelope.unique) {
        put_bytes(out, text.as_bytes());
    }
    put_len(out, envelope.headers.len());
    for (name, value) in &envelope.headers {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value.as_bytes());
    }
    put_bytes(out, envelope.payload.as_bytes());
    let checksum = xxh3_64(&out[from..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Decodes an envelope.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the checksum is wrong, the version unknown,
/// or the encoding malformed.
pub fn decode(bytes: &[u8]) -> Result<Envelope> {
    View::read(bytes)?.to_envelope()
}

/// A zero-copy view of an encoded envelope, with its checksum verified.
///
/// For a store that reads many envelopes at its start and needs few fields of each.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// As in [`Envelope::id`].
    pub id: EventId,
    /// As in [`Envelope::queue`]; not validated yet.
    pub queue: &'a str,
    /// As in [`Envelope::pushed`].
    pub pushed: Timestamp,
    /// As in [`Envelope::attempts`].
    pub attempts: u16,
    /// As in [`Envelope::delayed`].
    pub delayed: bool,
    /// As in [`Envelope::version`].
    pub version: u32,
    /// As in [`Envelope::key`].
    pub key: Option<&'a str>,
    /// As in [`Envelope::unique`].
    pub unique: Option<&'a str>,
    /// As in [`Envelope::expires`].
    pub expires: Option<Timestamp>,
    /// As in [`Envelope::late`].
    pub late: LatePolicy,
    /// As in [`Envelope::keeps_payload`].
    pub keeps_payload: bool,
    /// The bytes of [`Envelope::payload`].
    pub payload: &'a [u8],
    headers: EnvelopeReader<'a>,
}

impl<'a> View<'a> {
    /// Verifies and parses `bytes`.
    ///
    /// # Errors
    ///
    /// As [`decode`].
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        // The version comes first: it defines the encoding of the rest, the checksum included.
        match bytes.first() {
            Some(&VERSION) => {}
            Some(&version) => {
                return Err(Error::corrupt(format!(
                    "the envelope has version {version}, but this duly reads version {VERSION}: a \
                     newer duly wrote it, or it is damaged"
                )));
            }
            None => return Err(Error::corrupt("the envelope is empty")),
        }
        let Some((body, checksum)) = bytes.split_last_chunk::<CHECKSUM_LEN>() else {
            return Err(Error::corrupt("the envelope ends before its checksum"));
        };
        if xxh3_64(body).to_le_bytes() != *checksum {
            return Err(Error::corrupt(
                "the checksum of the envelope is wrong: its bytes were modified or truncated",
            ));
        }
        Self::read_v1(&body[1..])
    }

    fn read_v1(body: &'a [u8]) -> Result<Self> {
        let mut reader = EnvelopeReader(body);
        let flags = reader.array::<1>()?[0];
        if flags & !KNOWN != 0 || flags & LATE_EXPIRE != 0 && flags & LATE_BURY != 0 {
            return Err(malformed("has unknown flags"));
        }
        let has = |flag: u8| flags & flag != 0;
        let id = EventId::from_bytes(reader.array()?);
        let pushed = reader.timestamp()?;
        let attempts = u16::from_le_bytes(reader.array()?);
        let version = u32::from_le_bytes(reader.array()?);
        let expires = has(EXPIRES).then(|| reader.timestamp()).transpose()?;
        let late = match (has(LATE_EXPIRE), has(LATE_BURY)) {
            (true, _) => LatePolicy::Expire(reader.duration()?),
            (_, true) => LatePolicy::Bury(reader.duration()?),
            _ => LatePolicy::Deliver,
        };
        let queue = reader.text()?;
        let key = has(KEY).then(|| reader.text()).transpose()?;
        let unique = has(UNIQUE).then(|| reader.text()).transpose()?;
        let headers = reader;
        for _ in 0..reader.len()? {
            reader.text()?;
            reader.text()?;
        }
        let payload = reader.bytes()?;
        if !reader.0.is_empty() {
            return Err(malformed("has trailing bytes after its payload"));
        }
        Ok(Self {
            id,
            queue,
            pushed,
            attempts,
            delayed: has(DELAYED),
            version,
            key,
            unique,
            expires,
            late,
            keeps_payload: has(KEEPS_PAYLOAD),
            payload,
            headers,
        })
    }

    /// Builds the envelope.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the queue name is invalid.
    pub fn to_envelope(&self) -> Result<Envelope> {
        let queue = QueueName::new(self.queue)
            .map_err(|error| malformed("has an invalid queue name").because(error))?;
        let mut reader = self.headers;
        let headers = (0..reader.len()?)
            .map(|_| Ok((reader.text()?.to_owned(), reader.text()?.to_owned())))
            .collect::<Result<_>>()?;
        Ok(Envelope {
            id: self.id,
            queue,
            payload: Payload::from(self.payload),
            pushed: self.pushed,
            attempts: self.attempts,
            delayed: self.delayed,
            version: self.version,
            key: self.key.map(str::to_owned),
            unique: self.unique.map(str::to_owned),
            expires: self.expires,
            late: self.late,
            headers,
            keeps_payload: self.keeps_payload,
        })
    }

    /// As [`Envelope::tells`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the headers are malformed.
    pub fn tells(&self) -> Result<bool> {
        let mut reader = self.headers;
        let mut tells = self.keeps_payload;
        for _ in 0..reader.len()? {
            let (name, value) = (reader.text()?, reader.text()?);
            tells |= name == TRACE_HEADER && TraceId::of_header(value).is_some();
        }
        Ok(tells)
    }

    /// As [`Envelope::unique_for`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the headers are malformed.
    pub fn unique_for(&self) -> Result<Option<Duration>> {
        let mut reader = self.headers;
        for _ in 0..reader.len()? {
            let (name, value) = (reader.text()?, reader.text()?);
            if name == UNIQUE_HEADER {
                return Ok(self.unique.and_then(|_| read_unique_for(value)));
            }
        }
        Ok(None)
    }

    /// As [`Envelope::fingerprint`], without the envelope.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.queue.as_bytes());
        hash.update(&[0]);
        hash.update(self.payload);
        hash.digest()
    }
}

fn flags(envelope: &Envelope) -> u8 {
    let late = match envelope.late {
        LatePolicy::Deliver => 0,
        LatePolicy::Expire(_) => LATE_EXPIRE,
        LatePolicy::Bury(_) => LATE_BURY,
    };
    [
        (envelope.delayed, DELAYED),
        (envelope.key.is_some(), KEY),
        (envelope.unique.is_some(), UNIQUE),
        (envelope.expires.is_some(), EXPIRES),
        (envelope.keeps_payload, KEEPS_PAYLOAD),
    ]
    .into_iter()
    .filter(|(set, _)| *set)
    .fold(late, |flags, (_, flag)| flags | flag)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_len(out: &mut Vec<u8>, mut len: usize) {
    while len >= 0x80 {
        out.push((len & 0x7F) as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8); // less than 0x80
}

fn malformed(how: &str) -> Error {
    Error::corrupt(format!("the envelope {how}"))
}

/// A cursor over the remaining bytes.
#[derive(Clone, Copy, Debug)]
struct EnvelopeReader<'a>(&'a [u8]);

impl<'a> EnvelopeReader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((array, rest)) = self.0.split_first_chunk::<N>() else {
            return Err(malformed("ends too early"));
        };
        self.0 = rest;
        Ok(*array)
    }

    fn timestamp(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::from_millis(u64::from_le_bytes(self.array()?)))
    }

    fn duration(&mut self) -> Result<Duration> {
        let secs = u64::from_le_bytes(self.array()?);
        let nanos = u32::from_le_bytes(self.array()?);
        if nanos >= 1_000_000_000 {
            return Err(malformed(
                "has a lateness of more nanoseconds than a second",
            ));
        }
        Ok(Duration::new(secs, nanos))
    }

    fn len(&mut self) -> Result<usize> {
        let mut len = 0_usize;
        for shift in (0..usize::BITS).step_by(7) {
            let [byte] = self.array()?;
            let bits = usize::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            len |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(malformed(
                        "has a length that is not in its shortest encoding",
                    ));
                }
                return Ok(len);
            }
        }
        Err(malformed("has a length that overflows"))
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.len()?;
        let Some((bytes, rest)) = self.0.split_at_checked(len) else {
            return Err(malformed("ends too early"));
        };
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|error| malformed("has a text that is not UTF-8").because(error))
    }
}
