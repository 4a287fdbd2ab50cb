//! A replay: the events of records are pushed once more, each as an event of its own.

use duly::OldPayload;
use duly::codec::{Frame, Key, KeyRing};
use duly::prelude::*;
use duly::records::{Record, ReplayReport};
use duly::testing::{Probe, TestBus};

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    what_has_ended_is_pushed_once_more,
    a_repeated_replay_pushes_nothing_again,
    each_event_of_a_name_is_pushed_once_more,
    what_has_not_ended_is_passed_over,
    what_holds_no_payload_is_counted,
    a_dry_replay_counts_and_pushes_nothing,
    an_encrypted_payload_is_sealed_for_the_new_event,
    an_encrypted_payload_stays_so_whoever_replays_it,
    a_given_version_is_that_of_the_events,
    a_version_that_a_payload_names_itself_is_its_own,
    a_replay_has_a_name,
}

async fn records(bus: &TestBus) -> Vec<Record> {
    let page = bus.records().limit(1_000).page().await.unwrap();
    page.items
}

async fn push(queue: &Queue<String>, text: &str) -> EventId {
    let event = queue.event(text.to_owned()).key("customer:8");
    event.push().await.unwrap().id()
}

fn counts(report: ReplayReport) -> [u64; 4] {
    let ReplayReport {
        pushed,
        repeated,
        without_payload,
        unreadable,
        ..
    } = report;
    [pushed, repeated, without_payload, unreadable]
}

async fn what_has_ended_is_pushed_once_more(world: World) {
    let probe = Probe::running(|event: Event<String>, _cx| async move {
        if event.header("duly-replay-of").is_none() && event.payload == "bad" {
            return Err(Failure::discard("no such order"));
        }
        Ok(())
    });
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &probe).await;
    let first = [push(&queue, "good").await, push(&queue, "bad").await];
    let event = queue.event("away".to_owned()).after(secs(60));
    let cancelled = event.push().await.unwrap().id();
    let ended = queue.cancel(cancelled).await.unwrap();
    assert_eq!(ended, CancelOutcome::Cancelled);
    bus.advance(secs(1)).await;

    let report = bus.replay("one").push(&records(&bus).await).await.unwrap();
    assert_eq!(counts(report), [3, 0, 0, 0]);
    bus.advance(secs(1)).await;
    let seen = probe.seen();
    let (before, after) = seen.split_at(2);
    let mut texts: Vec<_> = after.iter().map(|it| it.payload.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["away", "bad", "good"], "each once, and due at once");
    let ids: Vec<_> = before.iter().map(|it| it.id).collect();
    assert_eq!(ids, first);
    for it in after {
        assert!(!first.contains(&it.id) && it.id != cancelled);
        let history = bus.history(it.id).await.unwrap();
        let [record] = &history[..] else {
            panic!("one record: {history:?}");
        };
        assert_eq!(record.outcome, Outcome::Acked, "it is told by its header");
        let key = (it.payload != "away").then_some("customer:8");
        assert_eq!(record.key.as_deref(), key);
    }
}

async fn a_repeated_replay_pushes_nothing_again(world: World) {
    let probe = Probe::<String>::new();
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &probe).await;
    for _ in 0..20 {
        push(&queue, "good").await;
    }
    bus.advance(secs(1)).await;
    let records = records(&bus).await;
    let (some, all) = (&records[..12], &records[..]);
    let replay = bus.replay("one");
    assert_eq!(counts(replay.push(some).await.unwrap()), [12, 0, 0, 0]);
    assert_eq!(counts(replay.push(all).await.unwrap()), [8, 12, 0, 0]);
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 40);
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let probe = Probe::<String>::new();
    let (bus, _queue) = world.serve(ORDERS.keep_payload(true), &probe).await;
    let again = bus.replay("one").push(all).await.unwrap();
    assert_eq!(counts(again), [0, 20, 0, 0], "also by the next process");
    let other = bus.replay("two").push(all).await.unwrap();
    assert_eq!(counts(other), [20, 0, 0, 0], "it is another replay");
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 20);
}

