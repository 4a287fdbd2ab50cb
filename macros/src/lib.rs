//! The procedural macro of the `duly` crate, which re-exports and documents it.
//!
//! `attr` parses the annotation, `structure` and `function` generate code for the two kinds of
//! items, and `expand` combines them. All errors are reported at once, each at its location.

mod attr;
mod errors;
mod expand;
mod function;
mod generated;
mod names;
mod signature;
mod structure;
mod value;

use proc_macro::TokenStream;

macro_rules! documented {
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
        /// Registers a struct or a function as the handler of a queue.
        ///
        /// # Keys
        ///
        /// | key | value | meaning |
        /// |---|---|---|
        /// | `queue = "order-close"` | letters, digits, `.`, `_`, `-`; 1 to 512, the first not a `.` | the queue; the only required key |
        $(#[doc = concat!("| `", $example, "` | ", $values, " |", $summary, " |")])*
        $(#[doc = concat!("| `", $maybe_example, "` | ", $maybe_values, " |", $maybe_summary, " |")])*
        /// | `upgrade = from_older` | the path of a function | upgrades a payload of an older `version`; needs `version` |
        /// | `blocking` | | the handler blocks its thread, and implements `BlockingHandler` |
        /// | `state(Db, Mailer)` | types | states without which the bus does not start |
        /// | `register = false` | `true`, `false` | whether the bus finds the handler automatically; default `true` |
        /// | `schedule = "0 9 * * MON-FRI Europe/Berlin"` | a cron expression or an interval | when an event of the queue recurs: its schedule, which has the name of the queue |
        /// | `every = "15m"` | an interval, perhaps with its phase: `1h phase 5m` | the same as `schedule = "every 15m"` |
        /// | `payload = "{}"` | JSON | the payload of the schedule's events; default: each has its `Occurrence` |
        /// | `missed = "once"` | `skip`, `once`, `all(24)` | what becomes of occurrences that were missed; default `once` |
        /// | `overlap = "skip"` | `allow`, `skip`, `wait` | what becomes of one while the one before has not ended; default `allow` |
        /// | `jitter = "30s"` | a duration, at most a day | the window over which occurrences are spread |
        /// | `exclude = "holidays"` | names of calendars of the settings | days on which the schedule rests |
        /// | `only = "trading-days"` | names of calendars of the settings | the only days on which it runs |
        /// | `crate = my::duly` | a path | the path of the crate `duly`, if not `::duly` |
        ///
        /// Keys that are left out come from settings files, the environment and the builder.
        ///
        /// The bus only finds handlers in crates that the linker keeps: a crate that is in `Cargo.toml` but
        /// unused in the code is dropped, so add `use my_handlers as _;`.
        ///
        /// # On a struct
        ///
        /// The struct is unchanged and must implement `Handler`, or `BlockingHandler` with `blocking`. A
        /// struct with fields is created by `Default`, unless `register = false` leaves that to the
        /// program. A generic struct cannot be found automatically and needs `register = false` too.
        ///
        /// # On a function
        ///
        /// An `async fn`, or with `blocking` a plain `fn`. Its first argument is `Event<T>`; `&Context` and
        /// any number of `State<S>` may follow, in any order. It returns `Result<(), E>` where `E` converts
        /// into `Failure`.
        ///
        /// The function is unchanged and can be called, for example by a test. A type of the same name and
        /// visibility is the handler: `bus.queue::<close>()` is its queue, and `close {}` its value, for
        /// `register(close {})`.
        #[proc_macro_attribute]
        pub fn delay_event(args: TokenStream, item: TokenStream) -> TokenStream {
            expand::expand(args.into(), &item.into()).into()
        }
    };
}
duly_options::queue_options!(documented);
