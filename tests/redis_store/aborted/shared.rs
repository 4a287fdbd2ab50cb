//! The outbox and repairs, each with a script that fails after each of its writes.

use duly::event::State;
use duly::store::{CheckTask, Outbox, Store};
use duly::time::When;
use duly_conformance::store_contract::shapes::{Dues, Own};

use super::acts::{Act, cases};
use super::{Case, load, shape};
use crate::redis_store::faulty::{aborted, fail_after, has_failed};
use crate::redis_store::kit::{Bare, fresh};
use crate::servers::Redis;

pub(super) const TRIMS: [&str; 1] = ["trim"];
pub(super) const REPAIRS: [&str; 1] = ["check"];

async fn faulty() -> Redis {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    server
}

#[tokio::test]
async fn records_that_were_trimmed_at_the_second_attempt_are_gone_and_no_others() {
    let server = faulty().await;
    for writes in 0..4 {
        let bare = Bare::open(&fresh(&server.url()).0).await;
        let outbox = Outbox::Bucket(bare.bucket.clone());
        for request in 1..4 {
            bare.push(bare.new_id(), When::Now).await.expect("a push");
            let held = bare.fetch(request, 9).await.expect("a fetch");
            assert_eq!(bare.ack(request, &held).await.expect("an ack"), [true]);
        }
        let all = bare
            .store
            .read_outbox(&outbox, 0, 100)
            .await
            .expect("a page");
        fail_after(&server, writes);
        if bare.store.trim_outbox(&outbox, 1).await.is_err() {
            bare.store.trim_outbox(&outbox, 1).await.expect("a repeat");
        }
        has_failed(&server);
        let left = bare
            .store
            .read_outbox(&outbox, 1, 100)
            .await
            .expect("a page");
        assert_eq!(left.records.len(), all.records.len() - 1, "{writes}");
        assert_eq!((left.first, left.last), (2, all.last), "{writes}");
        assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0], "{writes}");
    }
    assert_eq!(aborted(&server), TRIMS);
}

#[tokio::test]
async fn a_repair_that_fails_after_any_of_its_writes_is_repeated() {
    let server = faulty().await;
    let shapes = [(Own::Nothing, Dues::Now), (Own::Mixed, Dues::Shared)];
    let mut failures = 0;
    for (own, dues) in shapes {
        for writes in cases() {
            let shape = shape(own, dues);
            let (url, prefix) = fresh(&server.url());
            let (case, _) = Case::prepared(&url, shape, Act::Cancel).await;
            let ids = case.ids();
            for key in ["ready", "delay"] {
                server.cli(&["DEL", &format!("{prefix}:{{letters:0}}:{key}")]);
            }
            let what = format!("a repair of {shape:?}, after {writes} writes");
            let repair = async || {
                let task = CheckTask::new(true);
                case.bare.store.check_bucket(&case.bare.bucket, task).await
            };
            fail_after(&server, writes);
            let first = repair().await;
            let has_failed = has_failed(&server);
            assert!(has_failed || first.is_ok(), "{what}: {first:?}");
            repair()
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            case.is_whole(&[].into(), false, &what).await;
            assert_eq!(case.bare.state(ids[0]).await, State::Leased, "{what}");
            if !has_failed {
                break;
            }
            failures += 1;
        }
    }
    assert!(failures >= shapes.len(), "only {failures} repairs failed");
    assert_eq!(aborted(&server), REPAIRS);
}
