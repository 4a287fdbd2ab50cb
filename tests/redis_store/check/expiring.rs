//! Entries of events that expire, which are gone or lead to nothing.

use std::sync::Arc;
use std::time::Duration;

use duly::admin::DamageKind;
use duly::records::Outcome;
use duly::store::operation::{PushOutcome, StoreOp};
use duly::time::{Timestamp, When};

use super::{Bucket, Which, case_in};

#[tokio::test]
async fn what_can_expire_is_looked_at_again() {
    use DamageKind::{Misplaced, NoPlace};
    let case = async |which: Which, script: &str, expected: &[DamageKind]| {
        case_in(Bucket::with_expiry(true).await, which, script, expected, 0).await;
    };
    let whiches: [Which; 4] = [|b| b.delayed, |b| b.snoozed, |b| b.ready, |b| b.leased];
    for which in whiches {
        case(which, "c('ZREM', k('expiry'), id)", &[Misplaced]).await;
    }
    let both = "c('ZREM', k('expiry'), id) c('ZREM', k('delay'), id)";
    case(|b| b.delayed, both, &[NoPlace, Misplaced]).await;
    case(|b| b.snoozed, both, &[Misplaced]).await;
}

#[tokio::test]
async fn what_has_expired_ends_once_its_entry_is_repaired() {
    for damage in [
        "c('DEL', k('expiry'))",
        "c('ZREM', k('expiry'), id) c('ZREM', k('delay'), id)",
    ] {
        let bucket = Bucket::new().await;
        let bare = &bucket.bare;
        let counts = async || bare.typed(StoreOp::stats()).await.unwrap();
        let before = counts().await;
        let holder = || {
            let later = When::After(Duration::from_secs(3_600));
            let mut event = bare.plain(bare.new_id(), later);
            let envelope = Arc::make_mut(&mut event.envelope);
            envelope.unique = Some("eight".to_owned());
            envelope.expires = Some(Timestamp::from_millis(1));
            event
        };
        let first = holder();
        let id = first.envelope.id;
        bare.apply(StoreOp::Push(vec![first])).await.unwrap();
        bucket.damage(id, damage);
        let repaired = bucket.check(true).await;
        assert!(repaired.iter().any(|it| it.id == Some(id)), "{repaired:#?}");
        let records = bare.records(id).await;
        assert_eq!(records.len(), 1, "{damage}: {records:#?}");
        assert_eq!(records[0].outcome, Outcome::Expired);
        assert_eq!(counts().await, before, "{damage}");
        let pushed = bare.typed(StoreOp::push(vec![holder()])).await.unwrap();
        assert_eq!(pushed[0].verdict, PushOutcome::Accepted, "{damage}");
    }
}

/// A batch is written in one: what it refuses leaves nothing.
#[tokio::test]
async fn an_event_that_a_push_refuses_has_no_entry() {
    let bucket = Bucket::with_expiry(true).await;
    let bare = &bucket.bare;
    let event = |unique: Option<&str>| {
        let mut event = bare.plain(bare.new_id(), When::After(Duration::from_secs(60)));
        let envelope = Arc::make_mut(&mut event.envelope);
        envelope.unique = unique.map(str::to_owned);
        envelope.expires = Some(Timestamp::from_millis(4_000_000_000_000));
        event
    };
    bare.apply(StoreOp::Push(vec![event(Some("nine"))]))
        .await
        .unwrap();
    for uniques in [
        [Some("nine"), None, None],
        [None, Some("nine"), Some("ten")],
        [Some("nine"), Some("nine"), None],
    ] {
        let batch = uniques.map(event).to_vec();
        let refused = batch
            .iter()
            .filter(|it| it.envelope.unique.as_deref() == Some("nine"));
        let refused = refused.count();
        let pushed = bare.typed(StoreOp::push(batch)).await.unwrap();
        let duplicates = pushed
            .iter()
            .filter(|it| matches!(it.verdict, PushOutcome::Duplicate(_)));
        assert_eq!(duplicates.count(), refused, "{uniques:?}");
        let found = bucket.check(false).await;
        assert!(found.is_empty(), "{uniques:?}: {found:#?}");
    }
}
