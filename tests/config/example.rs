//! The example file at the top of the repository.

use duly::__internal::options::{QUEUE_OPTIONS, QueueOption, queue_option};
use duly::config::{QueueOptions, Settings, known_keys};

use crate::config::{queue, toml};

const EXAMPLE: &str = include_str!("../../duly.example.toml");

/// A setting is commented out by `#` alone; prose stands after `# `.
fn setting(line: &str) -> Option<&str> {
    line.strip_prefix('#')
        .filter(|rest| !rest.is_empty() && !rest.starts_with(' '))
}

fn uncommented() -> String {
    let line = |line| setting(line).unwrap_or(line).to_owned() + "\n";
    EXAMPLE.lines().map(line).collect()
}

#[test]
fn chooses_nothing_as_it_stands() {
    assert_eq!(toml(EXAMPLE), Settings::default());
}

#[test]
fn is_legal_with_every_setting_taken_in() {
    let settings = toml(&uncommented());
    let name = queue("order-close");
    QueueOptions::default()
        .with(&settings.queue_defaults)
        .with(&settings.queues[&name])
        .check(&name)
        .unwrap();
}

#[test]
fn shows_the_true_defaults_of_a_queue() {
    let mut said = toml(&uncommented()).queue_defaults;
    // They are off by default, which no value says.
    (said.rate, said.dead_keep_for, said.dead_keep_max) = (None, None, None);
    let default = QueueOptions::default();
    assert_eq!(QueueOptions::default().with(&said), default);
    assert_eq!(said.buckets, Some(default.buckets), "said, not left out");
}

#[test]
fn shows_every_known_key() {
    let text = uncommented();
    let mut section = String::new();
    let mut shown = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            section = name
                .replace("order-close", "<name>")
                .replace("daily-report", "<name>")
                + ".";
        } else if let Some((key, _)) = line.split_once(" = ") {
            let is_name = section == "calendars.";
            let key = if is_name { "<name>" } else { key };
            shown.push(format!("{section}{key}"));
        }
    }
    shown.sort();
    let mut known: Vec<String> = known_keys().collect();
    known.sort();
    assert_eq!(shown, known);
}

#[test]
fn the_page_of_the_module_has_every_known_key_too() {
    let page = include_str!("../../src/config/mod.rs");
    let of_queue = |name: &str| queue_option(name).is_some();
    for key in known_keys() {
        let is_shown = match key.rsplit_once('.') {
            Some(("queue_defaults" | "queues.<name>", name)) => of_queue(name),
            _ => page.contains(&format!("//! | `{key}` |")),
        };
        assert!(is_shown, "{key}");
    }
}

#[test]
fn the_table_of_options_has_the_true_defaults_of_a_queue() {
    let default = QueueOptions::default();
    let (mut keys, mut off) = (Vec::new(), Vec::new());
    for QueueOption {
        name,
        default: text,
        ..
    } in QUEUE_OPTIONS
    {
        let text = text.trim_matches('`');
        match (*name, text) {
            (_, "never" | "no limit") => off.push(*name),
            ("version", _) => assert_eq!(text, default.version.to_string()),
            _ => {
                let value = match text.replace(',', "").parse::<u64>() {
                    Ok(number) => number.to_string(),
                    Err(_) if ["true", "false"].contains(&text) => text.to_owned(),
                    Err(_) => format!("{text:?}"),
                };
                let said = toml(&format!("[queue_defaults]\n{name} = {value}\n"));
                assert_ne!(said, Settings::default(), "{name}");
                let with = QueueOptions::default().with(&said.queue_defaults);
                assert_eq!(with, default, "{name}");
                keys.push(*name);
            }
        }
    }
    assert_eq!((default.dead_keep_for, default.dead_keep_max), (None, None));
    assert_eq!(default.rate, None);
    assert_eq!(off, ["rate", "dead_keep_for", "dead_keep_max"]);
    assert_eq!(keys.len() + off.len() + 1, QUEUE_OPTIONS.len());
}
