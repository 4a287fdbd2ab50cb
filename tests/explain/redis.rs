//! Several nodes on a real server: who holds an event, and who of them is there.

use std::time::Duration;

use duly::explain::{Explanation, HolderStatus, Reason};
use duly::prelude::*;
use duly::testing::Probe;
use duly::{Annotation, BusBuilder};

use crate::servers;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
const LETTERS: Annotation = Annotation::new("letters").buckets(2);

/// The shared server, under a prefix of its own.
fn fresh() -> String {
    format!("{}?prefix={}", servers::shared().url(), servers::prefix())
}

fn builder(url: &str) -> BusBuilder {
    let builder = Bus::builder().only_registered();
    builder.settings(Default::default()).store_url(url)
}

/// A node whose handlers never end.
async fn hanging(url: &str) -> Bus {
    let probe = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let builder = builder(url).register_as(LETTERS, probe);
    builder.start().await.unwrap()
}

async fn asker(url: &str) -> (Bus, Queue<u64>) {
    let bus = builder(url).publish_only().start().await.unwrap();
    let queue = bus.queue_named("letters").unwrap();
    (bus, queue)
}

/// Asks again until it is so.
async fn until(bus: &Bus, id: EventId, holds: impl Fn(&Explanation) -> bool) -> Explanation {
    let asked = async {
        loop {
            let explained = bus.explain(id).await.unwrap();
            if holds(&explained) {
                return explained;
            }
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    match asked {
        Ok(explained) => explained,
        Err(_elapsed) => panic!("{}", bus.explain(id).await.unwrap()),
    }
}

fn is_held(explained: &Explanation, by: &Bus, as_: &HolderStatus) -> bool {
    matches!(&explained.reasons[0], Reason::Held { node, standing, .. }
        if *node == by.node_id() && standing == as_)
}

#[tokio::test]
async fn who_holds_an_event_and_whether_he_is_there_is_told_truly() {
    let url = fresh();
    let (bus, queue) = asker(&url).await;
    let first = hanging(&url).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    let explained = until(&bus, id, |it| is_held(it, &first, &HolderStatus::Answers)).await;
    assert!(explained.advice().is_empty(), "{explained}");
    assert!(explained.since.is_some(), "{explained}");
    // It asks of itself what it knows itself.
    let own = first.explain(id).await.unwrap();
    assert!(matches!(
        own.reasons[0],
        Reason::Held {
            standing: HolderStatus::Here { runs: true, .. },
            ..
        }
    ));

    let node = first.node_id();
    drop(first);
    let explained = bus.explain(id).await.unwrap();
    let Reason::Held {
        node: told,
        standing: HolderStatus::Silent,
        consumers: 0,
        ..
    } = explained.reasons[0]
    else {
        panic!("{explained}");
    };
    assert_eq!(told, node);
    assert!(explained.advice()[0].contains("start a process"));

    let second = hanging(&url).await;
    let explained = until(&bus, id, |it| is_held(it, &second, &HolderStatus::Answers)).await;
    assert_eq!(explained.tries, 1, "{explained}");
    assert_eq!(explained.attempts.records[0].outcome, Outcome::LeaseLost);
    drop(second);
    bus.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn what_another_node_has_set_and_who_consumes_is_told_by_every_node() {
    let url = fresh();
    let (bus, queue) = asker(&url).await;
    let node = hanging(&url).await;
    node.pause("letters").await.unwrap();
    let id = queue.push(1, When::Now).await.unwrap().id();
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.reasons, [Reason::Paused]);
    node.resume("letters").await.unwrap();
    until(&bus, id, |it| is_held(it, &node, &HolderStatus::Answers)).await;

    let lonely = bus.queue_named::<u64>("lonely").unwrap();
    let id = lonely.push(1, When::Now).await.unwrap().id();
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.reasons, [Reason::NoConsumer { others: 1 }]);
    node.shutdown(Duration::ZERO).await.unwrap();
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.reasons, [Reason::NoConsumer { others: 0 }]);
    bus.shutdown(PATIENCE).await.unwrap();
}
