//! Calls of scripts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::Cmd;

use crate::core::engine::{DedupWindow, FORGET_MAX, ID_AHEAD_MAX};
use crate::event::BucketKey;
use crate::store::redis::link::script::Script;
use crate::store::redis::script::keys::BucketKeys;
use crate::store::redis::script::names::Head;
use crate::store::redis::script::table::{Arguments, Row};
use crate::time::DELAY_MAX;

/// A script with its keys and arguments.
pub(in crate::store::redis) struct Call {
    pub(in crate::store::redis) script: &'static Script,
    pub(in crate::store::redis) command: Cmd,
    /// Whether it may write records.
    pub(in crate::store::redis) has_records: bool,
}

/// What calls on a bucket share.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct CallContext<'a> {
    pub(in crate::store::redis) bucket: &'a BucketKey,
    pub(in crate::store::redis) keys: Arc<BucketKeys>,
    /// The time in microseconds, for tests; otherwise the server's clock is used.
    pub(in crate::store::redis) now_us: Option<u64>,
    /// The time of this process, in microseconds.
    pub(in crate::store::redis) mono_us: u64,
    /// The server's by that, since earlier replies.
    pub(in crate::store::redis) expected_us: Option<u64>,
    /// The dedup window of a bucket.
    pub(in crate::store::redis) window: DedupWindow,
    /// How many records its outbox keeps before the oldest are dropped, or, beyond
    /// [`RECORDS_END`](crate::store::redis::script::names::RECORDS_END),
    /// before pushes are refused.
    pub(in crate::store::redis) records_max: u64,
    /// Whether that is a limit that was set, so that processes without one must not keep fewer.
    pub(in crate::store::redis) has_limit: bool,
    /// Whether functions are called, and not scripts.
    pub(in crate::store::redis) calls_functions: bool,
    /// The calling process, which is not notified.
    pub(in crate::store::redis) origin: Arc<str>,
}

impl CallContext<'_> {
    /// Calls the script that has these arguments; rows may follow.
    pub(in crate::store::redis) fn call<A: Arguments>(&self, arguments: A) -> Call {
        self.call_as(A::script(), arguments)
    }

    /// Returns whether calls go on beside what is over and could not be ended.
    pub(in crate::store::redis) fn goes_on(&self) -> bool {
        self.keys.goes_on_until.load(Ordering::Relaxed) > self.mono_us
    }

    /// Calls a script that has the arguments of another one.
    pub(in crate::store::redis) fn call_as<A: Arguments>(
        &self,
        script: &'static Script,
        arguments: A,
    ) -> Call {
        let mut command = script.call(self.calls_functions, self.keys.of(script.parts()));
        // The time, for tests; "-" and the expected one; or "". And a blank, see `lua/bucket.lua`.
        let expected = self.expected_us.map(|us| -us.cast_signed());
        let time = self.now_us.map(u64::cast_signed).or(expected);
        match (time, self.goes_on()) {
            (Some(time), false) => command.arg(time),
            (Some(time), true) => command.arg(format!("{time} ")),
            (None, false) => command.arg(""),
            (None, true) => command.arg(" "),
        };
        if A::HEAD == Head::Ending {
            let DedupWindow {
                keep_for,
                max,
                cap,
                max_age,
            } = self.window;
            let (keep_us, max_age_us) = (us(keep_for), us(max_age));
            let ahead_ms = ID_AHEAD_MAX.as_millis();
            let window = format!("{max} {cap} {keep_us} {max_age_us} {FORGET_MAX} {ahead_ms}");
            let records_max = self.records_max.cast_signed();
            let sign = if self.has_limit { 1 } else { -1 };
            command.arg(window).arg(sign * records_max);
        }
        arguments.add_to(&mut command);
        Call {
            script,
            command,
            has_records: A::HEAD == Head::Ending,
        }
    }
}

impl Call {
    /// Adds rows.
    pub(in crate::store::redis) fn with_rows(
        mut self,
        rows: impl IntoIterator<Item = impl Row>,
    ) -> Self {
        for row in rows {
            row.add_to(&mut self.command);
        }
        self
    }
}

/// Beyond this a script's numbers are not exact.
pub(in crate::store::redis) const EXACT_MAX: u64 = 1 << 52;

/// Converts to whole microseconds, rounded up so that nothing is early.
pub(in crate::store::redis) fn us(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).map_or(EXACT_MAX, |us| us.min(EXACT_MAX))
}

pub(in crate::store::redis) fn us_down(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).map_or(EXACT_MAX, |us| us.min(EXACT_MAX))
}

pub(in crate::store::redis) fn delay_max_ms() -> u128 {
    DELAY_MAX.as_millis()
}
