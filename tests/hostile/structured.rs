//! Values rather than bytes: what a random change of bytes would hardly ever make.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::__internal::redis::{BucketKeys, Target, decode, hub as hub_key};
use duly::event::{BucketId, BucketKey, Envelope, Payload, TEXT_BYTES_MAX, TraceId};
use duly::records::{Cause, NodeId, Outcome, Record, Stages};
use duly::time::Timestamp;
use duly::{EventId, LatePolicy, QueueName};
use proptest::prelude::*;

use crate::hostile::targets::{
    READERS, comes_back_out_of_its_body, entry_of, protocol, records as records_of, sealed_body,
    survives_its_keys,
};

/// Names that are likely to run into each other.
fn names() -> impl Strategy<Value = QueueName> {
    let name = prop_oneof![
        "[a0][a0._-]{0,3}",
        "hub|meta|0|1|10",
        "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
    ];
    name.prop_map(|name| QueueName::new(&name).expect("the pattern is that of a name"))
}

fn buckets() -> impl Strategy<Value = BucketKey> {
    let number = prop_oneof![0_u16..12, any::<u16>()];
    (names(), number).prop_map(|(name, number)| BucketKey::new(name, BucketId(number)))
}

/// Two buckets whose names and numbers are the same letters, divided in two places.
fn neighbours() -> impl Strategy<Value = (BucketKey, BucketKey)> {
    let divided = |digits: &str, at: usize| {
        let (name, number) = digits.split_at(at.min(digits.len() - 1));
        let name = QueueName::new(&format!("a{name}")).expect("letters and digits");
        BucketKey::new(name, BucketId(number.parse().expect("four digits")))
    };
    let parts = ("[0-9]{1,4}", 0_usize..4, 0_usize..4);
    parts.prop_map(move |(digits, one, other)| (divided(&digits, one), divided(&digits, other)))
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        Just(String::new()),
        Just("\0{}:\u{202e}\r\n".repeat(20)),
        Just("ß".repeat(TEXT_BYTES_MAX / 2)),
    ]
}

fn traces() -> impl Strategy<Value = TraceId> {
    let bytes = any::<[u8; 16]>();
    bytes.prop_filter_map("a trace is not all zero", TraceId::from_bytes)
}

/// A header that carries a trace, or that hardly fails to.
fn trace_headers() -> impl Strategy<Value = (String, String)> {
    let value = prop_oneof![
        traces().prop_map(|trace| format!("00-{trace}-00f067aa0ba902b7-01")),
        Just(format!("00-{:032x}-00f067aa0ba902b7-01", 0)),
        "[0-9a-f]{2}-[0-9a-f]{31,33}-x",
    ];
    value.prop_map(|value| ("traceparent".to_owned(), value))
}

fn envelopes() -> impl Strategy<Value = Envelope> {
    let late = prop_oneof![
        Just(LatePolicy::Deliver),
        any::<Duration>().prop_map(LatePolicy::Expire),
        any::<Duration>().prop_map(LatePolicy::Bury),
    ];
    let plain = (
        any::<[u8; 16]>(),
        names(),
        prop::collection::vec(any::<u8>(), 0..300),
        prop::option::of(any::<u64>()),
        prop_oneof![Just(16), any::<u16>()],
        any::<bool>(),
        prop_oneof![Just(0), any::<u32>()],
    );
    let asked = (
        prop::option::of(texts()),
        prop::option::of(texts()),
        prop::option::of(any::<u64>()),
        late,
        prop::collection::vec(
            prop_oneof![8 => (texts(), texts()), 1 => trace_headers()],
            0..=32,
        ),
        any::<bool>(),
    );
    (plain, asked).prop_map(
        |(plain, (key, unique, expires, late, headers, keeps_payload))| {
            let (id, queue, payload, pushed, attempts, delayed, version) = plain;
            let bare = Envelope::new(EventId::from_bytes(id), queue, Payload::from(payload));
            Envelope {
                pushed: pushed.map_or(bare.pushed, Timestamp::from_millis),
                attempts,
                delayed,
                version,
                key,
                unique,
                expires: expires.map(Timestamp::from_millis),
                late,
                headers,
                keeps_payload,
                ..bare
            }
        },
    )
}

