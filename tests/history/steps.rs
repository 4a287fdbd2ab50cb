//! What a checker of single steps finds.

use duly::records::{NodeId, Outcome};
use duly_conformance::history::{AttemptEnd, Checker, Entry, EntryKind, Expect, Lease, Promise};

use crate::history::kit::{DUE, entry, lease, recorded, started};

#[test]
fn a_checker_names_the_step_at_fault() {
    let lease = lease(1);
    let (due, payload, attempts) = (DUE, 5, 2);
    let added = entry(
        2,
        EntryKind::Added {
            due,
            payload,
            attempts,
        },
    );
    let leased = entry(
        10,
        EntryKind::Leased {
            lease,
            attempt: 1,
            due,
            payload,
        },
    );
    let ended = entry(
        11,
        EntryKind::Ended {
            lease,
            ending: AttemptEnd::Ack,
            delay_us: 0,
        },
    );
    let settled = entry(
        12,
        EntryKind::Settled {
            lease,
            ending: AttemptEnd::Ack,
            accepted: true,
        },
    );
    let steps = [added, leased, started(10, 1), ended, settled];
    let read = |steps: &[Entry]| {
        let mut checker = Checker::new(Expect::default());
        for (at, step) in steps.iter().enumerate() {
            checker.read(step).map_err(|broken| (at, broken.promise))?;
        }
        checker
            .operation_ends()
            .map_err(|broken| (steps.len(), broken.promise))
    };
    assert_eq!(
        read(&steps),
        Err((5, Promise::Records)),
        "its record is missing"
    );
    let mut whole = steps.to_vec();
    whole.push(recorded(1, Outcome::Acked));
    assert_eq!(read(&whole), Ok(()));
    let without_lease = [added, started(10, 1)];
    assert_eq!(read(&without_lease), Err((1, Promise::LostWorkers)));
    let mut twice = steps.to_vec();
    twice.insert(1, added);
    assert_eq!(read(&twice), Err((1, Promise::Ids)));
    let mut unended = steps.to_vec();
    unended.remove(3);
    assert_eq!(read(&unended), Err((3, Promise::Records)));
}

#[test]
fn the_wait_for_another_node_begins_anew_when_that_one_dies_too() {
    let (due, payload, attempts) = (DUE, 5, 9);
    let node = |number| NodeId(number);
    let leased = |at_ms, number| {
        let lease = Lease {
            node: node(number),
            request: 1,
        };
        let attempt = u16::try_from(number).expect("few nodes");
        entry(
            at_ms,
            EntryKind::Leased {
                lease,
                attempt,
                due,
                payload,
            },
        )
    };
    let died = |at_ms, number| Entry {
        id: None,
        ..entry(at_ms, EntryKind::Died { node: node(number) })
    };
    let lost = |at_ms| {
        let recorded = EntryKind::Recorded {
            node: node(1),
            attempt: 1,
            outcome: Outcome::LeaseLost,
            due,
        };
        entry(at_ms, recorded)
    };
    let added = EntryKind::Added {
        due,
        payload,
        attempts,
    };
    let mut checker = Checker::new(Expect {
        recovery_us_max: Some(3_000_000),
        ..Expect::default()
    });
    for step in [
        entry(2, added),
        leased(10, 1),
        died(20, 1),
        lost(2_000),
        leased(2_001, 2),
    ] {
        checker.read(&step).expect("it is as promised");
    }
    checker.operation_ends().expect("it is as promised");
    assert!(
        checker.look(3_021_000).is_err(),
        "the second never starts it"
    );
    checker.read(&died(2_002, 2)).expect("nodes may die");
    assert!(checker.look(5_001_000).is_ok());
    assert!(checker.look(5_003_000).is_err());
}
