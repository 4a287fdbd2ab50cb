//! Spans that go to OpenTelemetry: a handler's is linked to its pusher's, also from bus to bus.

use duly::lease::LeaseStatus;
use duly::prelude::*;
use duly::records::Record;
use duly::testing::Probe;
use duly::trace::names;
use opentelemetry::trace::{SpanKind, Status, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Instrument};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use crate::servers;
use crate::traces::kit::{ORDERS, PLACE, STATE, TRACE, orders, secs};

/// Spans of this thread, exported into memory for as long as it lives.
struct Exported {
    spans: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _heard_here: DefaultGuard,
    /// As in a [`Capture`].
    _second: Dispatch,
}

impl Exported {
    fn new() -> Self {
        let spans = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone());
        let provider = provider.build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let subscriber = Registry::default().with(layer);
        Self {
            spans,
            _provider: provider,
            _second: Dispatch::new(NoSubscriber::default()),
            _heard_here: tracing::subscriber::set_default(subscriber),
        }
    }

    /// The only span of this name that has ended, if one has.
    fn ended(&self, name: &str) -> Option<SpanData> {
        let spans = self.spans.get_finished_spans().unwrap();
        let mut named = spans.into_iter().filter(|span| span.name == name);
        let span = named.next();
        assert!(named.next().is_none(), "more than one {name}");
        span
    }

    fn span(&self, name: &str) -> SpanData {
        self.ended(name).unwrap_or_else(|| panic!("no {name}"))
    }
}

