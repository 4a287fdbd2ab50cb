//! What the log says of handlers that fail: one line for each attempt, and never a payload.

use duly::Annotation;
use duly::prelude::*;
use duly::testing::{Probe, TestBus};
use duly::trace::names;
use tracing::Level;

use crate::traces::capture::Capture;
use crate::traces::kit::{ORDERS, PLACE, TRACE, orders, secs};

#[tokio::test(start_paused = true)]
async fn a_failing_handler_says_so_once_for_each_attempt() {
    let capture = Capture::at(Level::INFO);
    let probe = Probe::answering(|_event, _cx| Err(Failure::retry("the bank is closed")));
    let (bus, queue) = orders(ORDERS.attempts(3), probe).await;
    let event = queue.event(7).header("traceparent", PLACE);
    let id = event.push().await.unwrap().id().to_string();
    bus.advance(secs(60)).await;

    let lines = capture.lines(names::HANDLERS);
    let told = |name| lines.iter().map(move |line| line.field(name));
    assert!(told("message").eq([names::RETRIED, names::RETRIED, names::BURIED]));
    let levels = lines.iter().map(|line| line.level);
    assert!(levels.eq([Level::WARN, Level::WARN, Level::ERROR]));
    assert!(told(names::ATTEMPT).eq(["1", "2", "3"]));
    assert!(told(names::ATTEMPTS).eq(["3"; 3]));
    assert!(told(names::QUEUE).eq(["orders"; 3]));
    assert!(told(names::BUCKET).eq(["0"; 3]));
    assert!(told(names::ID).eq([id.as_str(); 3]));
    assert!(told(names::TRACE).eq([TRACE; 3]));
    assert!(told(names::CAUSE).eq(["failed"; 3]));
    assert!(told(names::ERROR).eq(["the bank is closed"; 3]));
    let delay_ms: u64 = lines[0].field(names::DELAY_MS).parse().unwrap();
    assert!((900..=1_100).contains(&delay_ms), "{delay_ms}");
    assert!(!lines[2].fields.contains_key(names::DELAY_MS));
}

