//! Leases that nobody holds, in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::admin::DamageKind;
use duly::store::operation::{BATCH_MAX, Fetch, StoreOp};
use duly::store::{CheckTask, Outbox, Store};
use duly::time::When;

use super::bounds::push;
use crate::redis_store::kit::{Bare, NODE, fresh};
use crate::servers::Redis;

const LEASES: usize = 4_200;

#[tokio::test]
async fn each_of_thousands_of_lost_leases_is_taken_back_once_with_one_record() {
    let server = Redis::plain();
    let hour = Some(Duration::from_hours(1));
    for (in_pages, hold) in [(true, None), (false, None), (false, hour)] {
        let what = format!("in pages: {in_pages}, {hold:?}");
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        push(&bare, LEASES, in_pages, When::Now).await;
        for request in 1..=LEASES.div_ceil(BATCH_MAX) as u64 {
            let fetch = Fetch {
                node: NODE,
                request,
                limit: BATCH_MAX,
                ahead: Duration::ZERO,
                ahead_limit: 0,
                hold,
                starts: usize::MAX,
            };
            bare.apply(StoreOp::Fetch(fetch)).await.expect("a fetch");
        }
        let held = format!("{prefix}:{{letters:0}}:held");
        assert_eq!(server.cli(&["DEL", &held]), "1", "{what}");
        let check = |repairs| {
            bare.store
                .check_bucket(&bare.bucket, CheckTask::new(repairs))
        };
        let found = check(true).await.expect("a check");
        let lost = found.iter().filter(|it| it.kind == DamageKind::LostLease);
        assert_eq!(lost.count(), LEASES, "{what}");

        let mut records = BTreeMap::<_, usize>::new();
        let (outbox, mut after) = (Outbox::Bucket(bare.bucket.clone()), 0);
        loop {
            let page = bare.store.read_outbox(&outbox, after, 10_000).await;
            let page = page.expect("a page");
            for (_, record) in &page.records {
                *records.entry(record.id).or_default() += 1;
            }
            after = page.last;
            if !page.has_more() {
                break;
            }
        }
        assert_eq!(records.len(), LEASES, "{what}");
        assert_eq!(records.values().sum::<usize>(), LEASES, "{what}");
        let counts = bare.typed(StoreOp::stats()).await.expect("counts");
        assert_eq!([counts.ready, counts.leased], [LEASES, 0], "{what}");
        assert_eq!(check(false).await.expect("a check"), [], "{what}");
        assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0], "{what}");
    }
}
