//! What the sources say, and which of them wins.

use std::time::Duration;

use duly::codec::Codec;
use duly::config::{QueueChoices, Settings};
use duly::journal::RecordChoices;
use duly::store::WhenFull;
use duly::{LatePolicy, RetryPolicy};

use crate::config::{NO_VARIABLES, TOML, toml};

#[test]
fn every_key_of_a_file_becomes_a_choice() {
    let settings = toml(TOML);
    assert_eq!(settings.payload_bytes_max, Some(2_048));
    assert_eq!(settings.read_ahead, Some(Duration::from_millis(50)));
    assert_eq!(
        settings.store_url.as_deref(),
        Some("sqlite:/var/lib/duly.db")
    );
    const DAY: Duration = Duration::from_secs(86_400);
    assert_eq!(
        settings.records,
        RecordChoices {
            journal: Some("sqlite:/var/lib/records.db".to_owned()),
            keep: Some(90 * DAY),
            keep_max: Some(5_000),
            keep_minutes: Some(7 * DAY),
            prune_at_once: Some(true),
            outbox_max: Some(1_000),
            when_full: Some(WhenFull::RefusePushes),
        }
    );
    assert_eq!(settings.queue_defaults.workers, Some(8));
    assert_eq!(
        settings.queues["order-close"],
        QueueChoices {
            buckets: Some(4),
            workers: Some(0),
            timeout: Some(Duration::from_secs(90)),
            attempts: Some(3),
            free_interruptions: Some(5),
            backoff: Some(RetryPolicy::fixed(Duration::from_secs(5))),
            late: Some(LatePolicy::Bury(Duration::from_secs(3_600))),
            spread: Some(Duration::from_secs(10)),
            ring: Some(64),
            linger: Some(Duration::ZERO),
            dedicated: Some(true),
            consume: Some(false),
            version: None,
            keep_payload: Some(true),
            rate: Some(5.0),
            dead_keep_for: Some(Duration::from_secs(30 * 86_400)),
            dead_keep_max: Some(1_000),
            codec: Some(Codec::Raw),
            encrypt: Some(true),
        }
    );
    assert_eq!(settings.queues["mail.out"].workers, Some(1));
}

#[test]
fn variables_alone_say_what_a_file_can() {
    let settings = Settings::default()
        .with_environment([
            ("DULY__PAYLOAD_BYTES_MAX", "2048"),
            ("DULY__READ_AHEAD", "50ms"),
            ("DULY__STORE__URL", "sqlite:/var/lib/duly.db"),
            ("DULY__RECORDS__JOURNAL", "sqlite:/var/lib/records.db"),
            ("DULY__RECORDS__KEEP", "90d"),
            ("DULY__RECORDS__KEEP_MAX", "5000"),
            ("DULY__RECORDS__KEEP_MINUTES", "7d"),
            ("DULY__RECORDS__PRUNE_AT_ONCE", "true"),
            ("DULY__RECORDS__OUTBOX_MAX", "1000"),
            ("DULY__RECORDS__WHEN_FULL", "refuse_pushes"),
            ("DULY__QUEUE_DEFAULTS__WORKERS", "8"),
            ("DULY__QUEUES__ORDER-CLOSE__BUCKETS", "4"),
            ("DULY__QUEUES__ORDER-CLOSE__WORKERS", "0"),
            ("DULY__QUEUES__ORDER-CLOSE__TIMEOUT", "1m30s"),
            ("DULY__QUEUES__ORDER-CLOSE__ATTEMPTS", "3"),
            ("DULY__QUEUES__ORDER-CLOSE__FREE_INTERRUPTIONS", "5"),
            ("DULY__QUEUES__ORDER-CLOSE__BACKOFF", "fixed(5s)"),
            ("DULY__QUEUES__ORDER-CLOSE__LATE", "bury(1h)"),
            ("DULY__QUEUES__ORDER-CLOSE__SPREAD", "10s"),
            ("DULY__QUEUES__ORDER-CLOSE__RING", "64"),
            ("DULY__QUEUES__ORDER-CLOSE__LINGER", "0s"),
            ("DULY__QUEUES__ORDER-CLOSE__DEDICATED", "true"),
            ("DULY__QUEUES__ORDER-CLOSE__CONSUME", "false"),
            ("DULY__QUEUES__ORDER-CLOSE__KEEP_PAYLOAD", "true"),
            ("DULY__QUEUES__ORDER-CLOSE__RATE", "5/s"),
            ("DULY__QUEUES__ORDER-CLOSE__DEAD_KEEP_FOR", "30d"),
            ("DULY__QUEUES__ORDER-CLOSE__DEAD_KEEP_MAX", "1000"),
            ("DULY__QUEUES__ORDER-CLOSE__CODEC", "raw"),
            ("DULY__QUEUES__ORDER-CLOSE__ENCRYPT", "true"),
            ("DULY__ENCRYPTION__KEYS", "a=MDEy b=MTIz"),
            ("DULY__ENCRYPTION__KEYS_FILE", "/run/keys"),
            ("DULY__ENCRYPTION__USE", "b"),
            ("DULY__QUEUES__MAIL_OUT__WORKERS", "1"),
        ])
        .unwrap();
    assert_eq!(settings, toml(TOML));
}

#[test]
fn the_environment_is_stronger_than_the_file_and_leaves_the_rest_alone() {
    let settings = toml(TOML)
        .with_environment([
            ("DULY__STORE__URL", "memory:"),
            ("DULY__QUEUES__ORDER_CLOSE__WORKERS", "32"),
            ("HOME", "/root"),
            ("DULY_TOKEN", "not a setting"),
        ])
        .unwrap();
    let mut expected = toml(TOML);
    expected.store_url = Some("memory:".to_owned());
    let close = expected.queues.get_mut("order-close").unwrap();
    close.workers = Some(32);
    assert_eq!(settings, expected);
}

#[test]
fn nothing_said_is_nothing_chosen() {
    for text in ["", "# a comment\n"] {
        assert_eq!(toml(text), Settings::default());
    }
    let bare = Settings::default().with_environment(NO_VARIABLES);
    assert_eq!(bare.unwrap(), Settings::default());
}

#[test]
fn debug_does_not_show_the_password_of_a_url() {
    let settings = toml(
        "store.url = 'redis://me:s3cret@host:6379/0'
        records.journal = 'postgres://me:s3cret@db/records'",
    );
    let shown = format!("{settings:?}");
    assert!(shown.contains("redis://...@host:6379/0"), "{shown}");
    assert!(shown.contains("postgres://...@db/records"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
}
