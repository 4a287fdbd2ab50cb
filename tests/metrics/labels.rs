//! How many queues have a label of their own.

use duly::Annotation;
use duly::metrics::MetricsChoices;
use duly::prelude::*;
use duly::testing::Probe;

use crate::metrics::seen::Seen;
use crate::world::{World, secs};

#[tokio::test(start_paused = true)]
async fn queues_beyond_the_bound_are_told_of_together() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let probe = Probe::<u64>::taking(secs(10));
    let mut builder = world.builder().metrics(MetricsChoices {
        queues_max: Some(2),
        ..MetricsChoices::default()
    });
    for queue in ["d", "b", "a", "c"] {
        let annotation = Annotation::new(queue).workers(2).timeout(secs(60));
        builder = builder.register_as(annotation, probe.clone());
    }
    let bus = world.start(builder).await;
    for name in ["a", "b", "c", "d", "e", "other"] {
        let queue = bus.queue_named::<u64>(name).unwrap();
        queue.push_many(0..3, secs(0)).await.unwrap();
    }
    bus.advance(secs(2)).await;
    let of = |name: &str, queue| seen.value(&format!("duly_{name}{{queue={queue}}}"));
    assert_eq!(
        ["a", "b", "other"].map(|queue| of("pushed_total", queue)),
        [3.0, 3.0, 12.0]
    );
    assert_eq!(
        ["a", "b", "other"].map(|queue| of("delivered_total", queue)),
        [2.0, 2.0, 4.0]
    );
    // Gauges of queues that share a label are added up, and do not overwrite each other.
    assert_eq!(
        ["a", "b", "other"].map(|queue| of("workers_busy", queue)),
        [2.0, 2.0, 4.0]
    );
    assert_eq!(
        ["a", "b", "other"].map(|queue| of("ring_used", queue)),
        [1.0, 1.0, 2.0]
    );
    let names = seen.names();
    for queue in ["queue=c", "queue=d", "queue=e"] {
        assert!(!names.iter().any(|name| name.contains(queue)), "{queue}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_beyond_reason_is_refused() {
    let world = World::memory();
    let builder = world.builder().metrics(MetricsChoices {
        queues_max: Some(10_001),
        ..MetricsChoices::default()
    });
    let error = builder.start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("metrics.queues_max"), "{error}");
}
