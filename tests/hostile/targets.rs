//! Every place where bytes or text from outside enter the library, as a function of any bytes.
//!
//! A target runs what reads the bytes and asserts what has to hold whatever they are: nothing
//! panics; what is accepted comes back as it was when it is written and read again; what is refused
//! is refused in words, few of them; and nothing holds more memory than a fixed number of times the
//! bytes that it was given. `tests/hostile/driver.rs` and the package in `fuzz` call them.

use std::ffi::OsString;
use std::fmt::{Debug, Display};
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::time::Duration;

use duly::bus::LetterCursor;
use duly::codec::wire::{self, View};
use duly::codec::{Frame, Key, KeyRing, Unopened};
use duly::config::{Format, Settings};
use duly::event::{BucketKey, Envelope, Payload};
use duly::history::{Account, Checker, Entry, Expect, lines};
use duly::record::{Cause, NodeId, Record};
use duly::store::__doors::embedded::{self, Cell, Table};
use duly::store::__doors::redis;
use duly::{
    BucketId, Durability, Error, ErrorKind, EventId, Outcome, QueueChoices, QueueName, RetryPolicy,
    Timestamp, duration,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

/// What reading nothing may hold: tables, messages, buffers.
const BYTES: u64 = 64 * 1024;
/// How many times its input a reader may hold at once, where nothing else is said. An empty header
/// takes two bytes of an envelope and 48 of memory, and a list that grows exists twice.
const TIMES: u64 = 128;
/// As many bytes as an answer may have, for what reading one may hold: the package's buffers, and
/// the table of a cluster's 16,384 slots.
const ANSWER: usize = 8 * 1024;
/// The longest message.
const WORDS_MAX: usize = 6 * 1024;

/// `read`, which may hold so many times `bytes` at once.
fn bounded<T>(bytes: usize, times: u64, read: impl FnOnce() -> T) -> T {
    let mut outcome = None;
    let memory = allocation_counter::measure(|| {
        // A panic on its way through would leave the count where it is.
        outcome = Some(catch_unwind(AssertUnwindSafe(read)));
    });
    let read = outcome.expect("it was run");
    let read = read.unwrap_or_else(|panic| resume_unwind(panic));
    let (held, most) = (memory.bytes_max, BYTES + times * bytes as u64);
    assert!(
        held <= most,
        "{held} bytes were held for {bytes}, at most {most} may be"
    );
    read
}

/// The error says in words, and few of them, what kind of thing was wrong.
fn in_words(error: &Error, kinds: &[ErrorKind]) {
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
    few_words(error);
}

fn few_words(error: &impl Display) {
    let words = error.to_string();
    assert!(words.len() > 10, "{words:?} says nothing");
    assert!(words.len() <= WORDS_MAX, "{} bytes of words", words.len());
    assert!(!words.contains(char::is_control), "{words:?}");
}

/// What is accepted prints as a text that reads back as the same value; and that text as itself.
fn prints_and_reads_back<T>(value: &T)
where
    T: Display + FromStr<Err: Debug> + PartialEq + Debug,
{
    let again: T = value.to_string().parse().expect("it was just printed");
    assert_eq!(again, *value);
}

/// The bytes of an envelope.
pub(crate) fn envelope(data: &[u8]) {
    read_envelope(data);
    // Behind a checksum that is right, or the reader would hardly ever be reached.
    if let Some((body, _)) = data.split_last_chunk::<8>() {
        read_envelope(&[body, &xxh3_64(body).to_le_bytes()].concat());
    }
}

fn read_envelope(bytes: &[u8]) {
    match bounded(bytes.len(), TIMES, || wire::decode(bytes)) {
        Ok(envelope) => {
            let mut again = Vec::new();
            wire::encode(&envelope, &mut again);
            assert_eq!(again, bytes, "an envelope has one form");
            assert_eq!(wire::decode(&again).expect("it was just written"), envelope);
            let view = View::read(bytes).expect("it was read");
            assert_eq!(view.fingerprint(), envelope.fingerprint());
        }
        Err(error) => in_words(&error, &[ErrorKind::Corrupt]),
    }
}

/// The text of an event's id.
pub(crate) fn event_id(data: &[u8]) {
    if let Some(bytes) = data.first_chunk::<16>() {
        let id = EventId::from_bytes(*bytes);
        assert_eq!(id.to_bytes(), *bytes);
        assert_eq!(
            EventId::from_parts(id.created(), id.bucket(), id.entropy()),
            id
        );
        prints_and_reads_back(&id);
    }
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 4, || text.parse::<EventId>()) {
        Ok(id) => {
            let canonical = text.to_ascii_uppercase().replace(['I', 'L'], "1");
            assert_eq!(id.to_string(), canonical.replace('O', "0"));
            prints_and_reads_back(&id);
        }
        Err(error) => in_words(&error, &[ErrorKind::Invalid]),
    }
}

