//! Who has a unique key.

use duly::EventId;
use duly::event::BucketId;
use duly::records::{NodeId, Outcome};
use duly_conformance::history::{
    Checker, ClientChecker, Entry, EntryKind, Expect, Promise, PushResult,
};

use crate::history::kit::{DUE, entry, lease};

/// Says what a checker makes of pushes with one unique key: each its number, whether it replaces,
/// and which one has kept it out. Those in `leased` are leased as soon as they are accepted.
fn uniques(pushes: &[(u64, bool, Option<u64>)], leased: &[u64]) -> Result<(), Promise> {
    let mut checker = Checker::new(Expect::default());
    let id = |number: u64| EventId::from_parts(DUE, BucketId(0), number);
    let (due, payload, attempts, key) = (DUE, 5, 2, 1);
    for (number, replaces, taken_by) in pushes {
        let mut steps = Vec::new();
        if taken_by.is_none() {
            steps.push(EntryKind::Added {
                due,
                payload,
                attempts,
            });
        }
        steps.push(EntryKind::UniqueAsked {
            key,
            replaces: *replaces,
            taken_by: taken_by.map(id),
        });
        if leased.contains(number) {
            steps.push(EntryKind::Leased {
                lease: lease(*number),
                attempt: 1,
                due,
                payload,
            });
        }
        for what in steps {
            let entry = Entry {
                id: Some(id(*number)),
                ..entry(10, what)
            };
            checker.read(&entry).map_err(|broken| broken.promise)?;
        }
    }
    Ok(())
}

#[test]
fn a_checker_follows_who_has_a_unique_key() {
    assert_eq!(
        uniques(&[(1, false, None), (2, false, Some(1))], &[]),
        Ok(())
    );
    let second = uniques(&[(1, false, None), (2, false, None)], &[1]);
    assert_eq!(second, Err(Promise::Ids), "beside one that runs");
    let beside = uniques(&[(1, false, None), (2, true, None)], &[]);
    assert_eq!(beside, Err(Promise::Ids), "the first waits on");
    let heir = [(1, false, None), (2, true, None), (3, false, Some(2))];
    assert_eq!(uniques(&heir, &[1]), Ok(()));
    let lost = [(1, false, None), (2, true, None), (3, false, Some(1))];
    assert_eq!(uniques(&lost, &[1]), Err(Promise::Ids), "it has it no more");
    assert_eq!(
        uniques(&[(1, false, Some(9))], &[]),
        Err(Promise::Ids),
        "by nobody"
    );
}

/// Says what an account makes of two accepted events of one unique key, of which the first ended
/// then, and the second was answered and ended then, all in milliseconds.
fn two_of_a_key(first_ended: u64, answered: u64, ended: u64) -> Vec<Promise> {
    let ids = [1, 2].map(|number| EventId::from_parts(DUE, BucketId(0), number));
    let (payload, attempts) = (5, 2);
    let (key, replaces, taken_by) = (1, false, None);
    let asked = EntryKind::UniqueAsked {
        key,
        replaces,
        taken_by,
    };
    let (verdict, due) = (PushResult::Accepted, Some(DUE));
    let mut account = ClientChecker::new();
    let mut read = |number: usize, at_ms, what| {
        account.read(&Entry {
            id: Some(ids[number]),
            ..entry(at_ms, what)
        });
    };
    for (number, answered, ended) in [(0, 3, first_ended), (1, answered, ended)] {
        read(number, 1, EntryKind::PushAsked { payload, attempts });
        read(number, answered, asked);
        let answered_as = EntryKind::PushAnswered {
            verdict,
            payload,
            due,
        };
        read(number, answered, answered_as);
        let cancelled = EntryKind::Recorded {
            node: NodeId(0),
            attempt: 0,
            outcome: Outcome::Cancelled,
            due: DUE,
        };
        read(number, ended, cancelled);
    }
    let broken = account.close().broken.into_iter();
    broken.map(|broken| broken.promise).collect()
}

#[test]
fn an_account_finds_two_events_that_had_one_unique_key_at_the_same_time() {
    assert_eq!(two_of_a_key(20, 30, 40), [], "one after the other");
    assert_eq!(two_of_a_key(20, 15, 40), [Promise::Ids]);
}
