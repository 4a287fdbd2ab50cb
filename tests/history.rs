//! What the checkers of histories find, and what they must not complain about.
//!
//! Each promise that a history can break is broken here by one line too many, too few, or wrong.

use duly::history::{Account, Checker, Ending, Entry, Expect, Lease, Promise, Report, Told, Truth};
use duly::history::{What, lines};
use duly::record::{NodeId, Outcome};
use duly::{BucketId, EventId, EventState, Timestamp};

const NODE: NodeId = NodeId(7);
const DUE: Timestamp = Timestamp::from_millis(10);

fn id() -> EventId {
    EventId::from_parts(Timestamp::EPOCH, BucketId(0), 1)
}

fn lease(request: u64) -> Lease {
    Lease {
        node: NODE,
        request,
    }
}

fn entry(at_ms: u64, what: What) -> Entry {
    Entry {
        at_us: at_ms * 1_000,
        store_us: at_ms * 1_000,
        id: Some(id()),
        what,
    }
}

fn asked() -> Entry {
    let (payload, attempts) = (5, 2);
    entry(1, What::PushAsked { payload, attempts })
}

fn answered(verdict: Told) -> Entry {
    let due = Some(DUE);
    let payload = 5;
    entry(
        2,
        What::PushAnswered {
            verdict,
            payload,
            due,
        },
    )
}

fn started(at_ms: u64, attempt: u16) -> Entry {
    entry(
        at_ms,
        What::Started {
            lease: lease(attempt.into()),
            attempt,
            due: DUE,
            payload: 5,
        },
    )
}

fn recorded(attempt: u16, outcome: Outcome) -> Entry {
    entry(
        100,
        What::Recorded {
            node: NODE,
            attempt,
            outcome,
            due: DUE,
        },
    )
}

fn found(state: EventState) -> Entry {
    let state = Some(state);
    entry(101, What::Found { state })
}

fn cancel_told() -> Entry {
    entry(3, What::CancelAnswered { truth: Truth::Done })
}

fn report(entries: &[Entry]) -> Report {
    let mut account = Account::new();
    entries.iter().for_each(|entry| account.read(entry));
    account.close()
}

/// Tried twice, and done.
fn good() -> Vec<Entry> {
    vec![
        asked(),
        answered(Told::Accepted),
        started(10, 1),
        started(30, 2),
        recorded(1, Outcome::Retried),
        recorded(2, Outcome::Acked),
        found(EventState::Done),
    ]
}

#[test]
fn a_history_that_fits_is_clean_and_counted() {
    let report = report(&good());
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.pushed, report.answered), (1, 1));
    assert_eq!((report.handled, report.starts), (1, 2));
    assert_eq!((report.handled_again, report.leases_lost), (1, 0));
}

/// What is found in a history.
fn broken(entries: &[Entry]) -> Promise {
    let report = report(entries);
    assert!(!report.is_clean());
    assert_eq!(report.broken.len(), 1, "{report}");
    report.broken[0].promise
}

/// The good history with one entry changed.
fn with(at: usize, entry: Entry) -> Vec<Entry> {
    let mut entries = good();
    entries[at] = entry;
    entries
}

#[test]
fn an_accepted_event_of_which_nothing_is_known_is_lost() {
    let report = report(&[asked(), answered(Told::Accepted)]);
    assert_eq!((report.lost, report.unaccounted), (1, 0));
    assert_eq!(report.broken[0].promise, Promise::Accepted);
}

#[test]
fn an_event_that_never_ends_is_unaccounted() {
    let mut entries = good();
    entries.truncate(5);
    entries.remove(3);
    assert_eq!(broken(&entries), Promise::Accepted);
}

#[test]
fn a_start_before_the_due_time_is_early() {
    let entries = with(2, started(9, 1));
    assert_eq!(broken(&entries), Promise::NeverEarly);
    assert_eq!(report(&entries).early, 1);
}

#[test]
fn a_start_after_a_confirmed_cancel_is_a_lie() {
    let mut entries = good();
    entries.insert(2, cancel_told());
    assert_eq!(broken(&entries), Promise::Truth);
}

#[test]
fn a_cancelled_event_that_ends_as_something_else_is_a_lie() {
    let mut entries = good();
    entries.insert(6, cancel_told());
    assert_eq!(broken(&entries), Promise::Truth);
}

#[test]
fn one_attempt_more_than_allowed_is_too_many() {
    let mut entries = good();
    entries.insert(4, started(50, 3));
    entries.insert(6, recorded(3, Outcome::Retried));
    assert_eq!(broken(&entries), Promise::Attempts);
}

#[test]
fn two_records_of_one_attempt_are_one_too_many() {
    let mut entries = good();
    entries.insert(4, recorded(1, Outcome::Retried));
    assert_eq!(broken(&entries), Promise::Attempts);
}

#[test]
fn a_start_without_a_record_and_a_record_without_a_start_do_not_fit() {
    let mut entries = good();
    entries.remove(4);
    assert_eq!(broken(&entries), Promise::Records);
    let mut entries = good();
    entries.remove(3);
    assert_eq!(broken(&entries), Promise::Records);
}

#[test]
fn a_state_that_is_not_what_the_last_record_says_does_not_fit() {
    assert_eq!(broken(&with(6, found(EventState::Dead))), Promise::Records);
}

