//! Tests of settings: precedence, refusals and their messages.

mod example;
mod files;
mod process;
mod sources;
mod spellings;
mod unknown_keys;
mod wrong_values;

use std::fs;

use duly::config::Settings;
use duly::{ErrorKind, Event, Failure, QueueName, delay_event};
use tempfile::TempDir;

/// Makes the queue `mail.out` known by its annotation.
#[delay_event(queue = "mail.out")]
async fn send(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

const NO_VARIABLES: [(&str, &str); 0] = [];

const TOML: &str = r#"
payload_bytes_max = 2_048
read_ahead = "50ms"

[store]
url = "sqlite:/var/lib/duly.db"

[records]
journal = "sqlite:/var/lib/records.db"
keep = "90d"
keep_max = 5_000
keep_minutes = "7d"
prune_at_once = true
outbox_max = 1_000
when_full = "refuse_pushes"

[encryption]
keys = { a = "MDEy", b = "MTIz" }
keys_file = "/run/keys"
use = "b"

[queue_defaults]
workers = 8

[queues.order-close]
buckets = 4
workers = 0
timeout = "1m30s"
attempts = 3
free_interruptions = 5
backoff = "fixed(5s)"
late = "bury(1h)"
spread = "10s"
ring = 64
linger = "0s"
dedicated = true
consume = false
keep_payload = true
rate = "300/m"
dead_keep_for = "30d"
dead_keep_max = 1000
codec = "raw"
encrypt = true

[queues."mail.out"]
workers = 1
"#;

fn toml(text: &str) -> Settings {
    Settings::from_toml(text).expect("the text is legal")
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("the name is legal")
}

/// The words in which `result` is refused.
fn refusal(result: duly::Result<Settings>) -> String {
    let error = result.expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.to_string()
}

fn refused_toml(text: &str) -> String {
    refusal(Settings::from_toml(text))
}

fn refused_variable(settings: Settings, name: &str, value: &str) -> String {
    let words = refusal(settings.with_environment([(name, value)]));
    assert!(words.contains(name), "{words}");
    words
}

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("a file");
    }
    directory
}