/// A queue's name, and the keys it is part of.
pub(crate) fn queue_name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 16, || QueueName::new(&text)) {
        Ok(name) => {
            assert!(is_a_name(&text), "{text:?} was accepted");
            assert_eq!(*name, *text);
            let number = data.iter().fold(0_u16, |sum, byte| {
                sum.wrapping_mul(31).wrapping_add((*byte).into())
            });
            survives_its_keys(&BucketKey::new(name, BucketId(number)));
        }
        Err(error) => {
            assert!(!is_a_name(&text), "{text:?} was refused");
            in_words(&error, &[ErrorKind::Invalid]);
        }
    }
}

/// What the documentation of `QueueName` says.
fn is_a_name(text: &str) -> bool {
    let mut letters = text.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphanumeric());
    first
        && text.len() <= 128
        && letters.all(|c| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c))
}

/// The queue and the bucket can be read out of every key, and the part in braces, by which a
/// cluster finds the slot, is they and nothing else.
pub(crate) fn survives_its_keys(bucket: &BucketKey) {
    for key in redis::keys("shop", bucket) {
        let key = String::from_utf8(key).expect("a key is text");
        let (prefix, rest) = key.split_once('{').expect("a brace");
        let (tag, part) = rest.split_once('}').expect("another one");
        assert_eq!(prefix, "shop:");
        assert!(part.starts_with(':') && !part.contains(['{', '}']), "{key}");
        let (queue, number) = tag.rsplit_once(':').expect("a colon");
        let queue = QueueName::new(queue).expect("the name of a queue");
        let number = BucketId(number.parse().expect("a number"));
        assert_eq!(BucketKey::new(queue, number), *bucket);
    }
}

/// A duration as people write it.
pub(crate) fn duration(data: &[u8]) {
    if let Some((nanos, rest)) = data.split_first_chunk::<4>() {
        let nanos = u32::from_le_bytes(*nanos) % 1_000_000_000;
        let secs = rest
            .first_chunk()
            .map_or(0, |secs| u64::from_le_bytes(*secs));
        writes_and_reads_back(Duration::new(secs, nanos));
    }
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 16, || duration::parse(&text)) {
        Ok(duration) => writes_and_reads_back(duration),
        Err(error) => assert!(error.to_string().contains(&*text), "{error}"),
    }
}

fn writes_and_reads_back(duration: Duration) {
    let text = duration::format(duration);
    assert_eq!(duration::parse(&text), Ok(duration), "{text}");
}

/// A backoff as people write it.
pub(crate) fn backoff(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 16, || text.parse::<RetryPolicy>()) {
        Ok(policy) => {
            prints_and_reads_back(&policy);
            let mut last = Duration::ZERO;
            for attempt in [0, 1, 2, 3, 17, 63, 64, 65, 128, 1_000, u16::MAX] {
                let delay = policy.delay_after(attempt, 0.0);
                assert!(delay >= last, "attempt {attempt} waits for {delay:?}");
                for random in [0.5, 1.0, -1.0, f64::NAN, f64::INFINITY] {
                    assert!(policy.delay_after(attempt, random) <= delay);
                }
                last = delay;
            }
        }
        Err(error) => assert!(error.to_string().contains('`'), "{error}"),
    }
}