/// A handler's span begins a trace and links to the span of the push, whose trace is on record.
fn assert_linked(exported: &Exported, record: &Record) {
    let (request, push) = (exported.span("request"), exported.span(names::PUSH));
    let handle = exported.span(names::HANDLE);
    let trace = push.span_context.trace_id();
    assert_eq!(trace, request.span_context.trace_id());
    assert_eq!(push.parent_span_id, request.span_context.span_id());
    assert_eq!(push.span_kind, SpanKind::Producer);

    assert_ne!(handle.span_context.trace_id(), trace);
    assert_eq!(handle.span_kind, SpanKind::Consumer);
    let [link] = &handle.links.links[..] else {
        panic!("one link: {:?}", handle.links);
    };
    assert_eq!(link.span_context.trace_id(), trace);
    assert_eq!(link.span_context.span_id(), push.span_context.span_id());
    assert!(link.span_context.is_remote());
    assert_eq!(record.trace.unwrap().to_string(), trace.to_string());
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_handler_is_linked_to_that_of_its_push() {
    let exported = Exported::new();
    let (bus, queue) = orders(ORDERS, Probe::new()).await;
    let push = queue.push(7, secs(86_400));
    let sent = push.instrument(tracing::info_span!("request")).await;
    bus.advance(secs(86_401)).await;
    let history = bus.history(sent.unwrap().id()).await.unwrap();
    assert_linked(&exported, &history[0]);
}

#[tokio::test]
async fn a_link_goes_from_bus_to_bus_over_redis() {
    let exported = Exported::new();
    let url = format!("{}?prefix={}", servers::shared().url(), servers::prefix());
    let builder = || {
        Bus::builder()
            .only_registered()
            .settings(Default::default())
    };
    let builder = || builder().store_url(&url);
    let pusher = builder().publish_only().start().await.unwrap();
    let probe = Probe::<u64>::new();
    let handler = builder().register_as(ORDERS, probe.clone());
    let handler = handler.start().await.unwrap();

    let push = async {
        let queue = pusher.queue_named::<u64>("orders").unwrap();
        queue.push(7, When::Now).await.unwrap()
    };
    let sent = push.instrument(tracing::info_span!("request")).await;
    let record = tokio::time::timeout(secs(20), async {
        loop {
            let page = handler.records().id(sent.id()).page().await.unwrap();
            if let Some(record) = page.items.into_iter().next() {
                return record;
            }
        }
    });
    let record = record.await.expect("the event is handled");
    assert_linked(&exported, &record);
    handler.shutdown(secs(5)).await.unwrap();
    pusher.shutdown(secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_set_by_hand_is_linked_to_with_its_state() {
    let exported = Exported::new();
    let (bus, queue) = orders(ORDERS, Probe::new()).await;
    let event = queue.event(7).header("traceparent", PLACE);
    event.header("tracestate", STATE).push().await.unwrap();
    bus.advance(secs(1)).await;
    let handle = exported.span(names::HANDLE);
    let place = &handle.links.links[0].span_context;
    assert_eq!(place.trace_id().to_string(), TRACE);
    assert_eq!(place.trace_state().header(), STATE);
    assert!(place.is_sampled());
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_pushes_is_of_the_handlers_trace() {
    let exported = Exported::new();
    let pushing = Probe::running(|_event: Event<u64>, cx| {
        let next = cx.bus().queue_named::<u64>("next").unwrap();
        async move {
            next.push(8, secs(60)).await?;
            Ok(())
        }
    });
    let (bus, queue) = orders(ORDERS, pushing).await;
    let first = queue.event(7).header("traceparent", PLACE);
    first.push().await.unwrap();
    bus.advance(secs(1)).await;
    let spans = exported.spans.get_finished_spans().unwrap();
    let handle = exported.span(names::HANDLE);
    let inner = spans.iter().find(|span| {
        span.name == names::PUSH && span.parent_span_id == handle.span_context.span_id()
    });
    let inner = inner.expect("the push lies in the handler's span");
    assert_eq!(
        inner.span_context.trace_id(),
        handle.span_context.trace_id()
    );
}

#[tokio::test(start_paused = true)]
async fn a_span_of_an_attempt_that_failed_is_marked() {
    let exported = Exported::new();
    let probe = Probe::answering(|_event, _cx| Err(Failure::permanent("no such bank")));
    let (bus, queue) = orders(ORDERS, probe).await;
    queue.push(7, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(
        exported.span(names::HANDLE).status,
        Status::error("no such bank")
    );
    assert_eq!(exported.span(names::PUSH).status, Status::Unset);
}

/// Spans at the ordinary level alone: the pusher's own is seen, those of the bus are not made.
#[tokio::test(start_paused = true)]
async fn without_spans_of_the_bus_an_event_carries_its_pushers() {
    use tracing_subscriber::filter::LevelFilter;
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone());
    let provider = provider.build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = Registry::default().with(LevelFilter::INFO).with(layer);
    let _second = Dispatch::new(NoSubscriber::default());
    let _heard_here = tracing::subscriber::set_default(subscriber);

    let (bus, queue) = orders(ORDERS, Probe::new()).await;
    let push = queue
        .push(7, When::Now)
        .instrument(tracing::info_span!("request"));
    let sent = push.await.unwrap();
    bus.advance(secs(1)).await;
    let [request] = &spans.get_finished_spans().unwrap()[..] else {
        panic!("one span");
    };
    let history = bus.history(sent.id()).await.unwrap();
    let trace = history[0].trace.map(|trace| trace.to_string());
    assert_eq!(trace, Some(request.span_context.trace_id().to_string()));
}

#[tokio::test]
async fn the_span_of_a_pulled_attempt_is_linked_and_has_its_outcome() {
    let exported = Exported::new();
    let bus = Bus::builder()
        .only_registered()
        .settings(Default::default());
    let bus = bus.store_url("memory:").publish_only().start();
    let bus = bus.await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let push = queue.event(7).attempts(2).push();
    let sent = push.instrument(tracing::info_span!("request")).await;
    let leased = queue.lease(1, secs(30)).send().await.unwrap().remove(0);
    let again = leased.retry_after(secs(0), "the bank is closed");
    assert_eq!(again.await.unwrap(), LeaseStatus::Held);
    drop(leased);
    let records = bus.records().id(sent.unwrap().id()).page();
    assert_linked(&exported, &records.await.unwrap().items[0]);
    let handle = exported.span(names::HANDLE);
    assert_eq!(handle.status, Status::error("the bank is closed"));
    let outcome = |field: &opentelemetry::KeyValue| field.key.as_str() == names::OUTCOME;
    let outcome = handle.attributes.iter().find(|field| outcome(field));
    assert_eq!(outcome.unwrap().value.as_str(), "retried");

    // What is pushed in the span continues its trace.
    exported.spans.reset();
    let leased = queue.lease(1, secs(30)).wait(secs(60)).send();
    let leased = leased.await.unwrap().remove(0);
    let next = bus.queue_named::<u64>("next").unwrap();
    next.push(8, When::Now)
        .instrument(leased.span())
        .await
        .unwrap();
    assert_eq!(leased.ack().await.unwrap(), LeaseStatus::Held);
    drop(leased);
    let (push, handle) = (exported.span(names::PUSH), exported.span(names::HANDLE));
    assert_eq!(push.parent_span_id, handle.span_context.span_id());
    bus.shutdown(secs(5)).await.unwrap();
}
