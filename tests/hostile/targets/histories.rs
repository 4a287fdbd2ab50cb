//! Histories, as lines of JSON.

use duly::ErrorKind;
use duly_conformance::history::{Checker, ClientChecker, Entry, Expect, lines};

use super::{TIMES, bounded, few_words, in_words};

/// A history, a line each.
pub(crate) fn history(data: &[u8]) {
    let entries = bounded(data.len(), TIMES, || {
        let lines = lines(data).map(|line| match line {
            Ok(entry) => Some(entry),
            Err(error) => {
                in_words(&error, &[ErrorKind::Invalid]);
                None
            }
        });
        lines.flatten().collect::<Vec<_>>()
    });
    let again: String = entries.iter().map(Entry::to_line).collect();
    let read: Result<Vec<_>, _> = lines(again.as_bytes()).collect();
    assert_eq!(read.expect("it was just written"), entries);
    bounded(data.len(), 8 * TIMES, || follow(&entries));
}

fn follow(entries: &[Entry]) {
    let mut account = ClientChecker::new();
    let largest = Expect {
        exact: true,
        leases_stand: true,
        late_us_max: Some(u64::MAX),
        late_counts_from_us: u64::MAX,
        calm_after_us: u64::MAX,
        recovery_us_max: Some(u64::MAX),
        early_us_max: u64::MAX,
        ahead_us: u64::MAX,
        ..Expect::default()
    };
    let mut checkers = [Expect::default(), largest].map(Checker::new);
    for entry in entries {
        assert!(!entry.to_string().contains('\n'));
        account.read(entry);
        for checker in &mut checkers {
            // It goes on after a promise that is broken, as whoever runs it may.
            let broken = [
                checker.read(entry),
                checker.operation_ends(),
                checker.look(entry.at_us),
            ];
            for broken in broken.into_iter().filter_map(Result::err) {
                few_words(&broken);
            }
        }
    }
    for checker in &checkers {
        let _ = (checker.end(), checker.is_at_rest());
    }
    let report = account.close();
    assert!(report.early + report.lost + report.unaccounted <= 3 * entries.len() as u64);
    assert!(!report.to_string().is_empty());
}