/// An id of a name is that of several events, one after the other.
async fn each_event_of_a_name_is_pushed_once_more(world: World) {
    let probe = Probe::<String>::new();
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &probe).await;
    let id = queue.id_for_name("statement");
    for text in ["May", "May", "June"] {
        let event = queue.event(text.to_owned()).id(id);
        assert!(event.push().await.unwrap().is_accepted());
        bus.advance(secs(2 * 86_400)).await; // its end is forgotten
    }
    let records = records(&bus).await;
    assert_eq!(records.len(), 3);
    let replay = bus.replay("all");
    let dry = replay.clone().dry_run().push(&records).await.unwrap();
    assert_eq!(counts(dry), [3, 0, 0, 0]);
    assert_eq!(counts(replay.push(&records).await.unwrap()), [3, 0, 0, 0]);
    assert_eq!(counts(replay.push(&records).await.unwrap()), [0, 3, 0, 0]);
    bus.advance(secs(1)).await;
    let mut texts = probe.payloads().split_off(3);
    texts.sort_unstable();
    assert_eq!(texts, ["June", "May", "May"]);
}

async fn what_has_not_ended_is_passed_over(world: World) {
    let probe = Probe::answering(|event: &Event<String>, _cx| match event.payload.as_str() {
        "once" if event.attempt() == 1 => Err(Failure::retry("not yet")),
        "never" => Err(Failure::permanent("not ever")),
        _ => Ok(()),
    });
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &probe).await;
    push(&queue, "once").await;
    push(&queue, "never").await;
    bus.advance(secs(5)).await;
    let before = records(&bus).await;
    assert_eq!(before.len(), 3, "retried, acked, buried");
    let report = bus.replay("one").push(&before).await.unwrap();
    assert_eq!(
        counts(report),
        [1, 0, 0, 0],
        "a dead letter is to be revived"
    );
}

async fn what_holds_no_payload_is_counted(world: World) {
    let probe = Probe::<String>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let long = "x".repeat(duly::records::PAYLOAD_KEPT_MAX);
    for (text, keeps) in [("kept", true), ("not kept", false), (&long, true)] {
        let event = queue.event(text.to_owned()).keep_payload(keeps);
        event.push().await.unwrap();
    }
    bus.advance(secs(1)).await;
    let report = bus.replay("one").push(&records(&bus).await).await.unwrap();
    assert_eq!(counts(report), [1, 0, 2, 0]);
    bus.advance(secs(1)).await;
    assert_eq!(probe.payloads().last().unwrap(), "kept");
}

async fn a_dry_replay_counts_and_pushes_nothing(world: World) {
    let probe = Probe::<String>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    for keeps in [true, false, true] {
        let event = queue.event("it".to_owned()).keep_payload(keeps);
        event.push().await.unwrap();
    }
    bus.advance(secs(1)).await;
    let records = records(&bus).await;
    let dry = bus.replay("one").dry_run().push(&records).await.unwrap();
    assert_eq!(counts(dry), [2, 0, 1, 0]);
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 3);
    let report = bus.replay("one").push(&records).await.unwrap();
    assert_eq!(counts(report), [2, 0, 1, 0]);
}

fn ring(id: &str) -> KeyRing {
    let keys = KeyRing::new();
    keys.add(id, Key::new([7; 32])).unwrap();
    keys.choose(id).unwrap();
    keys
}

async fn an_encrypted_payload_is_sealed_for_the_new_event(world: World) {
    let serve = async |keys: &KeyRing, probe: &Probe<String>| {
        let annotation = ORDERS.encrypt(true).keep_payload(true);
        let builder = world.builder().keys(keys.clone());
        let bus = world
            .start(builder.register_as(annotation, probe.clone()))
            .await;
        let queue = bus.queue_named::<String>("orders").unwrap();
        (bus, queue)
    };
    let probe = Probe::<String>::new();
    let (bus, queue) = serve(&ring("k1"), &probe).await;
    push(&queue, "a secret").await;
    bus.advance(secs(1)).await;
    let records = records(&bus).await;
    let report = bus.replay("one").push(&records).await.unwrap();
    assert_eq!(counts(report), [1, 0, 0, 0]);
    let again = bus.replay("one").push(&records).await.unwrap();
    assert_eq!(counts(again), [0, 1, 0, 0]);
    bus.advance(secs(1)).await;
    assert_eq!(probe.payloads(), ["a secret", "a secret"]);
    bus.shutdown(secs(1)).await.unwrap();

    let (bus, _queue) = serve(&ring("k2"), &Probe::new()).await;
    let report = bus.replay("two").push(&records).await.unwrap();
    assert_eq!(counts(report), [0, 0, 0, 1], "nobody has the key any more");
}