fn records() -> impl Strategy<Value = Record> {
    let what = (
        any::<[u8; 16]>(),
        prop::option::of(texts()),
        any::<u16>(),
        prop::sample::select(&Outcome::ALL[..]),
        prop::option::of(prop::sample::select(&Cause::ALL[..])),
        prop::option::of(texts()),
    );
    let more = (
        prop::option::of(traces()),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        prop::option::of("\\PC{0,32}"),
    );
    let all = (what, any::<[u64; 6]>(), more);
    all.prop_map(
        |((id, key, attempt, outcome, cause, error), numbers, more)| {
            let (trace, payload, by) = more;
            let [due, moved_us, fetched_us, started_us, finished_us, node] = numbers;
            Record {
                id: EventId::from_bytes(id),
                queue: QueueName::new("q").expect("a name"),
                key,
                attempt,
                outcome,
                cause,
                due: Timestamp::from_millis(due),
                stages: Stages {
                    moved_us,
                    fetched_us,
                    started_us,
                    finished_us,
                },
                node: NodeId(node),
                error,
                trace,
                payload: payload.map(Payload::from),
                by,
            }
        },
    )
}

/// A text as a URL has to spell it.
fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

proptest! {
    #[test]
    fn any_envelope_that_a_push_accepts_comes_back_out_of_its_body(envelope in envelopes()) {
        prop_assume!(envelope.check(usize::MAX).is_ok());
        comes_back_out_of_its_body(&envelope);
    }

    #[test]
    fn any_records_come_back_out_of_an_outbox(records in prop::collection::vec(records(), 0..5)) {
        let entry: Vec<u8> = records.iter().flat_map(entry_of).collect();
        let read = records_of(&QueueName::new("q").expect("a name"), &entry);
        prop_assert_eq!(read.expect("it was just written"), records);
    }

    #[test]
    fn any_text_is_refused_as_a_name_or_survives_the_keys_of_a_store(
        text in prop_oneof![".{0,8}", "[a-c:{}._ -]{0,6}", "\\PC{120,140}"],
        number in any::<u16>(),
    ) {
        if let Ok(name) = QueueName::new(&text) {
            prop_assert_eq!(&*name, &*text);
            survives_its_keys(&BucketKey::new(name, BucketId(number)));
        }
    }

    #[test]
    fn no_two_buckets_have_a_key_in_common(
        (one, other) in prop_oneof![(buckets(), buckets()), neighbours()],
    ) {
        let hub = [
            "hub", "members", "queues", "registered", "registry", "control",
        ];
        let hub = hub.map(|part| hub_key("duly", part));
        let keys = |bucket| -> Vec<_> {
            let keys = BucketKeys::new("duly", bucket);
            keys.all().map(|key| key.to_string()).collect()
        };
        let mut all: BTreeSet<_> = keys(&one).into_iter().chain(hub.clone()).collect();
        prop_assert_eq!(all.len(), keys(&one).len() + hub.len());
        let before = all.len();
        all.extend(keys(&other));
        let more = if one == other { 0 } else { keys(&other).len() };
        prop_assert_eq!(all.len(), before + more);
    }

    #[test]
    fn no_url_shows_its_password_and_no_refusal_repeats_it(
        form in prop::sample::select(vec![
            ("redis://", "h/1"), ("rediss://", "h:7"), ("redis-sentinel://", "h,i/m"),
            ("redis-cluster://", "h,i:7"),
        ]),
        around in (".{0,6}", ".{0,6}"),
        encoded in any::<bool>(),
        tail in prop_oneof![Just(String::new()), "[?/@:&a-z%=0-9]{1,8}"],
    ) {
        let password = format!("{}s3cret-phrase{}", around.0, around.1);
        let spelled = if encoded { percent_encoded(&password) } else { password };
        let url = format!("{}ann:{spelled}@{}{tail}", form.0, form.1);
        match Target::parse(&url) {
            // One that is not encoded may have ended early, and its rest is a host or a path.
            Ok(read) if encoded => {
                let shown = format!("{read:?} {read}");
                prop_assert!(!shown.contains("s3cret"), "{}: {}", url, shown);
            }
            Ok(_) => {}
            Err(error) => prop_assert!(!error.to_string().contains("s3cret"), "{}: {}", url, error),
        }
    }
}

/// What one of the readers of answers makes of some bytes of the protocol.
fn answered(name: &str, said: &str) -> Result<String, duly::Error> {
    let reader = READERS.iter().find(|(known, _)| *known == name);
    let (_, reader) = reader.expect("a reader of this name");
    protocol(said.as_bytes())
        .and_then(reader)
        .map(|read| format!("{read:?}"))
}

/// An array of texts, as the protocol has it.
fn texts_in_resp(texts: &[&str]) -> String {
    let texts = texts.iter();
    let texts: Vec<_> = texts
        .map(|text| format!("${}\r\n{text}\r\n", text.len()))
        .collect();
    format!("*{}\r\n{}", texts.len(), texts.concat())
}

