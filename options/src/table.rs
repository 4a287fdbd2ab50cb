//! The table of the options of a queue.

use std::time::Duration;

use crate::kind::Kind;

/// Hands the table of a queue's options to a macro, `$then`.
///
/// A row is its documentation, whose first line is also the one of the tables; the name, the type
/// and the default; the [kind](crate::Kind) with the bounds; how an annotation says it; and the
/// value and the default in words. Options of the second group are off by default.
#[macro_export]
macro_rules! queue_options {
    ($then:ident) => {
        $then! {
            always {
                /// The number of buckets for its events.
                buckets: u16 = 8, Number(1, 1_024),
                    "buckets = 8", "1 to 1,024", "8";
                /// The most handlers that run at once on a node; 0 pauses the queue.
                workers: usize = 16, Number(0, 65_536),
                    "workers = 16", "0 to 65,536", "16";
                /// The timeout of an attempt.
                timeout: Duration = Duration::from_secs(30), Span(NANOSECOND, WEEK),
                    "timeout = \"30s\"", "a duration, above zero, at most 7 days", "`30s`";
                /// The most attempts of an event before it is a dead letter.
                attempts: u16 = 16, Number(1, 1_000),
                    "attempts = 16", "1 to 1,000", "16";
                /// The interruptions by a stop in a row that use up no attempt of an event.
                ///
                /// A handler that never ends within the grace period of
                /// [`Bus::shutdown`](crate::Bus::shutdown) uses up its attempts after that, and its
                /// event becomes a dead letter. 10 are two weeks of a stop every working day.
                free_interruptions: u8 = 10, Number(0, 15),
                    "free_interruptions = 10", "0 to 15", "10";
                /// The retry policy: the delay before the next attempt. The annotation takes a function
                /// as well, see [`RetryPolicy::function`](crate::RetryPolicy::function).
                backoff: RetryPolicy = RetryPolicy::default(), Backoff,
                    "backoff = \"exp(1s..10m)\"",
                    "`fixed(5s)`, `linear(1s..1m)`, `exp(1s..10m)`, `steps(1m, 1h, 1d)`; each may end in `, jitter 10%`",
                    "`exp(1s..10m, jitter 10%)`";
                /// The lateness policy, fixed when an event is pushed.
                late: LatePolicy = LatePolicy::Deliver, Late,
                    "late = \"expire(5m)\"", "`deliver`, `expire(5m)`, `bury(5m)`", "`deliver`";
                /// The jitter window, fixed when an event is pushed.
                ///
                /// Each event is due later than requested by a part of it that its id determines.
                /// Zero disables it.
                spread: Duration = Duration::ZERO, Span(ZERO, DAY),
                    "spread = \"10s\"", "a duration, at most a day", "`0s`";
                /// The slots of its ring: the most events that are on their way to handlers.
                ring: usize = 1_024, PowerOfTwo(64, 65_536),
                    "ring = 1024", "a power of two, 64 to 65,536", "1,024";
                /// How long an idle worker polls for the next event while traffic is dense.
                linger: Duration = Duration::from_micros(20), Span(ZERO, FOREVER),
                    "linger = \"20us\"", "a duration", "`20us`";
                /// Whether its handlers have a runtime of their own, for processor-intensive ones.
                dedicated: bool = false, Flag,
                    "dedicated = true", "`true`, `false`", "`false`";
                /// Whether this process consumes the queue; otherwise it only pushes.
                consume: bool = true, Flag,
                    "consume = false", "`true`, `false`", "`true`";
                /// The version of its payload type; only an annotation sets it.
                version: u32 = 0, Number(0, 4_294_967_295),
                    "version = 1", "0 to 4,294,967,295", "0";
                /// Whether records keep the payload as it is stored, fixed when an event is pushed.
                ///
                /// Up to 64 KiB ([`PAYLOAD_KEPT_MAX`](crate::records::PAYLOAD_KEPT_MAX)).
                keep_payload: bool = false, Flag,
                    "keep_payload = true", "`true`, `false`", "`false`";
                /// The codec of pushed values; stored values are read whatever their codec.
                codec: Codec = Codec::Json, Codec,
                    "codec = \"json\"", "`json`, `raw`, and `msgpack` with that feature", "`json`";
                /// Whether pushed values are encrypted, under the active key of the bus's key ring.
                ///
                /// See [`KeyRing`](crate::codec::KeyRing).
                encrypt: bool = false, Flag,
                    "encrypt = true", "`true`, `false`", "`false`";
            }
            perhaps {
                /// The most handlers that start in a second, over all nodes.
                ///
                /// Events over it wait in the store. What an operator sets, by
                /// [`Bus::set_rate`](crate::Bus::set_rate) or `duly queue set --rate`, takes
                /// precedence on every node, also over later deploys, until it is removed; then
                /// this one holds again. Each node starts its share of the rate that it declares, so during
                /// a deploy that changes it the queue starts between the two, and nodes that
                /// declare none start as many as they can. Each process that
                /// [pulls](crate::Queue::lease) has the whole rate.
                rate: f64, Rate,
                    "rate = \"50/s\"", "`50/s`, `300/m` or `10/h`; `0.001/s` to `1000000/s`", "no limit";
                /// How long after its death a dead letter is dropped.
                ///
                /// By default never, since only its owner knows whether it is still of use.
                dead_keep_for: Duration, Span(SECOND, TEN_YEARS),
                    "dead_keep_for = \"30d\"", "a duration, `1s` to `3653d`", "never";
                /// The most dead letters; of more the fullest buckets drop those with the first ids.
                ///
                /// Both limits are enforced about once a minute, by each process that consumes the
                /// queue and by `duly serve`, each by its own settings; what is dropped has a record,
                /// whose actor is `retention`.
                dead_keep_max: usize, Number(0, MAX),
                    "dead_keep_max = 100000", "a whole number", "no limit";
            }
        }
    };
}

