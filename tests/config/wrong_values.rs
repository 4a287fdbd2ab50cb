//! What is said of values that a key does not take.

use duly::config::Settings;

use crate::config::{refusal, refused_toml, refused_variable};

#[test]
fn are_named_with_key_value_and_what_would_be_right() {
    for (text, words) in [
        (
            "[queues.x]\nworkers = 'four'",
            "queues.x.workers is \"four\"; it must be a whole number from 0 to 65536",
        ),
        (
            "[queues.x]\nworkers = 1.6",
            "queues.x.workers is 1.6; it must be a whole number from 0 to 65536",
        ),
        (
            "[queues.x]\nworkers = '4'",
            "queues.x.workers is \"4\"; it must be a whole number from 0 to 65536",
        ),
        (
            "[queues.x]\nworkers = true",
            "queues.x.workers is true; it must be a whole number from 0 to 65536",
        ),
        (
            "[queues.x]\nbuckets = 65_536",
            "queues.x.buckets is 65536; it must be a whole number from 1 to 1024",
        ),
        (
            "[queues.x]\nattempts = -1",
            "queues.x.attempts is -1; it must be a whole number from 1 to 1000",
        ),
        (
            "[queues.x]\nring = [64]",
            "queues.x.ring is a list; it must be a power of two from 64 to 65536",
        ),
        (
            "[queues.\"a.b\"]\nconsume = 'no'",
            "queues.\"a.b\".consume is \"no\"; it must be `true` or `false`",
        ),
        (
            "queue_defaults.dedicated = 1",
            "queue_defaults.dedicated is 1; it must be `true` or `false`",
        ),
        (
            "read_ahead = 30",
            "read_ahead is 30; it must be a duration such as `250ms`, `30s` or `1m30s`",
        ),
        (
            "deploy = -1",
            "deploy is -1; it must be a whole number from 0 on",
        ),
        (
            "payload_bytes_max = -1",
            "payload_bytes_max is -1; it must be a whole number of bytes",
        ),
        (
            "store.url = ' '",
            "store.url is \" \"; it must be a text such as `memory:`, `sqlite:duly.db` or `redis://127.0.0.1/0`",
        ),
        (
            "store = 'memory:'",
            "store is \"memory:\"; it must be a section",
        ),
        (
            "records.when_full = 'drop'",
            "records.when_full is \"drop\"; it must be `drop_oldest` or `refuse_pushes`",
        ),
        (
            "records.keep_max = '10'",
            "records.keep_max is \"10\"; it must be a whole number of records",
        ),
        (
            "records.journal = ''",
            "records.journal is \"\"; it must be `off`, or a text such as",
        ),
        (
            "queues.x.late = 'never'",
            "queues.x.late: unknown late policy `never`, expected `deliver`, `expire(5m)` or",
        ),
        (
            "queues.x.late = 'expire(5)'",
            "queues.x.late: duration `5` has no unit after `5`",
        ),
        (
            "queues.x.late = 5",
            "queues.x.late is 5; it must be `deliver`, or a text such as `expire(5m)`",
        ),
        (
            "queues.x.rate = 'fast'",
            "queues.x.rate: malformed rate `fast`, expected a number and a unit of time, such as",
        ),
        (
            "queues.x.rate = 50",
            "queues.x.rate is 50; it must be a text such as `50/s`, `300/m` or `10/h`",
        ),
        (
            "queues.x.keep_payload = 'yes'",
            "queues.x.keep_payload is \"yes\"; it must be `true` or `false`",
        ),
        ("queues = 1", "queues is 1; it must be a section"),
        ("queues.x = 1", "queues.x is 1; it must be a section"),
        (
            "read_ahead = {}",
            "read_ahead is a section; it must be a duration",
        ),
    ] {
        let said = refused_toml(text);
        assert!(said.starts_with(&format!("settings: {words}")), "{said}");
    }
}

#[test]
fn ill_formed_texts_are_refused_in_the_words_of_their_grammar() {
    let words = refused_toml("queue_defaults.timeout = '30'");
    assert!(
        words.contains("queue_defaults.timeout: duration `30` has no unit after `30`"),
        "{words}"
    );
    let words = refused_toml("queue_defaults.backoff = 'exp(10m..1s)'");
    assert!(
        words.contains("queue_defaults.backoff: backoff `exp(10m..1s)` ends before it starts"),
        "{words}"
    );
}

#[test]
fn names_that_no_queue_can_have_are_refused() {
    let words = refused_toml("[queues.'no spaces']\nworkers = 1");
    assert!(
        words.contains("queues: queue name \"no spaces\""),
        "{words}"
    );
    refused_variable(Settings::default(), "DULY__QUEUES__.__WORKERS", "1");
}

#[test]
fn of_variables_are_refused_alike() {
    for (name, value, says) in [
        (
            "DULY__QUEUE_DEFAULTS__WORKERS",
            "four",
            "is \"four\"; it must be a whole number",
        ),
        (
            "DULY__QUEUE_DEFAULTS__WORKERS",
            "",
            "is \"\"; it must be a whole number",
        ),
        (
            "DULY__QUEUE_DEFAULTS__CONSUME",
            "yes",
            "is \"yes\"; it must be `true` or `false`",
        ),
        ("DULY__READ_AHEAD", "30", "duration `30` has no unit"),
        ("DULY__DEPLOY", "-1", "is \"-1\"; it must be a whole number"),
        ("DULY__STORE__URL", "", "is \"\"; it must be a text"),
    ] {
        let words = refused_variable(Settings::default(), name, value);
        assert!(words.contains(says), "{words}");
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_refused_if_it_is_a_setting() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let bytes = OsStr::from_bytes(&[0xff]);
    let with = |name| Settings::default().with_environment([(name, bytes)]);
    let words = refusal(with(OsStr::new("DULY__STORE__URL")));
    assert!(
        words.contains("DULY__STORE__URL: its value is not UTF-8"),
        "{words}"
    );
    assert!(with(OsStr::new("OTHER")).is_ok());
    assert!(with(bytes).is_ok());
}
