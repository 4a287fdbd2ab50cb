//! The journal is away: records wait, handlers do not, and nothing is lost or there twice.

use duly::journal::RecorderOptions;
use duly::testing::Probe;
use duly::time::When;

use crate::records::bad::Mode;
use crate::records::world::{ORDERS, Said, World, ms, prompt, secs, status};

/// Handles events while the journal does badly, and finds each record once when it is well again.
async fn away_and_back(mode: Mode) {
    let said = Said::listen();
    let world = World::new();
    let probe = Probe::<u64>::new();
    let options = RecorderOptions {
        patience: secs(2),
        ..prompt()
    };
    let (bus, queue) = world
        .start(world.builder(options).register_as(ORDERS, probe.clone()))
        .await;
    queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(world.numbers().await.len(), 100);

    world.journal.now(mode);
    let began = bus.now();
    for second in 0..60 {
        let receipts = queue.push_many(0..10, secs(0)).await.unwrap();
        assert_eq!(receipts.len(), 10);
        bus.advance(secs(1)).await;
        assert_eq!(probe.count(), 100 + (second + 1) * 10, "handlers go on");
    }
    let away = status(&bus);
    let since = away.away_since.expect("it is away");
    assert!(since.since(began) <= secs(3), "{away:?}");
    // As it was when it was read last: at most five seconds of rest and two of patience ago.
    assert!((520..=600).contains(&away.waiting), "{away:?}");
    assert_eq!(away.dropped, 0);
    assert!(away.last_error.is_some() && away.lag > secs(50), "{away:?}");
    let loads = world.journal.loads().len();
    assert!(loads < 40, "it is asked {loads} times in a minute");

    world.journal.now(Mode::Works);
    // What was asked before may hang for two seconds more, and then it rests for up to five.
    bus.advance(secs(8)).await;
    world.has_all(700).await;
    assert_eq!(world.waiting().await, 0);
    let back = status(&bus);
    assert_eq!((back.away_since, back.waiting, back.dropped), (None, 0, 0));
    let words = "journal unavailable";
    assert_eq!(
        said.lines("WARN", words).len(),
        1,
        "said once, not each time"
    );
    let words = "journal available again";
    assert_eq!(said.lines("INFO", words).len(), 1);
    assert_eq!(said.lines("ERROR", ""), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_costs_no_record_and_no_handler_waits() {
    away_and_back(Mode::Fails).await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_hangs_costs_no_record_and_no_handler_waits() {
    away_and_back(Mode::Hangs).await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_loses_its_answers_has_each_record_once() {
    away_and_back(Mode::LosesAnswers).await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_panics_costs_no_record_and_no_handler_waits() {
    away_and_back(Mode::Panics).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_journal_is_not_taken_for_one_that_is_away() {
    let world = World::new();
    world.journal.now(Mode::Takes(secs(20)));
    let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
    for payload in 0..100 {
        queue.push(payload, When::Now).await.unwrap();
        bus.advance(secs(1)).await;
        assert_eq!(status(&bus).away_since, None);
    }
    bus.advance(secs(60)).await;
    assert_eq!(world.numbers().await.len(), 100);
}

/// What an outbox has no more, nobody has again: it may go only when the journal has answered.
#[tokio::test(start_paused = true)]
async fn a_record_leaves_the_outbox_only_when_it_is_in_the_journal() {
    let world = World::new();
    world.journal.now(Mode::Takes(secs(10)));
    let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(9)).await;
    assert_eq!(world.journal.loads(), [1], "it is being loaded");
    assert_eq!(world.waiting().await, 1);
    bus.advance(secs(2)).await;
    assert_eq!(world.waiting().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_is_away_is_asked_less_and_less_often_and_at_least_each_five_seconds() {
    let world = World::new();
    world.journal.now(Mode::Fails);
    let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(30)).await;
    let before = world.journal.loads().len();
    bus.advance(secs(100)).await;
    let asked = world.journal.loads().len() - before;
    assert!((20..=41).contains(&asked), "{asked} times in 100 s");
}

/// Reading looks into the outboxes, too.
#[tokio::test(start_paused = true)]
async fn what_waits_is_found_by_whoever_asks() {
    let world = World::new();
    let options = RecorderOptions {
        linger: secs(10),
        ..prompt()
    };
    let (bus, queue) = world
        .start(
            world
                .builder(options)
                .register_as(ORDERS, Probe::<u64>::new()),
        )
        .await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(ms(1)).await;
    assert_eq!(world.journal.loads(), [0; 0]);
    let page = bus.records().id(id).page().await.unwrap();
    assert_eq!(page.items.len(), 1);
}

/// A page without what the journal holds would look like all there is.
#[tokio::test(start_paused = true)]
async fn a_question_is_refused_while_the_journal_is_away_and_says_what_can_be_read() {
    for mode in [Mode::Fails, Mode::Hangs, Mode::LosesAnswers, Mode::Panics] {
        let world = World::new();
        let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
        let there = queue.push(1, When::Now).await.unwrap().id();
        bus.advance(secs(1)).await;
        world.journal.now(mode);
        let waits = queue.push(2, When::Now).await.unwrap().id();
        bus.advance(secs(1)).await;

        let asked = bus.records();
        let page = asked.clone().page().await.unwrap_err();
        let minutes = asked.clone().minutes().page().await.unwrap_err();
        let streamed = asked.clone().stream().next().await.unwrap().unwrap_err();
        let exported = asked
            .export(duly::records::Format::Csv, &mut Vec::new())
            .await;
        for error in [page, minutes, streamed, exported.unwrap_err()] {
            assert_eq!(
                error.kind(),
                duly::ErrorKind::Unavailable,
                "{mode:?}: {error}"
            );
            let words = error.to_string();
            assert!(
                words.starts_with("the journal is away"),
                "{mode:?}: {words}"
            );
            assert!(
                words.contains("`records().only_waiting()`"),
                "{mode:?}: {words}"
            );
        }
        let waiting = || bus.records().only_waiting();
        let page = waiting().page().await.unwrap();
        let found: Vec<_> = page.items.iter().map(|record| record.id).collect();
        assert_eq!(found, [waits], "{mode:?}");
        let minutes = waiting().minutes().page().await.unwrap();
        assert_eq!(minutes.items[0].outcomes[&duly::records::Outcome::Acked], 1);
        let explained = bus.explain(there).await.unwrap();
        let unread = explained
            .attempts
            .unread
            .expect("the journal does not answer");
        assert!(!unread.contains("only_waiting"), "{unread}");

        world.journal.now(Mode::Works);
        bus.advance(secs(10)).await;
        assert_eq!(bus.records().page().await.unwrap().items.len(), 2);
    }
}
