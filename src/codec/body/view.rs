//! Reading: what is verified before anything of it is used.

use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::{
    ATTEMPTS, DELAYED, EXPIRES, EXTRAS, FORMAT, HEADERS, KEEPS, KEY, LATE_BURY, LATE_EXPIRE, NEWER,
    PUSHED, TRACED, UNIQUE, VERSION, check, newest,
};
use crate::error::{Error, Result};
use crate::event::{
    BUCKET_HEADER, BucketId, Envelope, EventId, LatePolicy, Payload, QueueName, TRACE_HEADER,
    TraceId, UNIQUE_HEADER, read_bucket, read_unique_for,
};
use crate::time::Timestamp;

type Read<T> = std::result::Result<T, String>;

/// The error for flags that no version has written so far.
const FLAGS: &str = "has unknown flags: it was written by a newer duly, or it is damaged";

/// A verified envelope whose texts and payload are still where they were read: a recovery looks at
/// many.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// As in [`Envelope::id`].
    pub id: EventId,
    /// As in [`Envelope::queue`]; it may be no legal name.
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
    /// As [`Envelope::fingerprint`].
    pub fingerprint: u64,
    headers: HeaderReader<'a>,
    is_traced: bool,
}

impl<'a> View<'a> {
    /// Verifies and parses the encoding of the event `id` of `queue`.
    pub(in crate::codec) fn read(id: EventId, queue: &'a str, bytes: &'a [u8]) -> Result<Self> {
        Self::try_read(id, queue, bytes)
            .map_err(|wrong| Error::corrupt(format!("the body of event {id} {wrong}")))
    }

    fn try_read(id: EventId, queue: &'a str, bytes: &'a [u8]) -> Read<Self> {
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
                "has format {format}, this duly reads formats to {}: it was written by a newer \
                 duly, or it is damaged",
                newest()
            ));
        }
        if first & (KEEPS | TRACED) != 0 && first & EXTRAS == 0 {
            return Err(FLAGS.into());
        }
        let said = rest.array::<3>()?;
        let fingerprint = u64::from_be_bytes(rest.array()?);
        let mut view = View {
            id,
            queue,
            pushed: id.created(),
            attempts: ATTEMPTS,
            delayed: first & DELAYED != 0,
            version: 0,
            key: None,
            unique: None,
            expires: None,
            late: LatePolicy::Deliver,
            keeps_payload: first & KEEPS != 0,
            payload: &[],
            fingerprint,
            headers: HeaderReader::default(),
            is_traced: first & TRACED != 0,
        };
        if first & EXTRAS != 0 {
            let len = u32::from_be_bytes(rest.array()?);
            view.read_extras(BodyReader(rest.take(len as usize)?))?;
        }
        let (head, payload) = bytes.split_at(bytes.len() - rest.0.len());
        view.payload = payload;
        let check = check(id, head);
        let is_whole = match format {
            FORMAT => check == said,
            _ => check[1..] == said[1..],
        };
        if !is_whole || fingerprint_of(queue, payload) != fingerprint {
            return Err("is damaged: its checksum does not hold".into());
        }
        Ok(view)
    }

    fn read_extras(&mut self, mut rest: BodyReader<'a>) -> Read<()> {
        let [flags] = rest.array()?;
        let has = |flag: u8| flags & flag != 0;
        if has(LATE_EXPIRE) && has(LATE_BURY) {
            return Err(FLAGS.into());
        }
        self.attempts = u16::from_be_bytes(rest.array()?);
        if has(EXPIRES) {
            self.expires = Some(rest.timestamp()?);
        }
        if has(LATE_EXPIRE) || has(LATE_BURY) {
            let late = rest.duration()?;
            self.late = if has(LATE_BURY) {
                LatePolicy::Bury(late)
            } else {
                LatePolicy::Expire(late)
            };
        }
        if has(PUSHED) {
            self.pushed = rest.timestamp()?;
        }
        if has(VERSION) {
            self.version = u32::from_be_bytes(rest.array()?);
        }
        if has(KEY) {
            self.key = Some(rest.text()?);
        }
        if has(UNIQUE) {
            self.unique = Some(rest.text()?);
        }
        if has(HEADERS) {
            self.headers = rest.headers()?;
        }
        let trace = if self.is_traced {
            Some(TraceId::from_bytes(rest.array()?))
        } else {
            None
        };
        if trace != self.headers.trace().map(Some) {
            return Err("has a trace that its headers do not name: it is damaged".into());
        }
        if !rest.0.is_empty() {
            return Err("has extras longer than their length".into());
        }
        let repeats = has(PUSHED) && self.pushed == self.id.created()
            || has(VERSION) && self.version == 0
            || has(HEADERS) && self.headers.count == 0
            || flags == 0 && self.attempts == ATTEMPTS && !self.keeps_payload;
        if repeats {
            Err("has extras that say what goes without saying: it is damaged".into())
        } else {
            Ok(())
        }
    }

    /// Builds the envelope; `queue` is the name in [`queue`](Self::queue).
    pub(in crate::codec) fn to_envelope(self, queue: QueueName) -> Envelope {
        let headers = self.headers;
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Envelope {
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
            headers: headers.map(owned).collect(),
            keeps_payload: self.keeps_payload,
        }
    }

    /// As [`Envelope::tells`].
    #[must_use]
    pub fn tells(&self) -> bool {
        self.keeps_payload || self.is_traced
    }

    /// As [`Envelope::unique_for`].
    #[must_use]
    pub fn unique_for(&self) -> Option<Duration> {
        self.unique?;
        read_unique_for(self.headers.value_of(UNIQUE_HEADER)?)
    }
}

