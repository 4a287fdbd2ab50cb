//! Gauges of a process, of which each bus in it has a share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use ::metrics::{Gauge, SharedString, gauge, with_recorder};

use super::is_recorder_installed;

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
        let mut all = ALL.lock();
        let shares = all.entry(place.clone()).or_default();
        change(shares);
        gauge.set(self.how.of(shares.values().copied()));
        if shares.is_empty() {
            all.remove(place);
        }
    }
}

impl Drop for GaugeShare {
    fn drop(&mut self) {
        if self.gauge.get().is_some() {
            self.change(|shares| {
                shares.remove(&self.id);
            });
        }
    }
}

impl fmt::Debug for GaugeShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GaugeShare").field(&self.name).finish()
    }
}