#[test]
fn two_starts_under_one_lease_are_one_too_many() {
    let mut entries = good();
    entries.insert(3, started(11, 1));
    assert_eq!(broken(&entries), Promise::LostWorkers);
}

#[test]
fn a_refused_push_that_happened_was_not_refused() {
    assert_eq!(
        broken(&with(1, entry(2, What::PushRefused))),
        Promise::Doubt
    );
}

#[test]
fn what_nobody_pushed_must_not_happen() {
    assert_eq!(broken(&good()[2..]), Promise::Doubt);
}

#[test]
fn a_push_without_an_answer_may_or_may_not_have_happened() {
    let unknown = entry(2, What::Unknown);
    assert!(report(&[asked(), unknown]).is_clean());
    assert!(report(&with(1, unknown)).is_clean());
    let mut account = Account::new();
    account.read(&asked());
    account.read(&unknown);
    assert_eq!(account.open().collect::<Vec<_>>(), [(id(), 5, 2)]);
}

#[test]
fn what_a_store_may_forget_is_counted_and_not_held_against_it() {
    let entries = [asked(), answered(Told::Accepted)];
    let mut account = Account::new().may_forget();
    entries.iter().for_each(|entry| account.read(entry));
    let report = account.close();
    assert_eq!((report.lost, report.broken.len()), (1, 0));
}

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
            ending: Ending::Ack,
            delay_us: 0,
        },
    );
    let settled = entry(
        12,
        What::Settled {
            lease,
            ending: Ending::Ack,
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
fn a_history_survives_being_written_and_read() {
    let text: String = good().iter().map(Entry::to_line).collect();
    let read: duly::Result<Vec<_>> = lines(text.as_bytes()).collect();
    assert_eq!(read.expect("entries"), good());
}

#[test]
fn a_cut_last_line_is_passed_over_and_any_other_is_named() {
    let text: String = good().iter().map(Entry::to_line).collect();
    let cut = &text[..text.len() - 20];
    let read: duly::Result<Vec<_>> = lines(cut.as_bytes()).collect();
    assert_eq!(read.expect("entries").len(), good().len() - 1);
    let first = good()[0].to_line();
    let garbled = format!("{first}{{\"at_us\":1}}\n{first}");
    let error = lines(garbled.as_bytes())
        .nth(1)
        .expect("an item")
        .expect_err("no entry");
    assert_eq!(error.to_string(), "line 2 of the history is no entry");
    let endless = vec![b'['; 100_000];
    let error = lines(&endless[..])
        .next()
        .expect("an item")
        .expect_err("no entry");
    assert_eq!(error.kind(), duly::ErrorKind::Invalid);
}

/// The guide to delivery, by sections.
const GUIDE: &str = include_str!("../src/docs/delivery.md");

#[test]
fn the_guide_says_each_promise_in_bold_and_names_a_test_that_holds_it() {
    for promise in Promise::ALL {
        let title = format!("### {}. {}", promise.number(), promise.title());
        let is_title = |line: &&str| line.eq_ignore_ascii_case(&title);
        assert!(
            GUIDE.lines().any(|line| is_title(&line)),
            "no section {title:?}"
        );
        let after = GUIDE.lines().skip_while(|line| !is_title(line)).skip(1);
        let section: Vec<_> = after.take_while(|line| !line.starts_with('#')).collect();
        let is_bold = section.iter().any(|line| line.starts_with("**"));
        assert!(is_bold, "{title:?} has no sentence in bold");
        let mut held = section
            .iter()
            .filter(|line| line.starts_with("Held by `tests/"));
        assert!(held.next().is_some(), "{title:?} names no test");
    }
}

/// Says what a checker makes of pushes with one unique key: each its number, whether it replaces,
/// and which one has kept it out. Those in `leased` are leased as soon as they are accepted.
fn uniques(pushes: &[(u64, bool, Option<u64>)], leased: &[u64]) -> Result<(), Promise> {
    let mut checker = Checker::new(Expect::default());
    let id = |number: u64| EventId::from_parts(DUE, BucketId(0), number);
    let (due, payload, attempts, key) = (DUE, 5, 2, 1);
    for (number, replaces, taken_by) in pushes {
        let mut steps = Vec::new();
        if taken_by.is_none() {
            steps.push(What::Added {
                due,
                payload,
                attempts,
            });
        }
        steps.push(What::UniqueAsked {
            key,
            replaces: *replaces,
            taken_by: taken_by.map(id),
        });
        if leased.contains(number) {
            steps.push(What::Leased {
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
    let asked = What::UniqueAsked {
        key,
        replaces,
        taken_by,
    };
    let (verdict, due) = (Told::Accepted, Some(DUE));
    let mut account = Account::new();
    let mut read = |number: usize, at_ms, what| {
        account.read(&Entry {
            id: Some(ids[number]),
            ..entry(at_ms, what)
        });
    };
    for (number, answered, ended) in [(0, 3, first_ended), (1, answered, ended)] {
        read(number, 1, What::PushAsked { payload, attempts });
        read(number, answered, asked);
        let answered_as = What::PushAnswered {
            verdict,
            payload,
            due,
        };
        read(number, answered, answered_as);
        let cancelled = What::Recorded {
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
