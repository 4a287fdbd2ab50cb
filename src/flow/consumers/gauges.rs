//! The gauges of rings and workers, set when the mover goes to sleep.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::event::QueueName;
use crate::flow::consumers::consumer::Consumer;
use crate::metrics::{Gauges, MoverSleepGauge, QueueActivity, QueueLabels};
use crate::time::Mono;

/// The least time between two updates.
const EVERY: Duration = Duration::from_secs(1);

/// The gauges of a process's consumers.
///
/// They are set when the mover goes to sleep, at most once in a while; while there is work, the
/// mover is woken for the next update. An idle bus is not woken: its last update showed that it is
/// idle.
pub(crate) struct GaugeUpdater {
    gauges: Vec<Gauges>,
    /// The index of each consumer's gauges: consumers whose queues share a label share them.
    places: Vec<usize>,
    next: Mono,
    sleep: MoverSleepGauge,
}

impl GaugeUpdater {
    /// Creates the gauges of the consumers of `queues`, in their order.
    pub(crate) fn at<'a>(
        queues: impl IntoIterator<Item = &'a QueueName>,
        labels: &QueueLabels,
    ) -> Self {
        let mut known = BTreeMap::new();
        let mut gauges = Vec::new();
        let mut places = Vec::new();
        for queue in queues {
            let label = labels.label(queue);
            let place = known.entry(label.to_string()).or_insert_with(|| {
                gauges.push(Gauges::new(&label));
                gauges.len() - 1
            });
            places.push(*place);
        }
        Self {
            gauges,
            places,
            next: Mono::default(),
            sleep: MoverSleepGauge::new(),
        }
    }

    /// Updates the gauges before the mover sleeps from `now` until `at`; returns until when it may
    /// sleep. `waits` returns whether the queue at an index waits for its rate limit.
    pub(crate) fn before_sleep(
        &mut self,
        now: Mono,
        at: Mono,
        consumers: &[Arc<dyn Consumer>],
        waits: impl Fn(usize) -> bool,
    ) -> Mono {
        let mut is_at_rest = false;
        if now >= self.next {
            self.next = now + EVERY;
            is_at_rest = self.look(consumers, waits);
        }
        let at = if is_at_rest { at } else { at.min(self.next) };
        self.sleep.set(at.since(now));
        at
    }

    /// Sets every gauge; returns whether they stay correct until something happens.
    fn look(&mut self, consumers: &[Arc<dyn Consumer>], waits: impl Fn(usize) -> bool) -> bool {
        let mut doing = vec![QueueActivity::default(); self.gauges.len()];
        for (queue, (consumer, place)) in consumers.iter().zip(&self.places).enumerate() {
            let (ring_used, busy) = consumer.load();
            doing[*place] = doing[*place].and(QueueActivity {
                ring_used,
                busy,
                stuck: consumer.stuck(),
                workers: consumer.workers(),
                waits_for_rate: waits(queue),
            });
        }
        for (gauges, doing) in self.gauges.iter().zip(&doing) {
            gauges.set(*doing);
        }
        doing.iter().all(|doing| doing.is_at_rest())
    }
}
