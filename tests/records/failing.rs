//! A part of the store fails or takes its time: its records wait, and those of all others do not.

use std::sync::Arc;

use duly::event::{BucketId, BucketKey};
use duly::journal::RecorderOptions;
use duly::store::Outbox;

use crate::records::bad::Mode;
use crate::records::carried::outboxes;
use crate::records::deaf::{Deaf, Failing};
use crate::records::world::{World, ms, prompt, secs, status};

#[tokio::test(start_paused = true)]
async fn an_outbox_that_fails_holds_up_no_other_one() {
    for failing in [Failing::Read, Failing::Trim] {
        let world = World::new();
        let (outboxes, ids) = outboxes(40, 1_500, world.store.now_us());
        let fails: Vec<_> = outboxes.keys().step_by(16).cloned().collect();
        let store = Deaf::with(&world.store, outboxes);
        store.fail(fails.iter().map(|it| (it.clone(), failing)));
        let builder = world.builder(prompt());
        let builder = builder.shared_store(Arc::clone(&store) as _);
        let (bus, _) = world.start(builder).await;
        bus.advance(secs(60)).await;
        assert_eq!(store.waiting(), fails.len() * 1_500, "{failing:?}");
        let of_others = ids.len() - fails.len() * 1_500;
        let there = world.journal.all().await.len();
        match failing {
            Failing::Read => assert_eq!(there, of_others),
            Failing::Trim => assert!(there > of_others),
        }
        let seen = status(&bus);
        assert_eq!(seen.away_since, None, "{seen:?}");
        assert!(
            seen.last_error.is_some_and(|it| it.contains("down")),
            "it is told"
        );
        let loads = world.journal.loads().len();
        bus.advance(secs(60)).await;
        let more = world.journal.loads().len() - loads;
        assert!(more <= 30, "it is tried {more} times in a minute");

        store.fail([]);
        bus.advance(secs(10)).await;
        assert_eq!(store.waiting(), 0, "{failing:?}");
        assert_eq!(world.journal.all().await.len(), ids.len());
    }
}

/// Whether it is the first of those that are carried together or not, and whether more wait than one
/// load takes.
#[tokio::test(start_paused = true)]
async fn records_that_the_journal_refuses_hold_up_no_other_outbox() {
    for (many, records) in [(1, 3), (40, 3), (40, 1_500)] {
        let world = World::new();
        let (outboxes, ids) = outboxes(many, records, world.store.now_us());
        let refused: Vec<_> = outboxes.keys().step_by(16).take(2).cloned().collect();
        let store = Deaf::with(&world.store, outboxes);
        // By the names that they have in the journal.
        let names = refused.iter().map(|outbox| format!("store/{outbox}"));
        world.journal.refuse(names);
        let builder = world.builder(prompt());
        let builder = builder.shared_store(Arc::clone(&store) as _);
        let (bus, _) = world.start(builder).await;
        bus.advance(secs(60)).await;
        let waiting = refused.len() * records as usize;
        assert_eq!(store.waiting(), waiting, "{many} {records}");
        assert_eq!(world.journal.all().await.len(), ids.len() - waiting);
        let seen = status(&bus);
        let told = seen
            .last_error
            .as_ref()
            .is_some_and(|it| it.contains("no such records"));
        assert!(told, "{seen:?}");
        let loads = world.journal.loads().len();
        bus.advance(secs(60)).await;
        let more = world.journal.loads().len() - loads;
        assert!(more <= 100, "it is tried {more} times in a minute");

        world.journal.refuse([]);
        bus.advance(secs(10)).await;
        assert_eq!(store.waiting(), 0, "{many} {records}");
        assert_eq!(world.journal.all().await.len(), ids.len());
        assert_eq!(status(&bus).away_since, None);
    }
}

/// At the start, at the interval, while some fail, and when the journal has been away.
#[tokio::test(start_paused = true)]
async fn a_look_into_many_outboxes_holds_up_no_busy_one() {
    for (queue, fails, is_away) in [
        ("behind-others", 0, false),
        ("a-before-others", 1_000, false),
        ("behind-others", 1_000, true),
    ] {
        let world = World::new();
        let (mut many, _) = outboxes(20_000, 0, 0);
        let failing: Vec<_> = many.keys().step_by(7).take(fails).cloned().collect();
        let (one, _) = outboxes(1, 1, world.store.now_us());
        let busy = BucketKey::new(queue.parse().expect("a legal name"), BucketId(0));
        let busy = Outbox::Bucket(busy);
        many.extend(one.into_values().map(|records| (busy.clone(), records)));
        let store = Deaf::with(&world.store, many);
        store.busy(busy);
        store.fail(failing.into_iter().map(|it| (it, Failing::Read)));
        if is_away {
            world.journal.now(Mode::Fails);
        }
        let options = RecorderOptions {
            fallback_poll_every: Some(secs(10)),
            ..prompt()
        };
        let builder = world.builder(options);
        let builder = builder.shared_store(Arc::clone(&store) as _);
        let (bus, _) = world.start(builder).await;
        bus.advance(ms(500)).await;
        world.journal.now(Mode::Works);
        bus.advance(secs(30)).await;
        let most = store.most_others();
        assert!((100..1_000).contains(&most), "{queue}: {most}");
        let recorded = world.journal.all().await.len();
        assert!(recorded > 2_000, "{queue}: {recorded} are recorded");
        assert!(store.waiting() < 100, "{queue}: {}", store.waiting());
    }
}