/// The words for durabilities, outcomes and causes, and places between dead letters.
pub(crate) fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    word::<Durability>(&text);
    word::<Outcome>(&text);
    word::<Cause>(&text);
    word::<LetterCursor>(&text);
}

fn word<T: Display + FromStr<Err = Error> + PartialEq + Debug>(text: &str) {
    match bounded(text.len(), 16, || text.parse::<T>()) {
        Ok(word) => prints_and_reads_back(&word),
        Err(error) => in_words(&error, &[ErrorKind::Invalid]),
    }
}

/// Our values in somebody's JSON.
pub(crate) fn json(data: &[u8]) {
    value::<EventId>(data);
    value::<QueueName>(data);
    value::<RetryPolicy>(data);
    value::<Timestamp>(data);
    value::<NodeId>(data);
    value::<Outcome>(data);
    value::<Record>(data);
}

fn value<T: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) {
    if let Ok(value) = bounded(data.len(), 16, || serde_json::from_slice::<T>(data)) {
        let again = serde_json::to_vec(&value).expect("it can be written");
        let again: T = serde_json::from_slice(&again).expect("it was just written");
        assert_eq!(again, value);
    }
}

/// A settings file in TOML.
pub(crate) fn settings_toml(data: &[u8]) {
    settings(data, Format::Toml);
}

/// A settings file in YAML.
pub(crate) fn settings_yaml(data: &[u8]) {
    settings(data, Format::Yaml);
}

fn settings(data: &[u8], format: Format) {
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 4 * TIMES, || Settings::from_text(&text, format)) {
        Ok(settings) => can_be_written_again(&settings),
        Err(error) => in_words(&error, &[ErrorKind::Invalid]),
    }
}

/// Variables of the environment, a line each.
pub(crate) fn environment(data: &[u8]) {
    let variables: Vec<(OsString, OsString)> = data
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b'=')?;
            let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            Some((os(&line[..at]), os(&line[at + 1..])))
        })
        .collect();
    let file = "queues: { order-close: {}, order.close: {}, a__b: {}, mails: { workers: 2 } }";
    let file = Settings::from_text(file, Format::Yaml).expect("settings");
    let reversed = variables.iter().cloned().rev().collect::<Vec<_>>();
    let read = |variables| {
        file.clone()
            .with_environment::<OsString, OsString>(variables)
    };
    let there = bounded(data.len(), TIMES, || read(variables));
    match (there, read(reversed)) {
        (Ok(there), Ok(back)) => {
            assert!(there == back, "the order of variables matters");
            can_be_written_again(&there);
        }
        (Err(error), Err(back)) => {
            in_words(&error, &[ErrorKind::Invalid]);
            assert_eq!(error.to_string(), back.to_string());
        }
        (there, back) => panic!("the order of variables matters: {there:?}, {back:?}"),
    }
}

/// Settings say the same when a file says all of them.
fn can_be_written_again(settings: &Settings) {
    let mut text = String::new();
    let mut put = |key: &str, value: Option<String>| {
        text.extend(value.map(|value| format!("{key} = {value}\n")));
    };
    put(
        "payload_bytes_max",
        settings.payload_bytes_max.map(|it| it.to_string()),
    );
    put(
        "read_ahead",
        settings.read_ahead.map(|it| quoted(&duration::format(it))),
    );
    put("store.url", settings.store_url.as_deref().map(quoted));
    put(
        "store.durability",
        settings.durability.map(|it| quoted(&it.to_string())),
    );
    let sections = [("queue_defaults".to_owned(), &settings.queue_defaults)];
    let queues = settings.queues.iter();
    let queues = queues.map(|(name, choices)| (format!("queues.{}", quoted(name)), choices));
    for (section, choices) in sections.into_iter().chain(queues) {
        text.push_str(&format!("[{section}]\n{}", choices_in_toml(choices)));
    }
    let again = Settings::from_text(&text, Format::Toml).expect(&text);
    assert!(again == *settings, "{again:?} is not {settings:?}");
}

