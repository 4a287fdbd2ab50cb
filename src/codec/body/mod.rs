//! The binary format of an [`Envelope`] without its id and its queue, which keys or rows contain.
//!
//! # Newer formats
//!
//! Every format after format 1 begins with 15 in the high four bits and with its number, 2 to 15,
//! in the second byte, and keeps the fingerprint at 4. So every version distinguishes a newer
//! format from damage: a newer event is left to a version that reads it, which handles, cancels and
//! ends it; a damaged one becomes a dead letter.
//!
//! # Format 1, byte by byte
//!
//! Numbers are big-endian.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 1 | format in the high four bits, `1`; flags: 1 delayed, 2 extras, 4 its records keep the payload, 8 traced; the last two only with 2 |
//! | 1 | 3 | check: the low bytes of xxh3-64 of the id and everything here but the payload |
//! | 4 | 8 | fingerprint: xxh3-64 of the queue, a zero byte and the payload |
//! | 12 | .. | extras, only with flag 2: their length from here on, less these 4 bytes |
//! | .. | .. | payload |
//!
//! Extras hold the rarely used fields; without them attempts are 16 and the event was pushed when
//! its id was made:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | their length without these 4 |
//! | 1 | flags: 1 key, 2 unique key, 4 expiry, 8 late: expire, 16 late: bury, 32 pushed, 64 version, 128 headers |
//! | 2 | attempts |
//! | 8 | expiry, ms since the epoch; only with flag 4 |
//! | 12 | lateness: 8 of seconds, 4 of nanoseconds; only with flag 8 or 16 |
//! | 8 | pushed, ms since the epoch; only with flag 32 |
//! | 4 | version of the payload's type; only with flag 64 |
//! | .. | key, unique key: a length of 2 and the text; only with flags 1, 2 |
//! | .. | headers: their number in 1, then name and value of each, both with a length of 2; flag 128 |
//! | 16 | the trace that the headers name; only of a traced one |
//!
//! Every envelope has exactly one encoding; anything else is rejected. Scripts of the Redis store
//! read the attempts, the expiry, the lateness, the keys, the trace and the payload
//! (`lua/body.lua`), and compare fingerprints. The trace stands at the end, where a script finds it
//! without the headers. The check and the fingerprint together find any damage.
//!
//! # If you change this
//!
//! Add a table for the new format and keep reading every older one: stores contain them for as long
//! as events wait. Increment the format of the embedded store, so that an older duly refuses the
//! file instead of discarding what it cannot read. Add golden bytes to `tests/wire.rs`, and never
//! change those of an older format.

mod view;

use xxhash_rust::xxh3::Xxh3;

pub use self::view::View;
#[cfg(feature = "redis")]
use crate::error::Result;
#[cfg(feature = "redis")]
use crate::event::QueueName;
use crate::event::{Envelope, EventId, LatePolicy, TraceId};

/// The length of the prefix that identifies a body among those of the same event.
pub(crate) const HEAD_LEN: usize = 12;

const FORMAT: u8 = 1;
/// The high four bits of every format after format 1.
const NEWER: u8 = 15;
const DELAYED: u8 = 1;
const EXTRAS: u8 = 2;
const KEEPS: u8 = 4;
const TRACED: u8 = 8;
/// The number of attempts in a body without extras.
const ATTEMPTS: u16 = 16;

const KEY: u8 = 1;
const UNIQUE: u8 = 2;
const EXPIRES: u8 = 4;
const LATE_EXPIRE: u8 = 8;
const LATE_BURY: u8 = 16;
const PUSHED: u8 = 32;
const VERSION: u8 = 64;
const HEADERS: u8 = 128;

/// Encodes `envelope`.
#[cfg(feature = "redis")]
pub fn encode(envelope: &Envelope) -> Vec<u8> {
    let mut out = Vec::new();
    append(envelope, &mut out);
    out
}

/// Returns whether these bytes have format 1 and no extras.
#[cfg(feature = "redis")]
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    bytes
        .first()
        .is_some_and(|head| head & !DELAYED == FORMAT << 4)
}

