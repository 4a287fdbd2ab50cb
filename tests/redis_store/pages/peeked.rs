//! Pages of a pass over a bucket in which events share pages of their own.

use duly::store::operation::{PeekBy, StoreOp};
use duly::time::When;

use super::Paged;

/// As many entries of the ready list then stand for no event as there are events beyond one for each.
#[tokio::test]
async fn a_page_of_a_pass_is_small_though_counts_hide_that_events_share_entries() {
    const LIMIT: usize = 10;
    const PAGES: usize = 10;
    let paged = Paged::with(64 * PAGES).await;
    let bare = &paged.bare;
    let alone: Vec<_> = (0..63 * PAGES).map(|_| bare.new_id()).collect();
    let events = alone.iter().map(|id| bare.plain(*id, When::Now)).collect();
    bare.apply(StoreOp::Push(events)).await.expect("a push");
    for id in alone {
        bare.apply(StoreOp::Cancel { id }).await.expect("a cancel");
    }
    assert_eq!(paged.entries(), 64 * PAGES, "none is swept");

    let (mut from, mut seen) = (None, Vec::new());
    loop {
        let peek = StoreOp::peek(PeekBy::All, from, LIMIT);
        let page = bare.typed(peek).await.expect("a page");
        let most = 64 * PAGES / 2;
        assert!(page.events.len() <= most, "{} events", page.events.len());
        seen.extend(page.events.iter().map(|event| event.id));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    seen.sort_unstable();
    seen.dedup();
    let mut ids = paged.ids.clone();
    ids.sort_unstable();
    assert_eq!(seen, ids);
}
