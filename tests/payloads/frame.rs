//! What lies in the store, byte by byte.

use duly::QueueName;
use duly::codec::{Codec, Frame, Key, KeyRing, OpenError};
use duly::event::{BucketId, Payload};
use duly::prelude::*;
use duly::time::Timestamp;

fn event() -> (EventId, QueueName) {
    let made = Timestamp::from_millis(1_700_000_000_000);
    let id = EventId::from_parts(made, BucketId(3), 0x0123_4567_89AB_CDEF);
    (id, QueueName::new("cards").unwrap())
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

#[test]
fn each_form_reads_as_what_it_says() {
    let json = Frame::read(br#"{"a":1}"#).unwrap();
    assert_eq!(
        (json.codec, json.version, json.key_id),
        (Codec::Json, None, None)
    );
    assert_eq!(json.rest, br#"{"a":1}"#);

    let bytes = hex("fa 01 00 81a16101");
    let packed = Frame::read(&bytes).unwrap();
    assert_eq!((packed.codec, packed.version), (Codec::MsgPack, None));
    assert_eq!(packed.rest, hex("81a16101"));

    let bytes = hex("fa 82 00 07000000 fa");
    let raw = Frame::read(&bytes).unwrap();
    assert_eq!((raw.codec, raw.version), (Codec::Raw, Some(7)));
    assert_eq!(raw.rest, [0xFA]);

    let bytes = hex("fa 80 01 02000000 03 6b6579 ffff");
    let sealed = Frame::read(&bytes).unwrap();
    assert_eq!((sealed.codec, sealed.version), (Codec::Json, Some(2)));
    assert_eq!(sealed.key_id, Some("key"));
    assert_eq!(sealed.rest, [0xFF, 0xFF]);
}

#[test]
fn a_malformed_frame_is_told_apart() {
    for (bytes, how) in [
        ("fa", "ends too early"),
        ("fa 00", "ends too early"),
        ("fa 03 00", "unknown codec"),
        ("fa 40 00", "unknown codec"),
        ("fa 00 02", "unknown cipher"),
        ("fa 80 00 0100", "ends too early"),
        ("fa 00 01 00", "of an invalid length"),
        ("fa 00 01 41", "of an invalid length"),
        ("fa 00 01 03 6b65", "ends too early"),
        ("fa 00 01 01 ff", "is not UTF-8"),
    ] {
        let wrong = Frame::read(&hex(bytes)).unwrap_err();
        assert!(wrong.contains(how), "{bytes}: {wrong}");
    }
}

/// Made by another program from the description in `src/docs/payloads.md`.
const SEALED: &str = "fa000107323032362d31311aea22f3b0 \
    8d93fa0604ca68d0bc20556ad5c05e26 \
    266acafb5e01";

#[test]
fn a_payload_that_was_encrypted_elsewhere_is_opened() {
    let keys = KeyRing::new();
    keys.add("2026-11", Key::new(*b"0123456789abcdef0123456789abcdef"))
        .unwrap();
    let (id, queue) = event();
    let payload = Payload::from(hex(SEALED));
    let opened = keys.open(id, &queue, &payload).unwrap();
    assert_eq!(
        (opened.codec, &*opened.value),
        (Codec::Json, &br#"{"order":7}"#[..])
    );
    assert!(opened.is_sealed());

    // What it is bound to, and every bit of it, is vouched for.
    let other = EventId::from_bytes([1; 16]);
    let elsewhere = QueueName::new("card").unwrap();
    let sealed = OpenError::Sealed("2026-11".to_owned());
    assert_eq!(keys.open(other, &queue, &payload), Err(sealed.clone()));
    assert_eq!(keys.open(id, &elsewhere, &payload), Err(sealed));
    for at in 0..payload.len() * 8 {
        let mut bytes = payload.as_bytes().to_vec();
        bytes[at / 8] ^= 1 << (at % 8);
        let changed = Payload::from(bytes);
        // Without its first byte or its cipher it is no ciphertext any more, and none of a value.
        let opened = keys.open(id, &queue, &changed);
        assert!(
            opened.is_ok_and(|it| !it.is_sealed()) == matches!(at, 0..8 | 16),
            "bit {at}"
        );
    }
}