/// Appends the encoding of `envelope` to `out`.
pub(super) fn append(envelope: &Envelope, out: &mut Vec<u8>) {
    let (flags, trace) = (extras_flags(envelope), envelope.trace());
    let keeps = envelope.keeps_payload;
    let has_extras = flags != 0 || envelope.attempts != ATTEMPTS || keeps; // a trace has a header
    out.reserve(HEAD_LEN + envelope.payload.len() + 64 * usize::from(has_extras));
    let from = out.len();
    let said = [
        (envelope.delayed, DELAYED),
        (has_extras, EXTRAS),
        (keeps, KEEPS),
        (trace.is_some(), TRACED),
    ];
    let format = newest();
    match format {
        1 => out.extend_from_slice(&[FORMAT << 4 | joined(&said), 0, 0, 0]),
        _ => out.extend_from_slice(&[NEWER << 4 | joined(&said), format, 0, 0]),
    }
    out.extend_from_slice(&envelope.fingerprint().to_be_bytes());
    if has_extras {
        put_extras(out, envelope, flags, trace);
    }
    let check = check(envelope.id, &out[from..]);
    match format {
        1 => out[from + 1..from + 4].copy_from_slice(&check),
        _ => out[from + 2..from + 4].copy_from_slice(&check[1..]),
    }
    out.extend_from_slice(envelope.payload.as_bytes());
}

/// Returns the newest format that this version reads and writes. In tests a child process may act
/// as a newer build.
pub(crate) fn newest() -> u8 {
    #[cfg(feature = "testing")]
    if let Some(format) = pretended_format() {
        return format;
    }
    FORMAT
}

/// Returns the format that a test pretends to be the newest, for bodies and records alike; its
/// bytes are those of format 1, except for the beginning.
#[cfg(feature = "testing")]
pub(crate) fn pretended_format() -> Option<u8> {
    static FORMAT: std::sync::OnceLock<Option<u8>> = std::sync::OnceLock::new();
    *FORMAT.get_or_init(|| std::env::var("DULY_TEST_FORMAT").ok()?.parse().ok())
}

/// Decodes the envelope of the event `id` of `queue`.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if a checksum is wrong, the format unknown, or
/// the encoding malformed.
#[cfg(feature = "redis")]
pub fn decode(id: EventId, queue: &QueueName, bytes: &[u8]) -> Result<Envelope> {
    Ok(View::read(id, queue, bytes)?.to_envelope(queue.clone()))
}

/// The checksum of everything but the payload, with its own bytes taken as zero.
fn check(id: EventId, head: &[u8]) -> [u8; 3] {
    let mut hash = Xxh3::new();
    hash.update(&id.to_bytes());
    hash.update(&head[..1]);
    hash.update(&head[4..]);
    let [.., a, b, c] = hash.digest().to_be_bytes();
    [a, b, c]
}

fn extras_flags(envelope: &Envelope) -> u8 {
    joined(&[
        (envelope.key.is_some(), KEY),
        (envelope.unique.is_some(), UNIQUE),
        (envelope.expires.is_some(), EXPIRES),
        (matches!(envelope.late, LatePolicy::Expire(_)), LATE_EXPIRE),
        (matches!(envelope.late, LatePolicy::Bury(_)), LATE_BURY),
        (envelope.pushed != envelope.id.created(), PUSHED),
        (envelope.version != 0, VERSION),
        (!envelope.headers.is_empty(), HEADERS),
    ])
}

/// Combines the flags that are set.
fn joined(flags: &[(bool, u8)]) -> u8 {
    let set = flags.iter().filter(|(set, _)| *set);
    set.fold(0, |joined, (_, flag)| joined | flag)
}

fn put_extras(out: &mut Vec<u8>, envelope: &Envelope, flags: u8, trace: Option<TraceId>) {
    let from = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(flags);
    out.extend_from_slice(&envelope.attempts.to_be_bytes());
    if let Some(expires) = envelope.expires {
        out.extend_from_slice(&expires.as_millis().to_be_bytes());
    }
    if let LatePolicy::Expire(late) | LatePolicy::Bury(late) = envelope.late {
        out.extend_from_slice(&late.as_secs().to_be_bytes());
        out.extend_from_slice(&late.subsec_nanos().to_be_bytes());
    }
    if flags & PUSHED != 0 {
        out.extend_from_slice(&envelope.pushed.as_millis().to_be_bytes());
    }
    if flags & VERSION != 0 {
        out.extend_from_slice(&envelope.version.to_be_bytes());
    }
    for text in envelope.key.iter().chain(&envelope.unique) {
        put_text(out, text);
    }
    if flags & HEADERS != 0 {
        out.push(envelope.headers.len() as u8); // at most HEADERS_MAX
        for (name, value) in &envelope.headers {
            put_text(out, name);
            put_text(out, value);
        }
    }
    if let Some(trace) = trace {
        out.extend_from_slice(&trace.to_bytes());
    }
    let len = out.len() - from - 4;
    out[from..from + 4].copy_from_slice(&(len as u32).to_be_bytes()); // some 70 KB at most
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes()); // at most TEXT_BYTES_MAX
    out.extend_from_slice(text.as_bytes());
}
