//! The options of one queue.

use std::time::Duration;

use duly_options::{Measure, queue_option, rate};

use crate::codec::Codec;
use crate::duration;
use crate::error::{Error, Result};
use crate::event::{LatePolicy, QueueName};
use crate::handler::Annotation;
use crate::retry::RetryPolicy;

macro_rules! options {
    (
        always {$(
            #[doc = $summary:literal] $(#[doc = $doc:literal])*
            $name:ident: $type:ty = $value:expr, $kind:expr,
                $example:literal, $values:literal, $default:literal;
        )*}
        perhaps {$(
            #[doc = $maybe_summary:literal] $(#[doc = $maybe_doc:literal])*
            $maybe:ident: $maybe_type:ty, $maybe_kind:expr,
                $maybe_example:literal, $maybe_values:literal, $maybe_default:literal;
        )*}
    ) => {
        /// The resolved options of one queue.
        #[derive(Clone, Debug, PartialEq)]
        pub struct QueueOptions {
            $(
                #[doc = concat!($summary, " Value:", " ", $values, ". Default: ", $default, ".")]
                $(#[doc = $doc])*
                pub $name: $type,
            )*
            $(
                #[doc = concat!($maybe_summary, " Value:", " ", $maybe_values, ". Default: ", $maybe_default, ".")]
                $(#[doc = $maybe_doc])*
                pub $maybe: Option<$maybe_type>,
            )*
        }

        impl Default for QueueOptions {
            fn default() -> Self {
                Self {
                    $($name: $value,)*
                    $($maybe: None,)*
                }
            }
        }

        /// Partial options of a queue; `None` defers to a weaker source.
        ///
        /// The sources, weakest first: the default, `queue_defaults` of the settings file, the
        /// annotation, the queue's section of the file, the environment, the builder.
        ///
        /// | option | value | default | |
        /// |---|---|---|---|
        $(#[doc = concat!("| `", stringify!($name), "` | ", $values, " | ", $default, " |", $summary, " |")])*
        $(#[doc = concat!("| `", stringify!($maybe), "` | ", $maybe_values, " | ", $maybe_default, " |", $maybe_summary, " |")])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct QueueChoices {
            $(
                #[doc = concat!("See [`QueueOptions::", stringify!($name), "`].")]
                pub $name: Option<$type>,
            )*
            $(
                #[doc = concat!("See [`QueueOptions::", stringify!($maybe), "`].")]
                pub $maybe: Option<$maybe_type>,
            )*
        }

        impl QueueChoices {
            /// Returns these choices, with those of a weaker source where there are none.
            pub(crate) fn or(self, weaker: Self) -> Self {
                Self {
                    $($name: self.$name.or(weaker.$name),)*
                    $($maybe: self.$maybe.or(weaker.$maybe),)*
                }
            }
        }

        impl From<&Annotation> for QueueChoices {
            fn from(annotation: &Annotation) -> Self {
                Self {
                    $($name: annotation.$name,)*
                    $($maybe: annotation.$maybe,)*
                }
            }
        }

        impl QueueOptions {
            /// Returns these options with those set in `choices` replaced.
            #[must_use]
            pub fn with(self, choices: &QueueChoices) -> Self {
                Self {
                    $($name: choices.$name.unwrap_or(self.$name),)*
                    $($maybe: choices.$maybe.or(self.$maybe),)*
                }
            }

            /// Checks every bound.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), with queue, value and bound.
            pub fn check(&self, queue: &QueueName) -> Result<()> {
                $(check(queue, stringify!($name), &self.$name)?;)*
                $(
                    if let Some(value) = &self.$maybe {
                        check(queue, stringify!($maybe), value)?;
                    }
                )*
                if !self.codec.is_built_in() {
                    return Err(Error::invalid(format!(
                        "queue {queue}: codec is {}, which needs duly's feature `{0}`; add it in \
                         Cargo.toml",
                        self.codec
                    )));
                }
                Ok(())
            }
        }
    };
}
duly_options::queue_options!(options);

fn check(queue: &QueueName, name: &str, value: &impl Measured) -> Result<()> {
    let measure = value.measure();
    match queue_option(name) {
        Some(option) if !option.kind.allows(measure) => {
            let value = match measure {
                Measure::Number(number) => number.to_string(),
                Measure::Duration(span) => duration::format(span),
                Measure::Rate(per_second) => rate::format(per_second),
                Measure::Unbounded => return Ok(()),
            };
            let bounds = option.kind.bounds();
            Err(Error::invalid(format!(
                "queue {queue}: {name} is {value}; it must be {bounds}"
            )))
        }
        _ => Ok(()),
    }
}

/// A value of an option, as its bounds see it.
trait Measured {
    fn measure(&self) -> Measure {
        Measure::Unbounded
    }
}

impl Measured for bool {}
impl Measured for Codec {}
impl Measured for LatePolicy {}
impl Measured for RetryPolicy {}

impl Measured for Duration {
    fn measure(&self) -> Measure {
        Measure::Duration(*self)
    }
}

impl Measured for f64 {
    fn measure(&self) -> Measure {
        Measure::Rate(*self)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Measured for $number {
            fn measure(&self) -> Measure {
                Measure::Number(u64::try_from(*self).unwrap_or(u64::MAX))
            }
        })*
    };
}
numbers!(u8, u16, u32, usize);

#[cfg(test)]
mod tests {
    use duly_options::Kind;

    use super::*;
    use crate::core::op::FREE_INTERRUPTIONS_MAX;
    use crate::event::{BUCKETS_MAX, SPREAD_MAX};

    #[test]
    fn bounds_of_the_table_are_those_of_what_depends_on_them() {
        let kind = |name| queue_option(name).map(|option| option.kind);
        let number = |most: u64, least| Some(Kind::Number(least, most));
        assert_eq!(kind("buckets"), number(BUCKETS_MAX.into(), 1));
        let free = number(FREE_INTERRUPTIONS_MAX.into(), 0);
        assert_eq!(kind("free_interruptions"), free);
        assert_eq!(kind("spread"), Some(Kind::Span(Duration::ZERO, SPREAD_MAX)));
    }
}
