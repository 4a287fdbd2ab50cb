//! A part of the store fails: its records wait, and those of all others do not.

use std::sync::Arc;

use crate::records::carried::outboxes;
use crate::records::deaf::{Deaf, Failing};
use crate::records::world::{World, prompt, secs, status};

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
