//! Similar names: the name that was probably meant.

use crate::event::QueueName;

/// Returns the known key that differs in at most a third of its letters.
pub(super) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (distance(name, known), *known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .min()
        .map(|(_, known)| known)
}

/// Returns the edit distance: letters changed, added, left out or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut least = (last[j] + usize::from(a != b))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

/// Returns whether `spelled` is a spelling of `name`, without case and with `_` for `-` and `.`.
pub(super) fn spells(spelled: &str, name: &str) -> bool {
    spelled.len() == name.len()
        && spelled.bytes().zip(name.bytes()).all(|(spelled, byte)| {
            spelled.eq_ignore_ascii_case(&byte) || (spelled == b'_' && matches!(byte, b'-' | b'.'))
        })
}

/// Returns the queue of `known` that is another spelling of `name`: it differs in case, or in `-`,
/// `.` and `_`. `name` itself is not in `known`.
pub(crate) fn spelled_otherwise<'a>(
    name: &QueueName,
    known: impl IntoIterator<Item = &'a QueueName>,
) -> Option<&'a QueueName> {
    let plain = |name: &QueueName| name.to_ascii_lowercase().replace(['-', '.'], "_");
    let meant = plain(name);
    known.into_iter().find(|known| plain(known) == meant)
}

/// Returns the queue of `known` that was probably meant by `name`: another spelling of it, or a
/// mistake of a letter or two. Names that differ only in numbers or in their last letter are
/// different names. `name` itself is not in `known`.
pub(crate) fn queue_meant<'a>(
    name: &QueueName,
    known: impl IntoIterator<Item = &'a QueueName> + Clone,
) -> Option<&'a QueueName> {
    if let Some(meant) = spelled_otherwise(name, known.clone()) {
        return Some(meant);
    }
    let letters = |name: &str| {
        let kept: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
        kept
    };
    let is_of_its_own = |known: &str| {
        let stem = |name: &str| name[..name.len().saturating_sub(1)].to_owned();
        letters(known) == letters(name) || stem(known) == stem(name)
    };
    known
        .into_iter()
        .filter(|known| !is_of_its_own(known))
        .map(|known| (distance(name, known), known))
        .filter(|(distance, known)| *distance <= 2.min(known.len() / 4))
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_was_probably_meant_is_found_and_no_other() {
        let known = ["order-close", "mail.out", "tenant-a", "shard-1"];
        let known = known.map(|name| QueueName::new(name).unwrap());
        for (name, meant) in [
            ("order_close", Some("order-close")),
            ("Order-Close", Some("order-close")),
            ("ORDER.CLOSE", Some("order-close")),
            ("oder-close", Some("order-close")),
            ("order-colse", Some("order-close")),
            ("mail-out", Some("mail.out")),
            ("mial.out", Some("mail.out")),
            ("order", None),
            ("tenant-b", None),
            ("shard-2", None),
            ("shard-17", None),
            ("reports", None),
        ] {
            let name = QueueName::new(name).unwrap();
            let found = queue_meant(&name, &known).map(QueueName::as_str);
            assert_eq!(found, meant, "{name}");
        }
    }
}
