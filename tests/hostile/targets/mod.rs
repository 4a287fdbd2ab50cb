//! Every place where bytes or text from outside enter the library, as a function of any bytes.
//!
//! A target runs what reads the bytes and asserts what has to hold whatever they are: nothing
//! panics; what is accepted comes back as it was when it is written and read again; what is refused
//! is refused in words, few of them; and nothing holds more memory than a fixed number of times the
//! bytes that it was given. `tests/hostile/driver.rs` and the package in `fuzz` call them.

mod embedded;
mod event;
mod histories;
mod payloads;
mod redis;
mod redis_readers;
mod settings;
mod values;

use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;

use duly::{Error, ErrorKind};

#[allow(unused_imports)] // whoever takes this in uses a part of it
pub(crate) use self::{
    embedded::{embedded_note, embedded_rows},
    event::{envelope, event_id, queue_name, survives_its_keys},
    histories::history,
    payloads::payload,
    redis::{
        comes_back_out_of_its_body, entry_of, redis_answer, redis_body, redis_news, redis_outbox,
        sealed_body, store_url,
    },
    redis_readers::{READERS, protocol, records},
    settings::{environment, settings_toml},
    values::{backoff, duration, json, words},
};

/// What reading nothing may hold: tables, messages, buffers.
const BYTES: u64 = 64 * 1024;
/// How many times its input a reader may hold at once, where nothing else is said. An empty header
/// takes two bytes of an envelope and 48 of memory, and a list that grows exists twice.
const TIMES: u64 = 128;
/// As many bytes as an answer may have, for what reading one may hold: the table of a cluster's
/// 16,384 slots.
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
