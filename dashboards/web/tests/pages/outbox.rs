//! The line of the outbox on the first page, and what needs attention there.

use std::time::Duration;

use duly::__outbox::report_backlog;
use duly::admin::OutboxBacklog;
use duly_dashboard::Role;

use crate::site::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_in_an_outbox_stands_on_the_first_page() {
    let calm = OutboxBacklog::default();
    let mut waits = calm;
    (waits.waiting, waits.oldest) = (1_700, Duration::from_secs(2));
    let mut late = calm;
    (late.waiting, late.oldest) = (1, Duration::from_secs(61));
    let (mut refused, mut away) = (calm, calm);
    (refused.refused, away.is_away) = (2, true);
    let cases = [
        (None, "Outbox:", false),
        (Some(calm), "Outbox: no committed event waits.", true),
        (
            Some(waits),
            "Outbox: 1\u{202f}700 committed events wait, the oldest for 2.0s.",
            true,
        ),
        (Some(late), "The outbox is 1m 1s behind", true),
        (Some(refused), "2 events of the outbox are put aside", true),
        (
            Some(away),
            "The database of the outbox does not answer",
            true,
        ),
    ];
    for (backlog, words, is_there) in cases {
        // Of each a page of its own: it is read by the round.
        let site = Site::memory(Role::View).await;
        report_backlog(&site.bus, 7, backlog);
        let page = site.get("/").await;
        let has = |words: &str| page.text.contains(words);
        assert_eq!(has(words), is_there, "{words}: {}", page.text);
        assert_eq!(has("Outbox:"), is_there, "{words}");
    }
}