/// An option of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOption {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// How an annotation says it.
    pub example: &'static str,
    /// Its default in words.
    pub default: &'static str,
}

macro_rules! rows {
    (
        always {$(
            $(#[$doc:meta])*
            $name:ident: $type:ty = $value:expr, $kind:expr,
                $example:literal, $values:literal, $default:literal;
        )*}
        perhaps {$(
            $(#[$maybe_doc:meta])*
            $maybe:ident: $maybe_type:ty, $maybe_kind:expr,
                $maybe_example:literal, $maybe_values:literal, $maybe_default:literal;
        )*}
    ) => {
        /// The options of a queue, in the order of the table.
        pub const QUEUE_OPTIONS: &[QueueOption] = &[
            $(QueueOption {
                name: stringify!($name),
                kind: $kind,
                example: $example,
                default: $default,
            },)*
            $(QueueOption {
                name: stringify!($maybe),
                kind: $maybe_kind,
                example: $maybe_example,
                default: $maybe_default,
            },)*
        ];

        #[cfg(test)]
        const VALUES: &[(&str, &str)] = &[
            $((stringify!($name), $values),)*
            $((stringify!($maybe), $maybe_values),)*
        ];
    };
}

const NANOSECOND: Duration = Duration::from_nanos(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(7 * 24);
const TEN_YEARS: Duration = Duration::from_hours(3_653 * 24);
const FOREVER: Duration = Duration::MAX;
const ZERO: Duration = Duration::ZERO;
const MAX: u64 = u64::MAX;

use Kind::{Backoff, Codec, Flag, Late, Number, PowerOfTwo, Rate, Span};
queue_options!(rows);

/// Returns the option of a name.
#[must_use]
pub fn queue_option(name: &str) -> Option<&'static QueueOption> {
    QUEUE_OPTIONS.iter().find(|option| option.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_value_have_its_bounds() {
        for (name, words) in VALUES {
            let words = words.replace(',', "");
            let kind = queue_option(name).expect("a row").kind;
            if let Kind::Number(least, most) | Kind::PowerOfTwo(least, most) = kind
                && most < u64::MAX
            {
                assert!(words.contains(&format!("{least} to {most}")), "{name}");
            }
        }
    }
}
