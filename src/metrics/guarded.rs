//! Handles of metrics. The recorder that they come from is the program's code: where it panics,
//! nothing is counted, and nothing else ends.

use crate::panics;

/// Looks up a counter, with the arguments of the macro of the same name.
macro_rules! counter {
    ($($metric:tt)+) => {
        $crate::metrics::guarded::Counter::of(|| ::metrics::counter!($($metric)+))
    };
}

/// Looks up a gauge.
macro_rules! gauge {
    ($($metric:tt)+) => {
        $crate::metrics::guarded::Gauge::of(|| ::metrics::gauge!($($metric)+))
    };
}

/// Looks up a histogram.
macro_rules! histogram {
    ($($metric:tt)+) => {
        $crate::metrics::guarded::Histogram::of(|| ::metrics::histogram!($($metric)+))
    };
}

pub(super) use {counter, gauge, histogram};

/// A counter.
#[derive(Clone, Debug)]
pub(crate) struct Counter(::metrics::Counter);

impl Counter {
    pub(super) fn of(look_up: impl FnOnce() -> ::metrics::Counter) -> Self {
        panics::caught(look_up).map_or_else(|_| Self::noop(), Self)
    }

    /// Returns one that counts nothing.
    pub(super) fn noop() -> Self {
        Self(::metrics::Counter::noop())
    }

    pub(super) fn increment(&self, by: u64) {
        panics::reported(|| self.0.increment(by));
    }
}

/// A gauge.
#[derive(Debug)]
pub(crate) struct Gauge(::metrics::Gauge);

impl Gauge {
    pub(super) fn of(look_up: impl FnOnce() -> ::metrics::Gauge) -> Self {
        Self(panics::caught(look_up).unwrap_or_else(|_| ::metrics::Gauge::noop()))
    }

    pub(super) fn set(&self, value: f64) {
        panics::reported(|| self.0.set(value));
    }
}

/// A histogram.
#[derive(Debug)]
pub(crate) struct Histogram(::metrics::Histogram);

impl Histogram {
    pub(super) fn of(look_up: impl FnOnce() -> ::metrics::Histogram) -> Self {
        Self(panics::caught(look_up).unwrap_or_else(|_| ::metrics::Histogram::noop()))
    }

    pub(super) fn record(&self, value: f64) {
        panics::reported(|| self.0.record(value));
    }
}
