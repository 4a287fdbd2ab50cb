//! The guide and what is heard: every name of one is in the other.

use duly::prelude::*;
use duly::testing::Probe;
use duly::trace::names;

use crate::traces::capture::Capture;
use crate::traces::kit::{ORDERS, orders, secs};

const GUIDE: &str = include_str!("../../src/docs/tracing.md");

/// The section under a title.
fn section(title: &str) -> &'static str {
    let after = GUIDE.split(&format!("\n## {title}\n")).nth(1);
    let after = after.unwrap_or_else(|| panic!("the guide has no section `{title}`"));
    after.split("\n## ").next().unwrap_or_default()
}

/// The first cell of each row of the tables in a text, without its quotes.
fn rows(text: &str) -> Vec<&str> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `"));
    cells.filter_map(|line| line.split('`').next()).collect()
}

#[test]
fn the_guide_has_every_span_and_its_fields_and_no_other() {
    for (name, fields) in [
        (names::PUSH, names::PUSH_FIELDS.as_slice()),
        (names::HANDLE, &names::HANDLE_FIELDS),
        (names::SETTLE, &names::SETTLE_FIELDS),
    ] {
        assert_eq!(rows(section(&format!("`{name}`"))), fields, "{name}");
    }
}

#[test]
fn the_guide_has_every_message_and_its_fields_and_no_other() {
    let text = section("The log");
    let messages = [
        names::RETRIED,
        names::BURIED,
        names::DISCARDED,
        names::UNDECODABLE,
    ];
    let wanted = messages.iter().chain(&names::FAILURE_FIELDS).copied();
    assert_eq!(rows(text), wanted.collect::<Vec<_>>());
    assert!(GUIDE.contains(names::SPANS) && GUIDE.contains(names::HANDLERS));
    let outcomes = [
        names::ACCEPTED,
        names::DUPLICATE,
        names::REPLACED,
        names::FAILED,
        names::SETTLED,
    ];
    assert!(
        outcomes
            .iter()
            .all(|outcome| GUIDE.contains(&format!("`{outcome}`")))
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_heard_has_the_fields_that_are_promised() {
    let capture = Capture::everything();
    let probe = Probe::answering(|_event, _cx| Err(Failure::retry("no")));
    let (bus, queue) = orders(ORDERS.attempts(2), probe).await;
    queue.push(7, When::Now).await.unwrap();
    queue.push_many([8], secs(1)).await.unwrap();
    bus.advance(secs(60)).await;

    for (name, fields) in [
        (names::PUSH, names::PUSH_FIELDS.as_slice()),
        (names::HANDLE, &names::HANDLE_FIELDS),
        (names::SETTLE, &names::SETTLE_FIELDS),
    ] {
        let spans = capture.spans(name);
        assert!(!spans.is_empty(), "{name}");
        assert!(
            spans.iter().all(|span| span.declared == fields),
            "{spans:?}"
        );
    }
    for line in capture.lines(names::HANDLERS) {
        let known = |field: &&str| *field == "message" || names::FAILURE_FIELDS.contains(field);
        assert!(line.declared.iter().all(known), "{line:?}");
    }
}