fn choices_in_toml(choices: &QueueChoices) -> String {
    let lines = [
        ("buckets", choices.buckets.map(|it| it.to_string())),
        ("workers", choices.workers.map(|it| it.to_string())),
        (
            "timeout",
            choices.timeout.map(|it| quoted(&duration::format(it))),
        ),
        ("attempts", choices.attempts.map(|it| it.to_string())),
        ("backoff", choices.backoff.map(|it| quoted(&it.to_string()))),
        ("ring", choices.ring.map(|it| it.to_string())),
        (
            "linger",
            choices.linger.map(|it| quoted(&duration::format(it))),
        ),
        ("dedicated", choices.dedicated.map(|it| it.to_string())),
        ("consume", choices.consume.map(|it| it.to_string())),
    ];
    let said = lines
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    said.map(|(key, value)| format!("{key} = {value}\n"))
        .collect()
}

/// A text as TOML quotes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c.is_control() || c == '"' || c == '\\' {
            true => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
            false => quoted.push(c),
        }
    }
    quoted + "\""
}

/// The URL of a Redis store.
pub(crate) fn store_url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), TIMES, || redis::url(&text)) {
        Ok(url) => assert!(!url.to_string().is_empty() && !format!("{url:?}").is_empty()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            few_words(&error);
        }
    }
}

/// The body of an event as it lies in Redis.
pub(crate) fn redis_body(data: &[u8]) {
    let id = EventId::from_bytes([7; 16]);
    let queue = QueueName::new("q").expect("a name");
    read_body(id, &queue, data);
    if let Some(sealed) = sealed_body(id, &queue, data) {
        read_body(id, &queue, &sealed);
    }
}

fn read_body(id: EventId, queue: &QueueName, bytes: &[u8]) {
    match bounded(bytes.len(), TIMES, || redis::body(id, queue, bytes)) {
        Ok(envelope) => comes_back_out_of_its_body(&envelope),
        Err(error) => {
            in_words(&error, &[ErrorKind::Corrupt]);
            assert!(error.to_string().contains(&id.to_string()), "{error}");
        }
    }
}

/// An envelope's body is an envelope again.
pub(crate) fn comes_back_out_of_its_body(envelope: &Envelope) {
    let bytes = redis::body_of(envelope);
    let again = redis::body(envelope.id, &envelope.queue, &bytes).expect("it was just written");
    assert_eq!(again, *envelope);
}

/// The body with the check and the fingerprint that are right for the rest of it.
pub(crate) fn sealed_body(id: EventId, queue: &QueueName, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = bytes.to_vec();
    let extras = match bytes.first()? & 2 {
        0 => 0,
        _ => 4 + u32::from_be_bytes(*bytes.get(12..)?.first_chunk()?) as usize,
    };
    let (head, payload) = bytes.split_at_checked(extras.checked_add(12)?)?;
    let fingerprint = xxh3_64(&[queue.as_bytes(), &[0], payload].concat());
    sealed[4..12].copy_from_slice(&fingerprint.to_be_bytes());
    let check = xxh3_64(&[&id.to_bytes(), &sealed[..1], &sealed[4..head.len()]].concat());
    sealed[1..4].copy_from_slice(&check.to_be_bytes()[5..]);
    Some(sealed)
}

/// What a server answers: the name of the reader on a line, and then the bytes of the protocol.
pub(crate) fn redis_answer(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (name, said) = data.split_at(end.map_or(0, |end| end + 1));
    let known = redis::READERS
        .iter()
        .find(|(known, _)| known.as_bytes() == name.trim_ascii());
    // A name that is not known is any of them.
    let any = xxh3_64(name) as usize % redis::READERS.len();
    let (_, reader) = known.unwrap_or(&redis::READERS[any]);
    match bounded(ANSWER + said.len(), TIMES, || redis::answer(*reader, said)) {
        Ok(read) => assert!(!format!("{read:?}").is_empty()),
        Err(error) => in_words(&error, &[ErrorKind::Corrupt]),
    }
}

