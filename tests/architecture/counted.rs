//! The table of counts in the guide on performance, of the file that the bench compares with.

use std::collections::BTreeMap;

/// Counts by section and name.
type Counts = BTreeMap<(String, String), f64>;

/// What a row says, and the name of its counts.
const ROWS: &[(&str, &str)] = &[
    ("publish, in batches", "publish_many"),
    ("push in batches, embedded", "push_many_embedded"),
    (
        "push one by one, 64 in flight, embedded",
        "push_one_embedded",
    ),
    (
        "push due at once, handle, settle, record, embedded",
        "drain_embedded",
    ),
    ("push in batches, Redis", "push_many_redis"),
    ("push one by one, 64 in flight, Redis", "push_one_redis"),
    (
        "push due at once, handle, settle, record, Redis",
        "drain_redis",
    ),
    (
        "the same, one event in 64 fails once and is retried",
        "fail_redis",
    ),
    (
        "cancel one by one what was pushed in batches, 64 in flight, Redis",
        "cancel_redis",
    ),
];

/// What a column says, its section of the file, and how many digits follow the point.
const COLUMNS: &[(&str, &str, usize)] = &[
    ("allocations of the caller's thread", "allocations", 1),
    ("instructions of the process", "instructions", 0),
    ("instructions of Redis", "redis_instructions", 0),
    ("commands of Redis", "redis_commands", 2),
    ("system calls", "system_calls", 2),
];

/// Returns the lines of the table.
pub(crate) fn table(file: &str) -> Vec<String> {
    let counts = read(file);
    let heads: Vec<_> = COLUMNS.iter().map(|(head, ..)| *head).collect();
    let mut lines = vec![
        format!("| an event | {} |", heads.join(" | ")),
        format!("|---|{}", "--:|".repeat(COLUMNS.len())),
    ];
    lines.extend(ROWS.iter().map(|(what, name)| {
        let cells = COLUMNS.iter().map(|(_, section, digits)| {
            let count = counts.get(&((*section).to_owned(), (*name).to_owned()));
            count.map_or_else(String::new, |count| shown(*count, *digits))
        });
        let cells: Vec<_> = cells.collect();
        format!("| {what} | {} |", cells.join(" | ")).replace("  ", " ")
    }));
    lines
}

fn read(file: &str) -> Counts {
    let mut section = String::new();
    let mut counts = Counts::new();
    for line in file.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((name, count)) = line.split_once(" = ")
            && let Ok(count) = count.parse()
        {
            counts.insert((section.clone(), name.to_owned()), count);
        }
    }
    counts
}

/// Instructions in hundreds, as they differ by some thousands from run to run.
fn shown(count: f64, digits: usize) -> String {
    if digits > 0 {
        return format!("{count:.digits$}");
    }
    let number = format!("{}", (count / 100.0).round() as u64 * 100);
    let (mut text, len) = (String::new(), number.len());
    for (at, digit) in number.chars().enumerate() {
        if at > 0 && (len - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn counts_are_read_and_rounded() {
    let file = "[counted_with]\nrustc = \"1\"\n[instructions]\nfail_redis = 1234567\n\
                [system_calls]\nfail_redis = 0.125\n";
    let table = table(file);
    assert_eq!(table.len(), ROWS.len() + 2);
    let row = "| the same, one event in 64 fails once and is retried | | 1,234,600 | | | 0.12 |";
    assert!(table.iter().any(|line| line == row), "{table:#?}");
    assert_eq!(shown(960.0, 0), "1,000");
}