#[test]
fn what_no_duly_sets_of_a_queue_says_nothing() {
    let control = |name: &str, value: &str| {
        let said = texts_in_resp(&[&format!("q:{name}"), value, "q:paused", "1"]);
        answered("controls", &said).expect("it can be read")
    };
    let nothing = control("workers", "");
    assert!(nothing.contains("paused: true"), "{nothing}");
    for rate in ["nan", "inf", "-1", "0", "1e-9", "1e9", "fast"] {
        assert_eq!(control("rate", rate), nothing, "{rate}");
    }
    for buckets in ["0", "1025", "65535", "65536", "-1", "many"] {
        assert_eq!(control("buckets", buckets), nothing, "{buckets}");
    }
    assert!(control("rate", "0.5").contains("rate: Some(0.5)"));
    assert!(control("buckets", "1024").contains("buckets: Some(1024)"));
}

#[test]
fn flags_that_no_duly_writes_are_damage() {
    let (id, queue) = (
        EventId::from_bytes([7; 16]),
        QueueName::new("q").expect("a name"),
    );
    let first = |first: u8| {
        let sealed = sealed_body(id, &queue, &[&[first][..], &[0; 11]].concat());
        decode(id, &queue, &sealed.expect("a body"))
    };
    assert!(first(0x10).is_ok() && first(0x11).is_ok());
    let late = |flags: u8| {
        let extras = [&[0, 0, 0, 15, flags, 0, 1][..], &[0; 12]].concat();
        let sealed = sealed_body(id, &queue, &[&[0x12][..], &[0; 11], &extras].concat());
        decode(id, &queue, &sealed.expect("a body"))
    };
    assert!(late(8).is_ok() && late(16).is_ok());
    for refused in [first(0x14), first(0x18), late(24)] {
        let words = refused.expect_err("flags").to_string();
        assert!(words.contains("unknown flags"), "{words}");
    }
    // A trace that no header names.
    let extras = [&[0, 0, 0, 19, 0, 0, 1][..], &[7; 16]].concat();
    let sealed = sealed_body(id, &queue, &[&[0x1a][..], &[0; 11], &extras].concat());
    let refused = decode(id, &queue, &sealed.expect("a body"));
    let words = refused.expect_err("no such header").to_string();
    assert!(words.contains("trace"), "{words}");
}

#[test]
fn what_no_script_answers_is_damage() {
    let outbox = |first: u64, next: u64, last: u64, entries: &[u64]| {
        let entries = entries.iter().map(|it| format!(":{it}\r\n$5\r\nbytes\r\n"));
        let entries: Vec<_> = entries.collect();
        let (parts, trimmed) = (6 + 2 * entries.len(), first - 1);
        format!(
            "*{parts}\r\n:1\r\n:{first}\r\n:{next}\r\n:{trimmed}\r\n:{last}\r\n:0\r\n{}",
            entries.concat()
        )
    };
    let trimmed = answered("outbox", "*6\r\n:1\r\n:8\r\n:8\r\n:9\r\n:7\r\n:0\r\n");
    assert!(trimmed.expect("it can be read").contains("trimmed: 8"));
    let end = 1 << 40;
    assert!(answered("outbox", &outbox(1, end, end - 1, &[end - 1])).is_ok());
    let next_due = |text: &str| format!("*4\r\n:1\r\n:0\r\n:0\r\n${}\r\n{text}\r\n", text.len());
    assert!(answered("move_due", &next_due("1700000000000")).is_ok());
    let refused = [
        ("outbox", outbox(1, end + 1, end, &[end])),
        ("outbox", outbox(1, i64::MAX as u64, i64::MAX as u64, &[])),
        ("outbox", outbox(9, 8, 7, &[])),
        ("outbox", outbox(1, 8, 9, &[])),
        ("outbox", outbox(1, 8, 4, &[5])),
        ("outbox", outbox(1, 8, 7, &[5, 5])),
        ("outbox", outbox(1, 8, 7, &[5, 3])),
        ("move_due", next_due("nan")),
        ("move_due", next_due("inf")),
        ("move_due", next_due("-1")),
        ("move_due", next_due("1e300")),
        ("queues", texts_in_resp(&["{hub}"])),
        ("buckets", texts_in_resp(&["a token.{hub}:1"])),
        ("controls", texts_in_resp(&["{hub}:paused", "1"])),
    ];
    for (name, said) in refused {
        let error = answered(name, &said).expect_err(&said);
        assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{said}");
    }
}