/// An entry of an outbox.
pub(crate) fn redis_outbox(data: &[u8]) {
    let queue = QueueName::new("q").expect("a name");
    match bounded(data.len(), TIMES, || redis::records(&queue, data)) {
        Ok(records) => {
            let again: Vec<u8> = records.iter().flat_map(entry_of).collect();
            assert_eq!(again, data, "a record has one form");
        }
        Err(error) => in_words(&error, &[ErrorKind::Corrupt]),
    }
}

/// A record as `src/store/redis/record.rs` says that it lies in an outbox.
pub(crate) fn entry_of(record: &Record) -> Vec<u8> {
    let place = |at: Option<usize>| at.map_or(0, |at| at as u8 + 1);
    let outcome = Outcome::ALL.iter().position(|it| *it == record.outcome);
    let cause = record.cause;
    let cause = cause.and_then(|cause| Cause::ALL.iter().position(|it| *it == cause));
    let more = [
        record.trace.is_some(),
        record.payload.is_some(),
        record.by.is_some(),
    ];
    let more = (0..).zip(more).map(|(bit, set)| u8::from(set) << bit);
    let more: u8 = more.sum();
    let mut bytes = record.id.to_bytes().to_vec();
    bytes.extend([
        place(outcome),
        place(cause) | if more > 0 { 128 } else { 0 },
    ]);
    bytes.extend(record.attempt.to_be_bytes());
    let stages = record.stages;
    for number in [
        record.due.as_millis(),
        stages.moved_us,
        stages.fetched_us,
        stages.started_us,
        stages.finished_us,
        record.node.0,
    ] {
        bytes.extend(number.to_be_bytes());
    }
    for text in [&record.key, &record.error] {
        let len = text.as_ref().map_or(0, |text| text.len() as u16 + 1);
        bytes.extend(len.to_be_bytes());
        bytes.extend(text.iter().flat_map(|text| text.bytes()));
    }
    bytes.extend((more > 0).then_some(more));
    bytes.extend(record.trace.iter().flat_map(|trace| trace.to_bytes()));
    if let Some(payload) = &record.payload {
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload.as_bytes());
    }
    if let Some(by) = &record.by {
        bytes.extend((by.len() as u16).to_be_bytes());
        bytes.extend(by.bytes());
    }
    bytes
}

/// A message on the subscription, in the bytes of the protocol.
pub(crate) fn redis_news(data: &[u8]) {
    let bucket = BucketKey::new(QueueName::new("q").expect("a name"), BucketId(0));
    let told = bounded(ANSWER + data.len(), TIMES, || {
        redis::message("duly", &bucket, data)
    });
    assert!(told <= 1, "one message was told {told} times");
}

/// The rows of an embedded store's file.
///
/// A row is a byte for its table, then its columns, to a byte that is none. A column is a byte for
/// its type, and then a number of 8 bytes or a length in one and so many bytes.
pub(crate) fn embedded_rows(data: &[u8]) {
    let rows = rows(data);
    // A row of two bytes is eighteen columns of nothing.
    match bounded(data.len(), 4 * TIMES, || embedded::open(&rows)) {
        Ok(opened) => {
            assert_eq!(opened.check, Ok(()));
            assert!(opened.records.records.len() <= rows.len());
            assert!(opened.controls.len() <= rows.len() && opened.buckets.len() <= rows.len());
        }
        Err(error) => few_words(&error),
    }
}

fn rows(mut data: &[u8]) -> Vec<(Table, Vec<Cell>)> {
    let mut rows = Vec::new();
    while let Some((table, rest)) = data.split_first() {
        data = rest;
        let table = match table % 4 {
            0 => Table::Events,
            1 => Table::Records,
            2 => Table::Controls,
            _ => Table::Outbox,
        };
        let mut cells = Vec::new();
        while let Some(cell) = cell(&mut data) {
            cells.push(cell);
        }
        rows.push((table, cells));
    }
    rows
}

