//! Gauges of a process, of which each bus in it has a share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use ::metrics::{SharedString, with_recorder};

use super::guarded::{Gauge, gauge};
use super::is_recorder_installed;
use crate::panics;

/// How the shares of several buses become one value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Combine {
    /// What each bus has of its own: workers, slots, records of its store.
    Sum,
    /// What they may see of the same thing: the largest value.
    Max,
    /// The value that is furthest from zero.
    Furthest,
}

impl Combine {
    fn of(self, shares: impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::Sum => shares.sum(),
            Self::Max => shares.fold(0.0, f64::max),
            Self::Furthest => shares.fold(0.0, |most, share| {
                if share.abs() > f64::abs(most) {
                    share
                } else {
                    most
                }
            }),
        }
    }
}

/// One bus's share of a gauge; dropping it takes it back.
pub(crate) struct GaugeShare {
    name: &'static str,
    queue: Option<SharedString>,
    how: Combine,
    id: u64,
    /// Looked up when there is a recorder.
    gauge: OnceLock<(Gauge, Place)>,
}

/// A gauge: its recorder, which tests have several of, its name and its queue.
type Place = (usize, &'static str, Option<SharedString>);

/// The shares of every bus of this process. Bounded by the buses and their labels.
static ALL: Mutex<BTreeMap<Place, BTreeMap<u64, f64>>> = Mutex::new(BTreeMap::new());

impl GaugeShare {
    /// Creates a share without a value yet.
    pub(crate) fn new(name: &'static str, queue: Option<&SharedString>, how: Combine) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let share = Self {
            name,
            queue: queue.cloned(),
            how,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            gauge: OnceLock::new(),
        };
        share.gauge(); // that of the starting thread, which may have a recorder of its own
        share
    }

    /// Sets this bus's share.
    pub(crate) fn set(&self, value: f64) {
        self.change(|shares| {
            shares.insert(self.id, value);
        });
    }

    fn gauge(&self) -> Option<&(Gauge, Place)> {
        if self.gauge.get().is_none() && is_recorder_installed() {
            let gauge = match &self.queue {
                Some(queue) => gauge!(self.name, "queue" => queue.clone()),
                None => gauge!(self.name),
            };
            let recorder = with_recorder(|it| std::ptr::from_ref(it).cast::<()>().addr());
            let place = (recorder, self.name, self.queue.clone());
            return Some(self.gauge.get_or_init(|| (gauge, place)));
        }
        self.gauge.get()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u64, f64>)) {
        let Some((gauge, place)) = self.gauge() else {
            return;
        };
        {
            let mut all = ALL.lock();
            let shares = all.entry(place.clone()).or_default();
            change(shares);
            if shares.is_empty() {
                all.remove(place);
            }
        }
        // Without the lock: a recorder is the program's code. Two that set at once may do so in the
        // other order, so each looks whether what it has set is still right.
        let mut was_set = None;
        loop {
            let value = {
                let all = ALL.lock();
                let shares = all.get(place).into_iter().flat_map(BTreeMap::values);
                self.how.of(shares.copied())
            };
            if was_set.replace(value.to_bits()) == Some(value.to_bits()) {
                return;
            }
            gauge.set(value);
        }
    }
}

impl Drop for GaugeShare {
    fn drop(&mut self) {
        if self.gauge.get().is_some() {
            // Of several that are dropped together, the second panic of a recorder would end the process.
            panics::reported(|| {
                self.change(|shares| {
                    shares.remove(&self.id);
                });
            });
        }
    }
}

impl fmt::Debug for GaugeShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GaugeShare").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use ::metrics::{
        Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, Unit,
        with_local_recorder,
    };

    use super::*;

    /// Looks at the shares while it is told of a value, as one would that asks a bus, and panics at some.
    #[derive(Clone, Default)]
    struct Enters(Arc<Mutex<Vec<f64>>>);

    impl GaugeFn for Enters {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            let is_free = ALL.try_lock_for(Duration::from_secs(10)).is_some();
            assert!(is_free, "it would wait for itself");
            self.0.lock().push(value);
            assert!(value < 100.0, "on purpose");
        }
    }

    impl Recorder for Enters {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Arc::new(self.clone()))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_recorder_may_come_back_and_panic() {
        let recorder = Enters::default();
        with_local_recorder(&recorder, || {
            let share = || GaugeShare::new("a_test", None, Combine::Sum);
            let (one, two) = (share(), share());
            one.set(1.0);
            two.set(2.0);
            two.set(200.0); // its panic is nobody else's
            two.set(4.0);
            drop(two);
            drop(one);
            assert_eq!(*recorder.0.lock(), [1.0, 3.0, 201.0, 5.0, 1.0, 0.0]);
            let last = share();
            last.set(7.0);
            assert_eq!(
                recorder.0.lock().last(),
                Some(&7.0),
                "no share is left of those before"
            );
        });
    }
}