impl View<'_> {
    /// As [`Envelope::bucket`].
    #[must_use]
    pub fn bucket(&self) -> BucketId {
        read_bucket(self.headers.value_of(BUCKET_HEADER), self.id)
    }
}

fn fingerprint_of(queue: &str, payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(queue.as_bytes());
    hash.update(&[0]);
    hash.update(payload);
    hash.digest()
}

/// The unread rest.
#[derive(Clone, Copy, Debug, Default)]
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

    fn duration(&mut self) -> Read<Duration> {
        let secs = u64::from_be_bytes(self.array()?);
        let nanos = u32::from_be_bytes(self.array()?);
        match nanos {
            0..1_000_000_000 => Ok(Duration::new(secs, nanos)),
            _ => Err("has a lateness whose nanoseconds exceed a second".into()),
        }
    }

    fn text(&mut self) -> Read<&'a str> {
        let len = u16::from_be_bytes(self.array()?);
        let text = self.take(usize::from(len))?;
        str::from_utf8(text).map_err(|_| "has a text that is not UTF-8".into())
    }

    /// Reads over the headers, so that every one of them can be read.
    fn headers(&mut self) -> Read<HeaderReader<'a>> {
        let [count] = self.array()?;
        let headers = HeaderReader { count, rest: *self };
        for _ in 0..count {
            self.text()?;
            self.text()?;
        }
        Ok(headers)
    }
}

/// Headers that were read over once.
#[derive(Clone, Copy, Debug, Default)]
struct HeaderReader<'a> {
    count: u8,
    rest: BodyReader<'a>,
}

impl<'a> HeaderReader<'a> {
    fn value_of(self, name: &str) -> Option<&'a str> {
        let mut headers = self;
        headers
            .find(|(its, _)| *its == name)
            .map(|(_, value)| value)
    }

    fn trace(self) -> Option<TraceId> {
        TraceId::of_header(self.value_of(TRACE_HEADER)?)
    }
}

impl<'a> Iterator for HeaderReader<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        Some((self.rest.text().ok()?, self.rest.text().ok()?))
    }
}
