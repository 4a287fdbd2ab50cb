//! The binary form of an envelope: it comes back as it was, and nothing else comes back at all.

use std::time::Duration;

use duly::__internal::wire;
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

/// One with every field set, and one with none; their bytes are those of format 1 for ever.
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
    [(bare, BARE), (full, FULL)]
}

const BARE: &str =
    "018bcfe568000007000000000000002a000171128deb2fb7666d4d13cdfa2d000000030000017b7d";
const FULL: &str = "018bcfe568000007000000000000002a000b6f726465722d636c6f73651325fa715591d07b6d1d\
    7b6700000048d700100000018bcfee8fc0000000000000005a000000050000000300076f726465\
    723a380007636c6f73653a3801000b7472616365706172656e74000b30302d61622d63642d3031\
    a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\
    a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\
    a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\
    a5a5a5a5a5a5a5a5a5a5a5a5a5";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn format_1_is_written_and_read_as_it_always_was() {
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
fn an_unknown_format_says_that_a_newer_duly_wrote_it() {
    let (envelope, _) = &golden()[0];
    let mut bytes = encoded(envelope);
    let body = head_len(&bytes);
    (bytes[body], bytes[body + 1]) = (15 << 4, 2);
    let error = wire::decode(&bytes).expect_err("format 2");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("format 2"), "{error}");
    assert!(error.to_string().contains("newer duly"), "{error}");
}

/// The length of what precedes the body: the id and the name of the queue.
fn head_len(bytes: &[u8]) -> usize {
    18 + usize::from(u16::from_be_bytes([bytes[16], bytes[17]]))
}

/// What `bytes` would be with checksums that hold, if there is room for them.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = bytes.split_at_checked(head_len(bytes))?;
    let extras = match body.first()? & 2 {
        0 => 0,
        _ => 4 + u32::from_be_bytes(*body.get(12..)?.first_chunk()?) as usize,
    };
    let payload = body.get(extras.checked_add(12)?..)?;
    let fingerprint = xxh3_64(&[&head[18..], &[0], payload].concat()).to_be_bytes();
    let rest = &body[12..12 + extras];
    let check = xxh3_64(&[&head[..16], &body[..1], &fingerprint, rest].concat()).to_be_bytes();
    Some([head, &body[..1], &check[5..], &fingerprint, rest, payload].concat())
}

proptest! {
    #[test]
    fn what_is_written_comes_back(envelope in envelopes()) {
        let bytes = encoded(&envelope);
        prop_assert_eq!(&wire::decode(&bytes).expect("just written"), &envelope);
        let view = wire::view(&bytes).expect("just written");
        prop_assert_eq!(view.fingerprint, envelope.fingerprint());
        prop_assert_eq!(view.tells(), envelope.tells());
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

    /// With checksums that hold, so that the reader behind them is reached.
    #[test]
    fn no_bytes_with_good_checksums_make_it_panic(
        id in any::<[u8; 16]>(), queue in "[a-z]{1,4}", first in 0..16_u8,
        flags in any::<u8>(), extras in prop::collection::vec(0..20_u8, 0..60), payload in "[a-z]{0,9}",
    ) {
        let mut bytes = [&id[..], &(queue.len() as u16).to_be_bytes(), queue.as_bytes()].concat();
        bytes.extend([1 << 4 | first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        if first & 2 != 0 {
            bytes.extend((extras.len() as u32 + 1).to_be_bytes());
            bytes.push(flags);
            bytes.extend(extras);
        }
        bytes.extend(payload.as_bytes());
        let bytes = sealed(&bytes).expect("there is room");
        // One envelope has one form: what is read is written again as it was.
        if let Ok(envelope) = wire::decode(&bytes) {
            prop_assert_eq!(encoded(&envelope), bytes);
        }
    }

    /// An envelope whose checksums were made to hold for other bytes is still read or refused, and
    /// is written again as it was read.
    #[test]
    fn a_changed_envelope_with_good_checksums_has_one_form(
        envelope in envelopes(), at in any::<prop::sample::Index>(), to in any::<u8>(),
    ) {
        let mut bytes = encoded(&envelope);
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Some(bytes) = sealed(&bytes) && let Ok(envelope) = wire::decode(&bytes) {
            prop_assert_eq!(encoded(&envelope), bytes);
        }
    }
}
