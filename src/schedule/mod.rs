//! Recurrence: the instants of what happens again and again.
//!
//! ```
//! use duly::schedule::Recurrence;
//!
//! let mornings: Recurrence = "0 9 * * MON-FRI Europe/Berlin".parse()?;
//! let often: Recurrence = "every 15m".parse()?;
//! # Ok::<(), duly::Error>(())
//! ```
//!
//! # Cron expressions
//!
//! Five fields, each a number, a range `1-5`, a list `1,15`, a step `*/10`, or `*` for all of them;
//! then the time zone, UTC where there is none:
//!
//! | field | values | also |
//! |---|---|---|
//! | second, only where there are six fields or more | 0 to 59 | |
//! | minute | 0 to 59 | |
//! | hour | 0 to 23 | |
//! | day of the month | 1 to 31 | `L`, the last; `15W`, the weekday that is nearest to the 15th; `LW` |
//! | month | 1 to 12 or `JAN` to `DEC` | |
//! | day of the week | 0 to 7 or `SUN` to `SAT`; 0 and 7 are Sunday | `FRI#2`, the second Friday; `FRI#L`, the last |
//! | year, only where there are seven fields | | |
//!
//! Where both days are given, either is enough; `+` before the day of the week asks for both. Instead
//! of the fields there may be `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`. This is
//! OCPS 1.0 to 1.3, the Open Cron Pattern Specification, as the crate `croner` reads it.
//!
//! # When clocks change
//!
//! As Vixie cron and Debian's do it. An expression whose minute and hour do not begin with `*` names
//! fixed times. One that the clock skips is at the end of what is skipped, and several of them are
//! one; one that the clock shows twice is at its first time alone. Every other expression, and every
//! interval, follows real time: it has no instant in what is skipped, and keeps on in what comes twice.
//! In Berlin in 2026:
//!
//! | expression | 29 March, 02:00 is 03:00 | 25 October, 03:00 is 02:00 |
//! |---|---|---|
//! | `30 2 * * *` | at 03:00 | at 02:30, the first time |
//! | `*/20 2 * * *` | not at all | six times: 02:00, 02:20, 02:40, twice |
//! | `0 * * * *` | 23 times that day | 25 times that day |
//! | `every 1h` | 23 times that day | 25 times that day |
//!
//! # Time zones
//!
//! Names of the IANA database. One of its versions is compiled in; that of the machine, in
//! `/usr/share/zoneinfo`, is used if it says that it is newer.

mod cron;
mod dates;
mod interval;
mod options;
pub(crate) mod plan;
mod policy;
mod recurrence;
mod zone;

pub use self::dates::{Calendar, DATES_MAX};
pub use self::options::ScheduleOptions;
pub use self::policy::{MAKE_UP_MAX, MissedPolicy, OverlapPolicy};
pub use self::recurrence::{Occurrences, Recurrence};
