//! What a checker of single steps finds.

use duly::records::Outcome;
use duly_conformance::history::{AttemptEnd, Checker, Entry, Expect, Promise, What};

use crate::history::kit::{DUE, entry, lease, recorded, started};

#[test]
fn a_checker_names_the_step_at_fault() {
    let lease = lease(1);
    let (due, payload, attempts) = (DUE, 5, 2);
    let added = entry(
        2,
        What::Added {
            due,
            payload,
            attempts,
        },
    );
    let leased = entry(
        10,
        What::Leased {
            lease,
            attempt: 1,
            due,
            payload,
        },
    );
    let ended = entry(
        11,
        What::Ended {
            lease,
            ending: AttemptEnd::Ack,
            delay_us: 0,
        },
    );
    let settled = entry(
        12,
        What::Settled {
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
