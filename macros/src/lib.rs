//! Implementation detail of the `duly` crate, which re-exports and shows what is here.
//!
//! `attr` reads what the annotation says, `structure` and `function` write what it means for the
//! two kinds of items it sits on, and `expand` brings the two together. Whatever is wrong is
//! reported at once, each mistake at its place.

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

/// Makes a struct or a function the handler of a queue.
///
/// # What may be said
///
/// | key | value | meaning |
/// |---|---|---|
/// | `queue = "order-close"` | letters, digits, `.`, `_`, `-`; 1 to 128, the first a letter or a digit | the queue that is served; the only key that must be there |
/// | `buckets = 8` | 1 to 1024 | how many buckets the queue is spread over |
/// | `workers = 16` | 1 to 65536 | how many handlers may run at once on a node |
/// | `timeout = "30s"` | above zero, at most 7 days | how long one attempt may take |
/// | `attempts = 16` | 1 to 1000 | how often an event is tried before it is dead |
/// | `backoff = "exp(1s..10m, jitter 20%)"` | `fixed(5s)`, `linear(1s..1m)`, `exp(1s..10m)` | how long a failed attempt waits for the next |
/// | `late = "expire(5m)"` | `deliver`, `expire(5m)`, `bury(5m)` | what becomes of an event that is late; said by who pushes |
/// | `spread = "10s"` | a duration, at most a day | over which window events are spread; said by who pushes |
/// | `ring = 1024` | a power of two, 64 to 65536 | slots in the queue's ring |
/// | `linger = "20us"` | a duration | how long a worker without work looks for more |
/// | `isolation = "dedicated"` | `shared`, `dedicated` | whether the queue has a runtime of its own; `shared` unless said |
/// | `version = 1` | 0 to 4294967295 | the version of the payload |
/// | `keep_payload = true` | `true`, `false` | whether records keep the payload as it is stored |
/// | `codec = "json"` | `json`, `msgpack`, `raw` | how payloads that are pushed become bytes; `msgpack` needs the feature of that name |
/// | `encrypt = true` | `true`, `false` | whether payloads that are pushed are encrypted |
/// | `upgrade = from_older` | the path of a function | makes a payload of one that an older `version` pushed; needs `version` |
/// | `blocking` | | the handler blocks its thread, and implements `BlockingHandler` |
/// | `state(Db, Mailer)` | types | states without which the bus does not start |
/// | `register = false` | `true`, `false` | whether the bus finds the handler by itself; `true` unless said |
/// | `crate = my::duly` | a path | where the crate `duly` is, if not at `::duly` |
///
/// What is left out is decided by settings files, the environment and the builder.
///
/// The bus finds the handler by itself if the linker keeps the crate that it is in: one that is
/// named in `Cargo.toml` and nowhere in the code is left out, so say `use my_handlers as _;`.
///
/// # On a struct
///
/// The struct stays as it is and implements `Handler`, or `BlockingHandler` if `blocking` is said.
/// A struct with fields is made by `Default`, unless `register = false` leaves its making to the
/// program. A generic struct cannot be found by itself and needs `register = false` too.
///
/// # On a function
///
/// An `async fn`, or with `blocking` a plain `fn`. Its first argument is `Event<T>`; `&Context` and
/// any number of `State<S>` may follow, in any order. It returns `Result<(), E>` where `E` converts
/// into `Failure`.
///
/// The function stays as it is and can be called, by a test for example. Beside it there is a type
/// of the same name and visibility, which is the handler: `bus.queue::<close>()` is its queue, and
/// `close {}` its value, for `register(close {})`.
#[proc_macro_attribute]
pub fn delay_event(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), &item.into()).into()
}
