//! What the tests here begin with: a bus on virtual time, and handlers that do as they are told.

use std::time::Duration;

use duly::Annotation;
use duly::prelude::*;
use duly::testing::{Probe, TestBus};

/// A place in somebody's trace.
pub(crate) const PLACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
pub(crate) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const STATE: &str = "congo=t61rcWkgMzE";

pub(crate) const ORDERS: Annotation = Annotation::new("orders").buckets(1);

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A bus whose queue `orders` has this handler.
pub(crate) async fn orders(annotation: Annotation, probe: Probe<u64>) -> (TestBus, Queue<u64>) {
    let builder = Bus::builder().only_registered();
    let bus = TestBus::start(builder.register_as(annotation, probe)).await;
    let bus = bus.unwrap();
    let queue = bus.queue_named(annotation.queue).unwrap();
    (bus, queue)
}
