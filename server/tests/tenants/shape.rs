//! The shape of a response: what two worlds have in common where all is well.

use serde_json::Value;

/// A response without what a server changes by itself, when it carries out a schedule.
fn at_rest(text: &str) -> String {
    let Ok(mut schedule) = serde_json::from_str::<Value>(text) else {
        return text.to_owned();
    };
    if let Some(fields) = schedule
        .as_object_mut()
        .filter(|it| it.contains_key("meaning"))
    {
        for name in ["ahead", "changing", "explanation", "last_ms"] {
            assert!(fields.remove(name).is_some(), "{name}: {text}");
        }
        return schedule.to_string();
    }
    text.to_owned()
}

/// A response without what differs by itself: ids, numbers, times.
pub(super) fn shape(text: &str, ids: &[String]) -> String {
    let mut text = at_rest(text);
    for id in ids {
        text = text.replace(id, "GIVEN");
    }
    while let Some((before, rest)) = text.split_once("whsec_") {
        let (_, after) = rest.split_once('"').unwrap();
        text = format!("{before}SIGNS\"{after}");
    }
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let mut shape = String::new();
    for part in text.split_inclusive(|c| !is_word(c)) {
        let word = part.trim_end_matches(|c| !is_word(c));
        let rest = &part[word.len()..];
        // Also one with a unit, or in a time.
        let is_number = word.starts_with(|it: char| it.is_ascii_digit());
        shape += match word.len() == 26 && word.chars().all(|it| !it.is_lowercase()) {
            true => "ID",
            false if is_number => "N",
            false => word,
        };
        shape += rest;
    }
    shape
}