async fn an_encrypted_payload_stays_so_whoever_replays_it(world: World) {
    let annotation = ORDERS.encrypt(true).keep_payload(true);
    let builder = world.builder().keys(ring("k1"));
    let builder = builder.register_as(annotation, Probe::<String>::new());
    let bus = world.start(builder).await;
    push(&bus.queue_named("orders").unwrap(), "a secret").await;
    bus.advance(secs(1)).await;
    bus.pause("orders").await.unwrap();
    // One that knows no annotation, as a server.
    let builder = world.builder().publish_only().keys(ring("k1"));
    let other = world.start(builder).await;
    let report = other.replay("one").push(&records(&bus).await).await;
    assert_eq!(counts(report.unwrap()), [1, 0, 0, 0]);
    let page = other.events().queue("orders").page().await.unwrap();
    let payload = page.items[0].payload.as_ref().unwrap();
    let frame = Frame::read(payload.as_bytes()).unwrap();
    assert_eq!(frame.key_id, Some("k1"));
}

fn of_older(old: OldPayload<'_>) -> Result<String, Failure> {
    Ok(format!("{} of {}", old.decode::<String>()?, old.version()))
}

#[delay_event(queue = "orders", version = 3, upgrade = of_older, keep_payload = true, register = false)]
struct Texts(Probe<String>);

impl Handler for Texts {
    type Payload = String;

    async fn handle(&self, event: Event<String>, cx: &Context) -> Result<(), Failure> {
        self.0.handle(event, cx).await
    }
}

async fn a_given_version_is_that_of_the_events(world: World) {
    let probe = Probe::<String>::new();
    let builder = world.builder().register(Texts(probe.clone()));
    let bus = world.start(builder).await;
    push(&bus.queue_named("orders").unwrap(), "it").await;
    bus.advance(secs(1)).await;
    let records = records(&bus).await;
    // One that knows no annotation, as a server.
    let (other, _) = world.push_only::<String>("orders").await;
    for replay in [
        bus.replay("of the queue"),
        bus.replay("of an older one").version(2),
        other.replay("of nobody's"),
        other.replay("of a given one").version(3),
    ] {
        assert_eq!(replay.push(&records).await.unwrap().pushed, 1);
        bus.advance(secs(1)).await;
    }
    assert_eq!(probe.payloads(), ["it", "it", "it of 2", "it of 0", "it"]);
}

/// One that was replaced by a build of another version than it was pushed by.
async fn a_version_that_a_payload_names_itself_is_its_own(world: World) {
    let build = async |version| {
        let choices = QueueChoices {
            version: Some(version),
            ..QueueChoices::default()
        };
        let builder = world.builder().publish_only().queue("orders", choices);
        let bus = world.start(builder).await;
        let queue = bus.queue_to_push("orders").unwrap();
        (bus, queue)
    };
    let probe = Probe::<String>::new();
    let builder = world.builder().register(Texts(probe.clone()));
    let bus = world.start(builder).await;
    let mut expected = Vec::new();
    for (pushed, replaced, reads) in [(1, 3, "new"), (3, 1, "new of 1"), (1, 2, "new of 2")] {
        let (_bus, queue) = build(pushed).await;
        let event = queue.event("old").after(secs(60)).keep_payload(true);
        let id = event.push().await.unwrap().id();
        let (_bus, queue) = build(replaced).await;
        let changed = queue.update(id, &"new").await.unwrap();
        assert!(matches!(changed, ChangeOutcome::Changed(_)), "{changed:?}");
        expected.push(reads);
        bus.advance(secs(61)).await;
        assert_eq!(probe.payloads(), expected, "{pushed}, then {replaced}");
    }
    let records = records(&bus).await;
    let (other, _) = world.push_only::<String>("orders").await;
    expected.sort_unstable();
    for replay in [
        bus.replay("of the queue"),
        bus.replay("of an older one").version(1),
        other.replay("of nobody's"),
        other.replay("of a given one").version(3),
    ] {
        assert_eq!(replay.push(&records).await.unwrap().pushed, 3);
        bus.advance(secs(1)).await;
        let mut seen = probe.payloads().split_off(probe.count() - 3);
        seen.sort_unstable();
        assert_eq!(seen, expected, "{replay:?}");
    }
}

async fn a_replay_has_a_name(world: World) {
    let probe = Probe::<String>::new();
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &probe).await;
    push(&queue, "it").await;
    bus.advance(ms(10)).await;
    let records = records(&bus).await;
    for (name, bytes) in [(String::new(), 0), ("n".repeat(129), 129)] {
        let error = bus.replay(name).push(&records).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let expected = format!("the name of the replay has {bytes} bytes; it must have 1 to 128");
        assert_eq!(error.to_string(), expected);
    }
    let longest = bus.replay("n".repeat(128)).push(&records).await.unwrap();
    assert_eq!(counts(longest), [1, 0, 0, 0]);
}
