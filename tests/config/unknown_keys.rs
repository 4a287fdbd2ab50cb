//! What is said of keys that do not exist.

use duly::config::Settings;

use crate::config::{refused_toml, refused_variable};

#[test]
fn are_named_with_their_path_the_nearest_key_and_those_there_are() {
    assert_eq!(
        refused_toml("read_ahaed = '1s'"),
        "settings: unknown key read_ahaed, did you mean read_ahead? (known here: \
         calendars, deploy, encryption, metrics, payload_bytes_max, queue_defaults, queues, \
         read_ahead, records, schedules, store)"
    );
    assert_eq!(
        refused_toml("[queues.order-close]\nworker = 1"),
        "settings: unknown key queues.order-close.worker, did you mean \
         queues.order-close.workers? (known here: attempts, backoff, buckets, codec, \
         consume, dead_keep_for, dead_keep_max, dedicated, encrypt, free_interruptions, \
         keep_payload, late, linger, rate, ring, spread, timeout, workers)"
    );
    assert_eq!(
        refused_toml("store.ulr = 'memory:'"),
        "settings: unknown key store.ulr, did you mean store.url? (known here: durability, url)"
    );
    assert_eq!(
        refused_toml("[stoer]\nurl = 'memory:'"),
        "settings: unknown key stoer, did you mean store? (known here: calendars, deploy, \
         encryption, metrics, payload_bytes_max, queue_defaults, queues, read_ahead, records, \
         schedules, store)"
    );
}

#[test]
fn that_resemble_none_are_not_guessed_at() {
    let words = refused_toml("[queue_defaults]\nconcurrency = 1");
    assert!(
        words.contains("unknown key queue_defaults.concurrency (known here: attempts"),
        "{words}"
    );
}

#[test]
fn that_stand_in_another_section_are_sent_there() {
    for (text, there) in [
        (
            "workers = 1",
            "queue_defaults.workers or queues.<name>.workers?",
        ),
        ("store_url = 'memory:'", "did you mean store.url?"),
        ("store.read_ahead = '1s'", "did you mean read_ahead?"),
    ] {
        let words = refused_toml(text);
        assert!(words.contains(there), "{words}");
    }
}

#[test]
fn are_all_named_at_once_up_to_a_bound() {
    let words = refused_toml("a = 1\nread_ahead = 1\n[queues.x]\nwokers = 1");
    for says in ["key a ", "read_ahead is 1", "queues.x.wokers"] {
        assert!(words.contains(says), "{words}");
    }
    let many: String = (0..30).map(|i| format!("k{i} = 1\n")).collect();
    let words = refused_toml(&many);
    assert!(words.ends_with("; and 20 more"), "{words}");
}

#[test]
fn a_version_is_sent_to_the_annotation() {
    let words = refused_toml("[queues.x]\nversion = 2");
    assert!(words.contains("queues.x.version"), "{words}");
    assert!(words.contains("set it in the annotation"), "{words}");
}

#[test]
fn a_dotted_name_without_quotes_is_told_to_be_quoted() {
    let words = refused_toml("[queues.mail.out]\nworkers = 1");
    assert!(words.contains("queues.\"mail.out\""), "{words}");
}

#[test]
fn of_variables_are_refused_alike() {
    let refused = |name| refused_variable(Settings::default(), name, "1");
    let words = refused("DULY__STORE__ULR");
    assert!(
        words.contains("unknown key store.ulr, did you mean store.url?"),
        "{words}"
    );
    let words = refused("DULY__QUEUES__EMAIL__WORKER");
    assert!(
        words.contains("did you mean queues.email.workers?"),
        "{words}"
    );
    let words = refused("DULY__STOER__URL");
    assert!(
        words.contains("unknown section stoer, did you mean store?"),
        "{words}"
    );
    let words = refused("DULY__STORE");
    assert!(words.contains("store is a section"), "{words}");
    let words = refused("DULY__QUEUES__EMAIL");
    assert!(words.contains("DULY__QUEUES__EMAIL__WORKERS"), "{words}");
    let words = refused("DULY__");
    assert!(words.contains("unknown key"), "{words}");
}

#[test]
fn a_variable_with_too_few_underscores_is_not_passed_over() {
    for (name, meant) in [
        ("DULY_STORE_URL", "DULY__STORE__URL"),
        ("DULY_STORE__URL", "DULY__STORE__URL"),
        ("DULY_READ_AHEAD", "DULY__READ_AHEAD"),
        (
            "DULY_QUEUE_DEFAULTS_WORKERS",
            "DULY__QUEUE_DEFAULTS__WORKERS",
        ),
        (
            "DULY_QUEUES_ORDER_CLOSE_WORKERS",
            "DULY__QUEUES__<NAME>__WORKERS",
        ),
    ] {
        let words = refused_variable(Settings::default(), name, "1");
        assert!(words.contains(meant), "{words}");
    }
}
