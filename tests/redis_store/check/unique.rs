//! Unique keys that are gone although their events are there.

use std::sync::Arc;
use std::time::Duration;

use duly::admin::DamageKind;
use duly::event::State;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::time::When;

use super::Bucket;

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
