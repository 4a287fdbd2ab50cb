//! The binary form of an envelope: it comes back as it was, and nothing else comes back at all.

use std::time::Duration;

use duly::__internal::wire;
use duly::__internal::wire::View;
use duly::event::{Envelope, Payload};
use duly::time::Timestamp;
use duly::{ErrorKind, EventId, LatePolicy, QueueName};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

fn encoded(envelope: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(envelope, &mut bytes);
    bytes
}

fn envelopes() -> impl Strategy<Value = Envelope> {
    let late = prop_oneof![
        Just(LatePolicy::Deliver),
        any::<Duration>().prop_map(LatePolicy::Expire),
        any::<Duration>().prop_map(LatePolicy::Bury),
    ];
    let plain = (
        any::<[u8; 16]>(),
        "[A-Za-z0-9][A-Za-z0-9._-]{0,127}",
        prop::collection::vec(any::<u8>(), 0..600),
        any::<u64>(),
        any::<u16>(),
        any::<bool>(),
        any::<u32>(),
    );
    let asked = (
        prop::option::of(".{0,40}"),
        prop::option::of(".{0,40}"),
        prop::option::of(any::<u64>()),
        late,
        prop::collection::vec((".{0,20}", ".{0,200}"), 0..6),
        any::<bool>(),
    );
    (plain, asked).prop_map(
        |(
            (id, queue, payload, pushed, attempts, delayed, version),
            (key, unique, expires, late, headers, keeps_payload),
        )| Envelope {
            id: EventId::from_bytes(id),
            queue: QueueName::new(&queue).expect("the pattern is that of a name"),
            payload: Payload::from(payload),
            pushed: Timestamp::from_millis(pushed),
            attempts,
            delayed,
            version,
            key,
            unique,
            expires: expires.map(Timestamp::from_millis),
            late,
            headers,
            keeps_payload,
        },
    )
}

/// One with every field set, and one with none; their bytes are those of version 1 for ever.
fn golden() -> [(Envelope, &'static str); 2] {
    let bare = Envelope::new(
        EventId::from_parts(
            Timestamp::from_millis(1_700_000_000_000),
            duly::event::BucketId(7),
            42,
        ),
        "q".parse().expect("a legal name"),
        Payload::from(&b"{}"[..]),
    );
    let full = Envelope {
        queue: "order-close".parse().expect("a legal name"),
        payload: Payload::from(vec![0xA5; 130]),
        attempts: 16,
        delayed: true,
        version: 3,
        key: Some("order:8".to_owned()),
        unique: Some("close:8".to_owned()),
        expires: Some(Timestamp::from_millis(1_700_000_600_000)),
        late: LatePolicy::Bury(Duration::new(90, 5)),
        headers: vec![("traceparent".to_owned(), "00-ab-cd-01".to_owned())],
        ..bare
    };
    [(bare, BARE_V1), (full, FULL_V1)]
}

const BARE_V1: &str = "0100018bcfe568000007000000000000002a0068e5cf8b010000010000000000017100027b7d3633\
    4a470d4abb05";
const FULL_V1: &str = "012f018bcfe568000007000000000000002a0068e5cf8b010000100003000000c08feecf8b010000\
    5a00000000000000050000000b6f726465722d636c6f7365076f726465723a3807636c6f73653a38\
    010b7472616365706172656e740b30302d61622d63642d30318201a5a5a5a5a5a5a5a5a5a5a5a5a5\
    a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\
    a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\
    a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5c98a54\
    30614baac6";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn version_1_is_written_and_read_as_it_always_was() {
    for (envelope, bytes) in golden() {
        assert_eq!(hex(&encoded(&envelope)), bytes);
        let stored: Vec<u8> = (0..bytes.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).expect("hex"))
            .collect();
        assert_eq!(wire::decode(&stored).expect("golden bytes"), envelope);
    }
}

#[test]
fn every_flipped_bit_is_found() {
    for (envelope, _) in golden() {
        let whole = encoded(&envelope);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = wire::decode(&bytes).expect_err("a flipped bit");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}: {error}");
        }
    }
}

#[test]
fn every_truncation_and_every_extension_is_found() {
    for (envelope, _) in golden() {
        let whole = encoded(&envelope);
        for len in 0..whole.len() {
            assert!(wire::decode(&whole[..len]).is_err(), "cut to {len}");
        }
        for more in 0..=u8::MAX {
            assert!(wire::decode(&[&whole[..], &[more]].concat()).is_err());
        }
    }
}

#[test]
fn an_unknown_version_says_that_a_newer_duly_wrote_it() {
    let (envelope, _) = &golden()[0];
    let mut bytes = encoded(envelope);
    bytes[0] = 2;
    let body = bytes.len() - 8;
    let checksum = xxh3_64(&bytes[..body]).to_le_bytes();
    bytes[body..].copy_from_slice(&checksum);
    let error = wire::decode(&bytes).expect_err("version 2");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("version 2"), "{error}");
    assert!(error.to_string().contains("newer duly"), "{error}");
}

proptest! {
    #[test]
    fn what_is_written_comes_back(envelope in envelopes()) {
        let bytes = encoded(&envelope);
        prop_assert_eq!(&wire::decode(&bytes).expect("just written"), &envelope);
        let view = View::read(&bytes).expect("just written");
        prop_assert_eq!(view.fingerprint(), envelope.fingerprint());
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is(envelope in envelopes(), at in any::<prop::sample::Index>()) {
        let mut bytes = encoded(&envelope);
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(wire::decode(&bytes).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = wire::decode(&bytes);
    }

    /// With a checksum that holds, so that the reader behind it is reached.
    #[test]
    fn no_bytes_with_a_good_checksum_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 1..300)) {
        bytes[0] = wire::VERSION;
        let checksum = xxh3_64(&bytes).to_le_bytes();
        bytes.extend_from_slice(&checksum);
        // One envelope has one form: what is read is written again as it was.
        if let Ok(envelope) = wire::decode(&bytes) {
            prop_assert_eq!(encoded(&envelope), bytes);
        }
    }
}
