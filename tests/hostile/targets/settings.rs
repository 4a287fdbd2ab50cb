//! Settings, from files and from the environment.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use duly::__internal::duration;
use duly::ErrorKind;
use duly::config::{QueueChoices, Settings};

use super::{TIMES, bounded, in_words};

/// A settings file.
pub(crate) fn settings_toml(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 4 * TIMES, || Settings::from_toml(&text)) {
        Ok(settings) => can_be_written_again(&settings),
        Err(error) => in_words(&error, &[ErrorKind::Invalid]),
    }
}

/// Variables of the environment, a line each.
pub(crate) fn environment(data: &[u8]) {
    let variables: Vec<(OsString, OsString)> = data
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b'=')?;
            let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            Some((os(&line[..at]), os(&line[at + 1..])))
        })
        .collect();
    let file =
        "queues = { order-close = {}, \"order.close\" = {}, a__b = {}, mails = { workers = 2 } }";
    let file = Settings::from_toml(file).expect("settings");
    let reversed = variables.iter().cloned().rev().collect::<Vec<_>>();
    let read = |variables| {
        file.clone()
            .with_environment::<OsString, OsString>(variables)
    };
    let there = bounded(data.len(), TIMES, || read(variables));
    match (there, read(reversed)) {
        (Ok(there), Ok(back)) => {
            assert!(there == back, "the order of variables matters");
            can_be_written_again(&there);
        }
        (Err(error), Err(back)) => {
            in_words(&error, &[ErrorKind::Invalid]);
            assert_eq!(error.to_string(), back.to_string());
        }
        (there, back) => panic!("the order of variables matters: {there:?}, {back:?}"),
    }
}

/// Settings say the same when a file says all of them.
fn can_be_written_again(settings: &Settings) {
    let mut text = String::new();
    let mut put = |key: &str, value: Option<String>| {
        text.extend(value.map(|value| format!("{key} = {value}\n")));
    };
    put(
        "payload_bytes_max",
        settings.payload_bytes_max.map(|it| it.to_string()),
    );
    put(
        "read_ahead",
        settings.read_ahead.map(|it| quoted(&duration::format(it))),
    );
    put("store.url", settings.store_url.as_deref().map(quoted));
    put(
        "store.durability",
        settings.durability.map(|it| quoted(&it.to_string())),
    );
    let sections = [("queue_defaults".to_owned(), &settings.queue_defaults)];
    let queues = settings.queues.iter();
    let queues = queues.map(|(name, choices)| (format!("queues.{}", quoted(name)), choices));
    for (section, choices) in sections.into_iter().chain(queues) {
        text.push_str(&format!("[{section}]\n{}", choices_in_toml(choices)));
    }
    let again = Settings::from_toml(&text).expect(&text);
    assert!(again == *settings, "{again:?} is not {settings:?}");
}

fn choices_in_toml(choices: &QueueChoices) -> String {
    let lines = [
        ("buckets", choices.buckets.map(|it| it.to_string())),
        ("workers", choices.workers.map(|it| it.to_string())),
        (
            "timeout",
            choices.timeout.map(|it| quoted(&duration::format(it))),
        ),
        ("attempts", choices.attempts.map(|it| it.to_string())),
        ("backoff", choices.backoff.map(|it| quoted(&it.to_string()))),
        ("ring", choices.ring.map(|it| it.to_string())),
        (
            "linger",
            choices.linger.map(|it| quoted(&duration::format(it))),
        ),
        ("dedicated", choices.dedicated.map(|it| it.to_string())),
        ("consume", choices.consume.map(|it| it.to_string())),
    ];
    let said = lines
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    said.map(|(key, value)| format!("{key} = {value}\n"))
        .collect()
}

/// A text as TOML quotes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        if c.is_control() || c == '"' || c == '\\' {
            quoted.push_str(&format!("\\U{:08x}", u32::from(c)));
        } else {
            quoted.push(c);
        }
    }
    quoted + "\""
}
