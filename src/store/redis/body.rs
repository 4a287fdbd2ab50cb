//! The encoding of an envelope in the Redis store, without the fields that its keys contain.
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
//! Scripts read the attempts, the expiry, the lateness, the keys, the trace and the payload
//! (`lua/body.lua`), and compare fingerprints. The trace stands at the end, where a script finds it
//! without the headers. The check and the fingerprint together find any damage.

use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result};
use crate::event::{Envelope, EventId, Headers, LatePolicy, Payload, QueueName, TraceId};
use crate::time::Timestamp;

/// The length of the prefix that identifies a body among those of the same event.
pub(super) const HEAD_LEN: usize = 12;

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
pub fn encode(envelope: &Envelope) -> Vec<u8> {
    let (flags, trace) = (extras_flags(envelope), envelope.trace());
    let keeps = envelope.keeps_payload;
    let has_extras = flags != 0 || envelope.attempts != ATTEMPTS || keeps; // a trace has a header
    let mut out =
        Vec::with_capacity(HEAD_LEN + envelope.payload.len() + 64 * usize::from(has_extras));
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
        put_extras(&mut out, envelope, flags, trace);
    }
    let check = check(envelope.id, &out);
    match format {
        1 => out[1..4].copy_from_slice(&check),
        _ => out[2..4].copy_from_slice(&check[1..]),
    }
    out.extend_from_slice(envelope.payload.as_bytes());
    out
}

/// Returns the newest format that this version reads and writes. In tests a child process may act
/// as a newer build.
pub(super) fn newest() -> u8 {
    #[cfg(feature = "testing")]
    if let Some(format) = pretended_format() {
        return format;
    }
    FORMAT
}

/// Returns the format that a test pretends to be the newest, for bodies and records alike; its
/// bytes are those of format 1, except for the beginning.
#[cfg(feature = "testing")]
pub(super) fn pretended_format() -> Option<u8> {
    static FORMAT: std::sync::OnceLock<Option<u8>> = std::sync::OnceLock::new();
    *FORMAT.get_or_init(|| std::env::var("DULY_TEST_FORMAT").ok()?.parse().ok())
}

/// Decodes the envelope of the event `id` of `queue`.
pub fn decode(id: EventId, queue: &QueueName, bytes: &[u8]) -> Result<Envelope> {
    read(id, queue, bytes)
        .map_err(|wrong| Error::corrupt(format!("the body of event {id} {wrong}")))
}

type Read<T> = std::result::Result<T, String>;

/// The error for flags that no version has written so far.
const FLAGS: &str = "has unknown flags: it was written by a newer duly, or it is damaged";

fn read(id: EventId, queue: &QueueName, bytes: &[u8]) -> Read<Envelope> {
    let mut rest = BodyReader(bytes);
    let [first] = rest.array()?;
    let format = match first >> 4 {
        NEWER => bytes.get(1).copied().unwrap_or_default(),
        format => format,
    };
    let is_known = match first >> 4 {
        FORMAT => true,
        NEWER => (FORMAT + 1..=newest()).contains(&format),
        _ => false,
    };
    if !is_known {
        return Err(format!(
            "has format {format}, this duly reads formats to {}: it was written by a newer duly, or \
             it is damaged",
            newest()
        ));
    }
    if first & (KEEPS | TRACED) != 0 && first & EXTRAS == 0 {
        return Err(FLAGS.into());
    }
    let said = rest.array::<3>()?;
    let fingerprint = u64::from_be_bytes(rest.array()?);
    let mut envelope = Envelope::new(id, queue.clone(), Payload::from(&[][..]));
    envelope.attempts = ATTEMPTS;
    envelope.delayed = first & DELAYED != 0;
    envelope.keeps_payload = first & KEEPS != 0;
    if first & EXTRAS != 0 {
        let len = u32::from_be_bytes(rest.array()?);
        let extras = rest.take(len as usize)?;
        read_extras(&mut envelope, BodyReader(extras), first & TRACED != 0)?;
    }
    let (head, payload) = bytes.split_at(bytes.len() - rest.0.len());
    envelope.payload = Payload::from(payload);
    let check = check(id, head);
    let is_whole = match format {
        FORMAT => check == said,
        _ => check[1..] == said[1..],
    };
    if !is_whole || envelope.fingerprint() != fingerprint {
        return Err("is damaged: its checksum does not hold".into());
    }
    Ok(envelope)
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

fn read_extras(envelope: &mut Envelope, mut rest: BodyReader<'_>, is_traced: bool) -> Read<()> {
    let [flags] = rest.array()?;
    let has = |flag: u8| flags & flag != 0;
    if has(LATE_EXPIRE) && has(LATE_BURY) {
        return Err(FLAGS.into());
    }
    envelope.attempts = u16::from_be_bytes(rest.array()?);
    if has(EXPIRES) {
        envelope.expires = Some(rest.timestamp()?);
    }
    if has(LATE_EXPIRE) || has(LATE_BURY) {
        let secs = u64::from_be_bytes(rest.array()?);
        let nanos = u32::from_be_bytes(rest.array()?);
        if nanos >= 1_000_000_000 {
            return Err("has a lateness whose nanoseconds exceed a second".into());
        }
        let late = Duration::new(secs, nanos);
        envelope.late = match has(LATE_BURY) {
            true => LatePolicy::Bury(late),
            false => LatePolicy::Expire(late),
        };
    }
    if has(PUSHED) {
        envelope.pushed = rest.timestamp()?;
    }
    if has(VERSION) {
        envelope.version = u32::from_be_bytes(rest.array()?);
    }
    if has(KEY) {
        envelope.key = Some(rest.text()?);
    }
    if has(UNIQUE) {
        envelope.unique = Some(rest.text()?);
    }
    if has(HEADERS) {
        let [count] = rest.array()?;
        let headers = (0..count).map(|_| Ok((rest.text()?, rest.text()?)));
        envelope.headers = headers.collect::<Read<Headers>>()?;
    }
    if is_traced && envelope.trace() != TraceId::from_bytes(rest.array()?) {
        return Err("has a trace that its headers do not name: it is damaged".into());
    }
    match rest.0 {
        [] => Ok(()),
        _ => Err("has extras longer than their length".into()),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes()); // at most TEXT_BYTES_MAX
    out.extend_from_slice(text.as_bytes());
}

/// The unread rest.
struct BodyReader<'a>(&'a [u8]);

impl<'a> BodyReader<'a> {
    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or("is truncated")?;
        self.0 = rest;
        Ok(*array)
    }

    fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("is truncated")?;
        self.0 = rest;
        Ok(taken)
    }

    fn timestamp(&mut self) -> Read<Timestamp> {
        Ok(Timestamp::from_millis(u64::from_be_bytes(self.array()?)))
    }

    fn text(&mut self) -> Read<String> {
        let len = u16::from_be_bytes(self.array()?);
        let text = self.take(usize::from(len))?.to_vec();
        String::from_utf8(text).map_err(|_| "has a text that is not UTF-8".into())
    }
}