fn cell(data: &mut &[u8]) -> Option<Cell> {
    let (kind, rest) = data.split_first()?;
    *data = rest;
    Some(match kind {
        b'n' => Cell::Null,
        b's' => Cell::Seal,
        b'i' => Cell::Integer(i64::from_be_bytes(number(data)?)),
        b'r' => Cell::Real(f64::from_be_bytes(number(data)?)),
        b't' => Cell::Text(some(data)?),
        b'b' => Cell::Blob(some(data)?),
        // An envelope whose checksum is right.
        b'e' => {
            let body = some(data)?;
            Cell::Blob([&body[..], &xxh3_64(&body).to_le_bytes()].concat())
        }
        _ => return None,
    })
}

fn number(data: &mut &[u8]) -> Option<[u8; 8]> {
    let (number, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(*number)
}

fn some(data: &mut &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = data.split_first()?;
    let (bytes, rest) = rest.split_at_checked(usize::from(*len))?;
    *data = rest;
    Some(bytes.to_vec())
}

/// The notes of an embedded store of what has started.
pub(crate) fn embedded_note(data: &[u8]) {
    for note in data.as_chunks::<32>().0 {
        let _ = embedded::note(note);
        let mut sealed = *note;
        let sum = xxh3_64(&note[..28]).to_le_bytes();
        sealed[28..].copy_from_slice(&sum[..4]);
        let read = embedded::note(&sealed);
        assert_eq!(read.is_some(), sealed[26..28] == [0, 0], "{sealed:?}");
        let id = read.map(|(id, ..)| id.to_bytes().to_vec());
        assert!(id.is_none_or(|id| id == sealed[..16]));
    }
}

/// A history, a line each.
pub(crate) fn history(data: &[u8]) {
    let entries = bounded(data.len(), TIMES, || {
        let lines = lines(data).map(|line| match line {
            Ok(entry) => Some(entry),
            Err(error) => {
                in_words(&error, &[ErrorKind::Invalid]);
                None
            }
        });
        lines.flatten().collect::<Vec<_>>()
    });
    let again: String = entries.iter().map(Entry::to_line).collect();
    let read: Result<Vec<_>, _> = lines(again.as_bytes()).collect();
    assert_eq!(read.expect("it was just written"), entries);
    bounded(data.len(), 8 * TIMES, || follow(&entries));
}

fn follow(entries: &[Entry]) {
    let mut account = Account::new();
    let largest = Expect {
        exact: true,
        leases_stand: true,
        late_us_max: Some(u64::MAX),
        late_counts_from_us: u64::MAX,
        calm_after_us: u64::MAX,
        recovery_us_max: Some(u64::MAX),
        early_us_max: u64::MAX,
        ahead_us: u64::MAX,
        ..Expect::default()
    };
    let mut checkers = [Expect::default(), largest].map(Checker::new);
    for entry in entries {
        assert!(!entry.to_string().contains('\n'));
        account.read(entry);
        for checker in &mut checkers {
            // It goes on after a promise that is broken, as whoever runs it may.
            let broken = [
                checker.read(entry),
                checker.operation_ends(),
                checker.look(entry.at_us),
            ];
            for broken in broken.into_iter().filter_map(Result::err) {
                few_words(&broken);
            }
        }
    }
    for checker in &checkers {
        let _ = (checker.end(), checker.is_at_rest());
    }
    let report = account.close();
    assert!(report.early + report.lost + report.unaccounted <= 3 * entries.len() as u64);
    assert!(!report.to_string().is_empty());
}

/// A stored payload: its frame, its cipher, and its value by each codec.
pub(crate) fn payload(data: &[u8]) {
    let (id, queue) = (EventId::from_bytes([7; 16]), QueueName::new("q").unwrap());
    let keys = KeyRing::new();
    keys.add("k", Key::new([7; 32])).unwrap();
    let payload = Payload::from(data);
    let opened = bounded(data.len(), 4, || keys.open(id, &queue, &payload));
    match Frame::read(data) {
        Ok(frame) => {
            assert!(frame.rest.len() <= data.len());
            assert!(
                frame
                    .key_id()
                    .is_none_or(|key| (1..=64).contains(&key.len()))
            );
            assert_eq!(
                frame.key_id().is_none(),
                opened.is_ok_and(|it| !it.is_sealed())
            );
        }
        Err(_) => assert!(matches!(opened, Err(Unopened::Malformed(_)))),
    }
}
