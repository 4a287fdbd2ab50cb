//! Other options in the place of those before, and what is stored of instants that are decided.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::CancelOutcome;
use duly::prelude::*;
use duly::time::{Timestamp, When};

use super::bursts::waiting;
use super::programs::Shared;
use super::runs::{Seen, builder, instants, options};
use super::zones::rename;

const MINUTE: Duration = Duration::from_secs(60);
const NAME: &str = "often";

/// What was pushed of the options before is no reason to pass over instants of others, whatever has
/// become of it: it was taken back, cancelled or run early by somebody, or due while nobody consumed.
#[tokio::test(start_paused = true)]
async fn other_options_have_each_of_their_instants_whatever_has_become_of_those_before() {
    let second = Duration::from_secs(1);
    let steps = [
        "psr", "prs", "spr", "ppsr", "sprs", "psrps", // a pause
        "s", "cs", "es", "cpsr", "epsr", "csps", "esps", "pecs", // by hand
        "ds", "dsps", "eds", "cds", "dses", "csds", "cs.ds", "es.ds",
        "cp.ds", // removed and set again
    ];
    for (before, after) in [
        ("every 1m phase 7s", "every 30s"),
        ("every 5m", "every 10s"),
        ("every 10s", "every 1m"),
        ("every 1m", "every 1m phase 30s"),
        ("0 9 * * *", "every 10s"),
    ] {
        for steps in steps {
            for between in [Some(Duration::ZERO), Some(second), None] {
                let what = format!("{before}, {after}, {steps}, {between:?}");
                let (shared, seen) = (Shared::new(), Seen::default());
                let bus = shared.start(builder(&seen, &[])).await;
                let maker = shared.start(Bus::builder().publish_only()).await;
                let schedules = maker.schedules();
                schedules.set(NAME, options(before)).await.unwrap();
                maker.advance(MINUTE * 3 / 2).await;
                let mut bus = Some(bus);
                if between.is_none() {
                    bus.take().unwrap().shutdown(MINUTE).await.unwrap();
                }
                let (mut by_hand, mut cancelled) = (BTreeSet::new(), BTreeSet::new());
                for step in steps.chars() {
                    match step {
                        'p' => schedules.pause(NAME).await.unwrap(),
                        'r' => schedules.resume(NAME).await.unwrap(),
                        'd' => {
                            assert!(schedules.remove(NAME).await.unwrap());
                            by_hand.retain(|at| !cancelled.contains(at));
                        }
                        '.' => {
                            // What was done until now is carried out.
                            let carries = builder(&seen, &[]);
                            let carries = shared.start(carries).await;
                            carries.advance(second).await;
                            carries.shutdown(MINUTE).await.unwrap();
                        }
                        's' => schedules.set(NAME, options(after)).await.unwrap(),
                        _ => {
                            if let Some(one) = waiting(&maker).await.last() {
                                by_hand.insert(one.due);
                                let when = When::Now;
                                let _too_late = match step {
                                    'c' => {
                                        cancelled.insert(one.due);
                                        one.cancel().await.map(drop)
                                    }
                                    _ => one.reschedule(when).await.map(drop),
                                };
                            }
                        }
                    }
                    maker.advance(between.unwrap_or_default()).await;
                }
                schedules.resume(NAME).await.unwrap();
                let from = maker.now();
                if bus.is_none() {
                    maker.advance(second * 50).await;
                    bus = Some(shared.start(builder(&seen, &[])).await);
                }
                let taken_back = maker.now();
                maker.advance(MINUTE * 6).await;
                let until = maker.now();
                let is_own = |at: &Timestamp| from < *at && !by_hand.contains(at);
                let after = options(after);
                let expected = after.instants(from).take_while(|at| *at <= until);
                let expected: Vec<_> = expected.filter(is_own).collect();
                let mut ran = instants(&seen, NAME);
                ran.sort_unstable();
                // Another schedule of the name may have an instant of it again.
                let is_another = |at| steps.contains('d') && by_hand.contains(at);
                let mut pairs = ran.windows(2).filter(|pair| !is_another(&pair[0]));
                let twice = pairs.find(|pair| pair[0] == pair[1]);
                assert_eq!(twice, None, "{what}");
                ran.retain(is_own);
                ran.retain(|at| *at > taken_back || expected.contains(at));
                assert_eq!(ran, expected, "{what}");
                drop(bus);
            }
        }
    }
}

/// As a build stores it that has no field for them.
#[tokio::test(start_paused = true)]
async fn a_stored_schedule_without_instants_that_are_decided_is_read_and_goes_on() {
    let (shared, seen) = (Shared::new(), Seen::default());
    let bus = shared.start(builder(&seen, &[])).await;
    let schedules = bus.schedules();
    schedules.set(NAME, options("every 5m")).await.unwrap();
    bus.advance(MINUTE * 3 / 2).await;
    let ahead = waiting(&bus).await.pop().unwrap();
    assert_eq!(ahead.cancel().await.unwrap(), CancelOutcome::Cancelled);
    let other = options("every 1m");
    schedules.set(NAME, other.clone()).await.unwrap();
    bus.settle().await;
    let decided = async || {
        let events = shared.events().await;
        let mut stored = events.iter().filter_map(|(_, event)| {
            let body = event.body.as_ref()?;
            let text = String::from_utf8(body.payload.as_bytes().to_vec()).ok()?;
            let field = &text[text.find("\"decided\":[")?..];
            Some(field[..field.find("],")? + 2].to_owned())
        });
        stored.next()
    };
    let field = decided().await.unwrap();
    rename(&shared, &field, &" ".repeat(field.len())).await;
    assert_eq!(decided().await, None);
    let from = bus.now();
    bus.advance(MINUTE * 10).await;
    let expected = other.instants(from).take_while(|at| *at <= bus.now());
    assert_eq!(instants(&seen, NAME), expected.collect::<Vec<_>>());
}
