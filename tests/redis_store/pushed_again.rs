//! What a push reads of events that are there, or that it has itself pushed before.

use std::sync::Arc;

use duly::Unique;
use duly::event::Payload;
use duly::store::operation::{NewEvent, PushOutcome, StoreOp};
use duly::time::When;

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::Redis;

/// Pushes events, and returns what became of them and how many commands the server has run for it: those of
/// the kind, or all.
async fn commands(
    server: &Redis,
    bare: &Bare,
    events: Vec<NewEvent>,
    kind: Option<&str>,
) -> (Vec<PushOutcome>, usize) {
    server.cli(&["CONFIG", "RESETSTAT"]);
    let pushed = bare.typed(StoreOp::push(events)).await.expect("a push");
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse::<usize>().ok()?;
        kind.is_none_or(|kind| name == kind).then_some(calls)
    });
    let calls = calls.sum();
    (pushed.into_iter().map(|it| it.verdict).collect(), calls)
}

/// To find one of them, a page is divided.
#[tokio::test]
async fn a_push_of_one_event_of_each_of_many_pages_is_several_calls() {
    const PAGES: usize = 250;
    let server = Redis::plain();
    let bare = Bare::open(&fresh(&server.url()).0).await;
    let run = bare.new_run(64 * PAGES);
    let event = |id| {
        let mut event = bare.plain(id, When::Now);
        Arc::make_mut(&mut event.envelope).payload = Payload::from(&b"1"[..]);
        event
    };
    for some in run.chunks(960) {
        let events = some.iter().map(|id| event(*id)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
    }
    let firsts: Vec<_> = run.iter().step_by(64).copied().collect();
    let again = firsts.iter().map(|id| event(*id)).collect();
    let (verdicts, calls) = commands(&server, &bare, again, Some("fcall")).await;
    let known: Vec<_> = firsts.into_iter().map(PushOutcome::Duplicate).collect();
    assert_eq!(verdicts, known);
    assert!((2..=4).contains(&calls), "{calls} calls");
}

/// An id that is there twice, and an event that takes the place of another, cost the others nothing.
#[tokio::test]
async fn a_push_reads_nothing_again_of_events_that_it_has_not_changed() {
    const COUNT: usize = 200;
    const MORE: usize = 60; // commands
    let server = Redis::plain();
    let bare = Bare::open(&fresh(&server.url()).0).await;
    let event = |number: usize, unique: Option<&str>| {
        let mut event = bare.plain(bare.new_id(), When::Now);
        let envelope = Arc::make_mut(&mut event.envelope);
        envelope.key = Some(format!("key {number}"));
        envelope.unique = unique.map(str::to_owned);
        event
    };
    let events = || (0..COUNT).map(|number| event(number, None));
    let first = event(COUNT, Some("one"));
    let id = first.envelope.id;
    bare.apply(StoreOp::Push(vec![first]))
        .await
        .expect("a push");
    let (_, calls) = commands(&server, &bare, events().collect(), None).await;
    assert!(calls < MORE, "{calls} for events that are all new");

    let mut twins: Vec<_> = events().collect();
    twins.insert(1, twins[0].clone());
    let (verdicts, calls) = commands(&server, &bare, twins.clone(), None).await;
    let twin = PushOutcome::Duplicate(twins[0].envelope.id);
    let accepted = |it: &&PushOutcome| **it == PushOutcome::Accepted;
    assert_eq!(verdicts[1], twin);
    assert_eq!(verdicts.iter().filter(accepted).count(), COUNT);
    assert!(calls < 2 * MORE, "{calls} beside an id that is there twice");

    let mut other = event(COUNT, Some("one"));
    other.on_taken = Unique::Replace;
    let events = [other].into_iter().chain(events()).collect();
    let (verdicts, calls) = commands(&server, &bare, events, None).await;
    assert_eq!(verdicts[0], PushOutcome::Replaced(id));
    assert_eq!(verdicts.iter().filter(accepted).count(), COUNT);
    assert!(calls < 2 * MORE, "{calls} behind one that takes a place");
}
