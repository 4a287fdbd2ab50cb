//! Unique keys that are gone although their events are there.

use std::sync::Arc;
use std::time::Duration;

use duly::admin::DamageKind;
use duly::event::State;
use duly::prelude::*;
use duly::store::operation::{AttemptOutcome, Settlement, StartMark, StoreOp};
use duly::time::When;

use super::Bucket;
use crate::redis_store::kit::NODE;

#[tokio::test]
async fn a_lost_unique_key_is_found_wherever_its_event_is() {
    let bucket = Bucket::new().await;
    let bare = &bucket.bare;
    let with_key = |name: &str| {
        let mut event = bare.plain(bare.new_id(), When::After(Duration::from_secs(3_600)));
        let envelope = Arc::get_mut(&mut event.envelope).expect("its own");
        envelope.unique = Some(name.to_owned());
        event
    };
    let scheduled = with_key("later");
    let id = scheduled.envelope.id;
    bare.apply(StoreOp::Push(vec![scheduled])).await.unwrap();
    let is_again = async |id: EventId| {
        bucket.damage(id, "c('DEL', k('unique'))");
        for repairs in [false, true] {
            let found = bucket.check(repairs).await;
            let its = found.iter().find(|damage| damage.id == Some(id));
            let its = its.unwrap_or_else(|| panic!("{found:#?}"));
            assert_eq!((its.kind, its.repaired), (DamageKind::Misplaced, repairs));
        }
        assert_eq!(bucket.check(false).await, []);
    };
    // As the event waits, is ready, and is leased.
    is_again(id).await;
    is_again(bucket.ready).await;
    bare.fetch(6, 6).await.unwrap();
    assert_eq!(bare.state(bucket.ready).await, State::Leased);
    is_again(bucket.ready).await;
    // A second event of the key is refused again.
    let second = with_key("later");
    let second_id = second.envelope.id;
    bare.apply(StoreOp::Push(vec![second])).await.unwrap();
    let found = bare.typed(StoreOp::get(second_id)).await.unwrap();
    assert!(found.is_none(), "{found:?}");
}

#[tokio::test]
async fn an_event_that_lost_its_key_to_another_is_no_damage() {
    let bucket = Bucket::new().await;
    let bare = &bucket.bare;
    bare.fetch(6, 6).await.unwrap(); // what is ready
    let with_key = async || {
        bare.push_with(|it| it.unique = Some("two".to_owned()))
            .await
    };
    let later = When::After(Duration::from_secs(3_600));
    let is_healthy_without = async |other: EventId| {
        assert_eq!(bucket.check(false).await, []);
        let cancelled = bare.typed(StoreOp::cancel(other)).await.unwrap();
        assert_eq!(cancelled, duly::CancelOutcome::Cancelled);
        assert_eq!(bucket.check(true).await, []);
    };
    // Taken over while its handler runs; then it waits again, is ready, and is leased again.
    let running = with_key().await;
    assert_eq!(bare.fetch(7, 6).await.unwrap(), [running]);
    let other = bare.new_id();
    bare.replace(other, "two", later).await.unwrap();
    is_healthy_without(other).await;
    let settle = async |request, verdict| {
        let settlement = Settlement {
            id: running,
            request,
            verdict,
            started_us: 1,
            fetched_us: 1,
        };
        let settle = StoreOp::settle(NODE, vec![settlement], StartMark::default());
        assert_eq!(bare.typed(settle).await.unwrap(), [true]);
    };
    settle(7, AttemptOutcome::Snooze(Duration::from_secs(3_600))).await;
    assert_eq!(bucket.check(true).await, []);
    let changed = bare.typed(StoreOp::reschedule(running, When::Now)).await;
    assert!(
        matches!(changed, Ok(duly::ChangeOutcome::Changed(_))),
        "{changed:?}"
    );
    assert_eq!(bare.fetch(8, 6).await.unwrap(), [running]);
    assert_eq!(bucket.check(true).await, []);
    bare.ack(8, &[running]).await.unwrap();
    // Taken over while it is dead; it is revived without it.
    let dead = with_key().await;
    bare.bury(9).await;
    let other = bare.new_id();
    bare.replace(other, "two", later).await.unwrap();
    assert_eq!(
        bare.typed(StoreOp::revive(vec![dead], None)).await.unwrap(),
        1
    );
    is_healthy_without(other).await;
    bare.bury(10).await;
    // With it again: nobody has it.
    assert_eq!(
        bare.typed(StoreOp::revive(vec![dead], None)).await.unwrap(),
        1
    );
    assert_eq!(bucket.check(true).await, []);
    bucket.damage(dead, "c('DEL', k('unique'))");
    let found = bucket.check(true).await;
    assert!(found.iter().any(|it| it.id == Some(dead)), "{found:#?}");
}
