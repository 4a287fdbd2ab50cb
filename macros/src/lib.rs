//! The procedural macro of the `duly` crate, which re-exports and documents it.
//!
//! `attr` parses the annotation, `structure` and `function` generate code for the two kinds of
//! items, and `expand` combines them. All errors are reported at once, each at its location.

mod attr;
mod backoff;
mod duration;
mod errors;
mod expand;
mod function;
mod late;
mod signature;
mod structure;
mod value;

use proc_macro::TokenStream;

/// Registers a struct or a function as the handler of a queue.
///
/// # Keys
///
/// | key | value | meaning |
/// |---|---|---|
/// | `queue = "order-close"` | letters, digits, `.`, `_`, `-`; 1 to 512, the first not a `.` | the queue; the only required key |
/// | `buckets = 8` | 1 to 1024 | the number of buckets of the queue |
/// | `workers = 16` | 1 to 65536 | the number of handlers that run at once on a node |
/// | `timeout = "30s"` | above zero, at most 7 days | the execution timeout of an attempt |
/// | `attempts = 16` | 1 to 1000 | the maximum number of attempts |
/// | `free_interruptions = 10` | 0 to 15 | the interruptions by a stop in a row that use up no attempt |
/// | `backoff = "exp(1s..10m, jitter 20%)"` | `fixed(5s)`, `linear(1s..1m)`, `exp(1s..10m)` | the retry policy |
/// | `late = "expire(5m)"` | `deliver`, `expire(5m)`, `bury(5m)` | the lateness policy; used by the pusher |
/// | `spread = "10s"` | a duration, at most a day | the jitter window; used by the pusher |
/// | `ring = 1024` | a power of two, 64 to 65536 | the number of slots in the queue's ring |
/// | `linger = "20us"` | a duration | how long an idle worker spins before it sleeps |
/// | `isolation = "dedicated"` | `shared`, `dedicated` | whether the queue has a dedicated runtime; default `shared` |
/// | `version = 1` | 0 to 4294967295 | the version of the payload |
/// | `keep_payload = true` | `true`, `false` | whether records include the payload as stored |
/// | `codec = "json"` | `json`, `msgpack`, `raw` | the codec of pushed payloads; `msgpack` needs the feature of that name |
/// | `encrypt = true` | `true`, `false` | whether pushed payloads are encrypted |
/// | `upgrade = from_older` | the path of a function | upgrades a payload of an older `version`; needs `version` |
/// | `blocking` | | the handler blocks its thread, and implements `BlockingHandler` |
/// | `state(Db, Mailer)` | types | states without which the bus does not start |
/// | `register = false` | `true`, `false` | whether the bus finds the handler automatically; default `true` |
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
/// `close {}` its value, for `register(close {})`.
#[proc_macro_attribute]
pub fn delay_event(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), &item.into()).into()
}
