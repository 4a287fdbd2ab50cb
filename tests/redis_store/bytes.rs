//! Bytes that must never change: what one version has written, every later one reads.

use duly::__internal::redis::{decode, encode, of_entry};
use duly::event::{BucketId, Envelope, Payload};
use duly::records::{Cause, NodeId, Outcome, Record, Stages};
use duly::time::Timestamp;
use duly::{EventId, QueueName};

fn id() -> EventId {
    EventId::from_parts(Timestamp::from_millis(1_700_000_000_000), BucketId(3), 5)
}

fn queue() -> QueueName {
    QueueName::new("letters").unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).unwrap();
        u8::from_str_radix(pair, 16).unwrap()
    });
    pairs.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn bodies_have_the_bytes_that_they_always_had() {
    let plain = || Envelope {
        attempts: 16,
        ..Envelope::new(id(), queue(), Payload::from(&b"{}"[..]))
    };
    let header = (
        "traceparent",
        "00-0102030405060708090a0b0c0d0e0f10-00f067aa0ba902b7-01",
    );
    let traced = |mut envelope: Envelope| {
        let (name, value) = header;
        envelope.headers.push((name.to_owned(), value.to_owned()));
        envelope
    };
    let kept = Envelope {
        keeps_payload: true,
        ..plain()
    };
    let key = Some("k".to_owned());
    let all = traced(Envelope {
        keeps_payload: true,
        delayed: true,
        key,
        ..plain()
    });
    for (envelope, golden) in [
        (plain(), PLAIN),
        (kept, KEPT),
        (traced(plain()), TRACED),
        (all, ALL),
    ] {
        let written = encode(&envelope);
        assert_eq!(hex(&written), hex(&bytes(golden)), "{envelope:?}");
        assert_eq!(decode(id(), &queue(), &bytes(golden)).unwrap(), envelope);
    }
}

const PLAIN: &str = "10c94e49b5b3eb32638546e27b7d";
const KEPT: &str = "16a1fff5b5b3eb32638546e2000000030000107b7d";
const TRACED: &str = "1ac6c0e0b5b3eb32638546e20000005a80001001000b7472616365706172656e74003730302d3031 \
    3032303330343035303630373038303930613062306330643065306631302d303066303637616130 \
    626139303262372d30310102030405060708090a0b0c0d0e0f107b7d";
const ALL: &str = "1fb18f1fb5b3eb32638546e20000005d81001000016b01000b7472616365706172656e7400373030 \
    2d30313032303330343035303630373038303930613062306330643065306631302d303066303637 \
    616130626139303262372d30310102030405060708090a0b0c0d0e0f107b7d";

#[test]
fn records_are_read_from_the_bytes_that_they_always_had() {
    let plain = Record {
        id: id(),
        queue: queue(),
        key: Some("k".to_owned()),
        attempt: 2,
        outcome: Outcome::Buried,
        cause: Some(Cause::Panicked),
        due: Timestamp::from_millis(1),
        stages: Stages {
            moved_us: 2,
            fetched_us: 3,
            started_us: 4,
            finished_us: 5,
        },
        node: NodeId(6),
        error: Some("no".to_owned()),
        trace: None,
        payload: None,
        by: None,
    };
    let telling = Record {
        key: None,
        outcome: Outcome::Revived,
        cause: None,
        error: None,
        trace: "0102030405060708090a0b0c0d0e0f10".parse().ok(),
        payload: Some(Payload::from(&b"{}"[..])),
        by: Some("ada".to_owned()),
        ..plain.clone()
    };
    let said = "018bcfe56800 0003 0000000000000005";
    let numbers = "0002 0000000000000001 0000000000000002 0000000000000003 0000000000000004 \
                   0000000000000005 0000000000000006";
    let golden = format!(
        "{said} 04 03 {numbers} 0002 6b 0003 6e6f \
         {said} 09 80 {numbers} 0000 0000 \
         07 0102030405060708090a0b0c0d0e0f10 00000002 7b7d 0003 616461"
    );
    let read = of_entry(&queue(), &bytes(&golden))
        .collect::<Option<Vec<Record>>>()
        .unwrap();
    assert_eq!(read, [plain, telling]);
}
