//! The example file at the top of the repository.

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
    (said.dead_keep_for, said.dead_keep_max) = (None, None);
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
            section = name.replace("order-close", "<name>") + ".";
        } else if let Some((key, _)) = line.split_once(" = ") {
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
    for key in known_keys() {
        let name = match key.rsplit_once('.') {
            Some(("queue_defaults" | "queues.<name>", name)) => name,
            _ => &key,
        };
        assert!(page.contains(&format!("//! | `{name}` |")), "{key}");
    }
}

#[test]
fn the_page_of_the_module_shows_the_true_defaults_of_a_queue() {
    let page = include_str!("../../src/config/mod.rs");
    let (_, table) = page
        .split_once("and for `queue_defaults` and each queue:")
        .unwrap();
    let (table, _) = table.split_once("//! A duration is").unwrap();
    let mut keys = Vec::new();
    for row in table
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `"))
    {
        let (key, rest) = row.split_once("` |").unwrap();
        let (_, default) = rest.trim_end_matches(" |").rsplit_once("| ").unwrap();
        let text = default.trim_matches('`');
        if ["never", "no limit"].contains(&text) {
            let of = |options: &QueueOptions| (options.dead_keep_for, options.dead_keep_max);
            assert_eq!(of(&QueueOptions::default()), (None, None), "{row}");
            keys.push(key); // off by default, which no value says
            continue;
        }
        let value = match text.replace(',', "").parse::<u64>() {
            Ok(number) => number.to_string(),
            Err(_) if ["true", "false"].contains(&text) => text.to_owned(),
            Err(_) => format!("{text:?}"),
        };
        let said = toml(&format!("[queue_defaults]\n{key} = {value}\n"));
        assert_ne!(said, Settings::default(), "{key}");
        let default = QueueOptions::default();
        assert_eq!(
            default.with(&said.queue_defaults),
            QueueOptions::default(),
            "{row}"
        );
        keys.push(key);
    }
    assert!(
        keys.contains(&"buckets") && keys.contains(&"encrypt"),
        "{keys:?}"
    );
}