#[tokio::test(start_paused = true)]
async fn each_way_to_fail_has_its_line_and_other_ends_have_none() {
    let capture = Capture::at(Level::INFO);
    let probe = Probe::running(|event: Event<u64>, _cx| async move {
        match (event.payload, event.attempt()) {
            (1, _) => panic!("the bank has gone"),
            (2, _) => std::future::pending().await,
            (3, _) => Err(Failure::permanent("no such bank")),
            (4, _) => Err(Failure::discard("paid meanwhile")),
            (5, _) if event.lateness() < secs(5) => Err(Failure::snooze(secs(1))),
            _ => Ok(()),
        }
    });
    let (bus, queue) = orders(ORDERS.attempts(1).timeout(secs(1)), probe).await;
    let mut told = Vec::new();
    for payload in 1..=6 {
        let before = capture.lines(names::HANDLERS).len();
        let id = queue.push(payload, When::Now).await.unwrap().id();
        bus.advance(secs(3)).await;
        let _ = queue.cancel(id).await.unwrap();
        let lines = capture.lines(names::HANDLERS);
        let lines = lines[before..].iter().map(|line| {
            let cause = line.fields.get(names::CAUSE).cloned().unwrap_or_default();
            (payload, line.level, line.field("message").to_owned(), cause)
        });
        told.extend(lines);
    }
    let line = |payload, level, message: &str, cause: &str| {
        (payload, level, message.to_owned(), cause.to_owned())
    };
    assert_eq!(
        told,
        [
            line(1, Level::ERROR, names::BURIED, "panicked"),
            line(2, Level::ERROR, names::BURIED, "timed_out"),
            line(3, Level::ERROR, names::BURIED, "failed"),
            line(4, Level::WARN, names::DISCARDED, ""),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn no_payload_is_ever_heard_of() {
    const SECRET: &str = "4929-1234-5678-9012";
    let capture = Capture::everything();
    let failing = Probe::<String>::answering(|_event, _cx| Err(Failure::permanent("no")));
    let numbers = Probe::<u64>::new();
    let builder = Bus::builder().only_registered();
    let builder = builder.register_as(Annotation::new("cards"), failing);
    let bus = TestBus::start(builder.register_as(ORDERS, numbers)).await;
    let bus = bus.unwrap();
    let cards = bus.queue_named::<String>("cards").unwrap();
    let first = cards.push(SECRET.to_owned(), When::Now).await.unwrap();
    // What the handler of this queue cannot read, and its decoder quotes.
    let orders = bus.queue_named::<String>("orders").unwrap();
    orders.push(SECRET.to_owned(), When::Now).await.unwrap();
    orders
        .push_many([SECRET.to_owned()], secs(1))
        .await
        .unwrap();
    bus.advance(secs(5)).await;
    let _ = cards.update(first.id(), &SECRET.to_owned()).await.unwrap();
    orders.try_publish(SECRET.to_owned()).unwrap_err();

    let lines = capture.lines(names::HANDLERS);
    let messages = lines.iter().map(|line| line.field("message"));
    let undecodable = messages.filter(|message| *message == names::UNDECODABLE);
    assert_eq!(undecodable.count(), 2);
    for heard in capture.all() {
        let mut values = heard.fields.values();
        assert!(!values.any(|value| value.contains(SECRET)), "{heard:?}");
    }
}

/// The lines of any target whose message contains `words`.
fn lines_with(capture: &Capture, words: &str) -> Vec<crate::traces::capture::Heard> {
    let all = capture.all().into_iter();
    let has = |line: &crate::traces::capture::Heard| {
        let message = line.fields.get("message");
        message.is_some_and(|message| message.contains(words))
    };
    all.filter(has).collect()
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_ends_without_a_shutdown_says_so_once() {
    let capture = Capture::at(Level::WARN);
    let (bus, queue) = orders(ORDERS, Probe::new()).await;
    let again = bus.clone();
    drop(bus);
    assert!(lines_with(&capture, "bus dropped without shutdown").is_empty());
    drop(again);
    drop(queue);
    assert_eq!(
        lines_with(&capture, "bus dropped without shutdown").len(),
        1
    );

    let (bus, _queue) = orders(ORDERS, Probe::new()).await;
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    assert_eq!(
        lines_with(&capture, "bus dropped without shutdown").len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_bus_without_handlers_says_so_unless_it_only_publishes() {
    let capture = Capture::at(Level::WARN);
    let builder = || Bus::builder().only_registered();
    let _bus = TestBus::start(builder().publish_only()).await.unwrap();
    assert!(lines_with(&capture, "no handlers").is_empty());
    let _bus = TestBus::start(builder()).await.unwrap();
    let [line] = &lines_with(&capture, "no handlers")[..] else {
        panic!("one line: {:?}", capture.all());
    };
    assert!(line.field("message").contains("use my_handlers as _"));
}

/// On real time, which is what it blocks.
#[tokio::test]
async fn a_handler_that_blocks_its_thread_is_named() {
    let capture = Capture::at(Level::WARN);
    let limit = std::time::Duration::from_millis(10);
    let probe = Probe::<u64>::answering(move |event, _cx| {
        if event.attempt() == 1 {
            std::thread::sleep(limit * 10);
        }
        Ok(())
    });
    let orders = ORDERS.timeout(limit);
    let builder = Bus::builder().only_registered().store_url("memory:");
    let bus = builder.register_as(orders, probe).start().await.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    queue.push(1_u64, When::Now).await.unwrap();
    while lines_with(&capture, "`blocking`").is_empty() {
        tokio::task::yield_now().await;
    }
    let lines = lines_with(&capture, "`blocking`");
    assert_eq!((lines.len(), lines[0].field("queue")), (1, "orders"));
    bus.shutdown(secs(5)).await.unwrap();
}

/// It may be the queue of another program, so it is taken as it is.
#[tokio::test(start_paused = true)]
async fn a_queue_whose_name_is_nearly_a_known_one_is_warned_of_once() {
    let capture = Capture::at(Level::INFO);
    let (bus, _queue) = orders(Annotation::new("order-close"), Probe::new()).await;
    for _ in 0..3 {
        for name in ["order_close", "oder-close", "order-close", "reports"] {
            bus.queue_named::<u64>(name).unwrap();
        }
    }
    let lines = capture.lines("duly::bus::names");
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line.level, line.field("queue"), line.field("meant")))
        .collect();
    let warned = |queue| (Level::WARN, queue, "order-close");
    assert_eq!(told, [warned("order_close"), warned("oder-close")]);
}
