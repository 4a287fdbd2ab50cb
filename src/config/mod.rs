//! Settings: a file and the environment.
//!
//! A handler's annotation is compiled in; settings are what differs between development and
//! production. The sources of a key are, weakest first: the file, the environment, and the
//! [builder](crate::BusBuilder). A bus without settings calls [`Settings::load`].
//!
//! # Keys
//!
//! | key | value | default |
//! |---|---|---|
//! | `payload_bytes_max` | bytes, a whole number | 1,048,576 |
//! | `read_ahead` | a duration, at most 10 s | `100ms` |
//! | `store.url` | `sqlite:` and a path, `redis://` and a host, or `memory:` | `sqlite:duly.db` |
//! | `store.durability` | `memory`, `os_cache`, `disk`, or `replicated:` and how many others: the durability that a push waits for | the store's own |
//! | `records.journal` | `off`, `sqlite:` and a path, or `postgres://host/database` | `off`: a store at `sqlite:path` keeps records in its own file and takes no journal, any other one only the last |
//! | `records.keep` | how long the journal keeps a record, a duration of at least 1 s; in PostgreSQL the greatest setting of all its processes holds, also of the two below | `30d` |
//! | `records.keep_max` | how many records it keeps, at least 1 | 10,000,000 |
//! | `records.keep_minutes` | how long it keeps per-minute statistics, at least 1 s | `400d` |
//! | `records.prune_at_once` | whether all that is older goes at once, and not a tenth of that time in an hour | `false` |
//! | `records.outbox_max` | how many records wait in an outbox while the journal is away, at least 1; on Redis no more than an equal share of 5,000,000 for each bucket | 100,000 where processes share the store, else as many as the store keeps |
//! | `records.when_full` | what happens when more wait: `drop_oldest`, or `refuse_pushes` | `drop_oldest` |
//! | `encryption.keys` | the keys of [encrypted payloads](crate::_docs::payloads): a table of ids and the base64 of 32 bytes, or a text such as `2026-10=.. 2026-11=..` | none |
//! | `encryption.keys_file` | a file of more keys, such an id and key a line | none |
//! | `encryption.use` | the id of the key under which new payloads are encrypted | none |
//! | `metrics.queues_max` | how many queues have their own label in metrics, 0 to 10,000 | 100 |
//! | `metrics.listen` | an address and a port, where Prometheus reads the metrics of this process | none |
//! | `metrics.depths_every` | how often the events of each queue are counted, a duration from 100 ms to 1 h, or 0 s for never | `10s` |
//! | `schedules.<name>.queue` | the queue of the occurrences of a [schedule](crate::schedule), which this program declares | required |
//! | `schedules.<name>.when` | when it recurs: `0 9 * * MON-FRI Europe/Berlin`, `every 15m` | required |
//! | `schedules.<name>.payload` | the payload of its occurrences, as a text of JSON | their occurrence |
//! | `schedules.<name>.missed` | what becomes of missed occurrences: `skip`, `once` or `all(24)` | `once` |
//! | `schedules.<name>.overlap` | what becomes of one that would overlap the one before: `allow`, `skip` or `wait` | `allow` |
//! | `schedules.<name>.jitter` | the window over which occurrences are spread, a duration, at most a day | `0s` |
//! | `schedules.<name>.exclude` | names of calendars whose days are left out, with spaces between them | none |
//! | `schedules.<name>.only` | names of calendars on whose days alone it runs | every day |
//! | `calendars.<name>` | a set of dates for schedules: a text such as `2026-12-25 2026-12-26` | |
//! | `deploy` | the number of the deploy; of programs that declare a schedule differently, that of the highest holds | 0 |
//! | `queue_defaults.<key>` | for every queue without its own value, but those of duly itself | |
//! | `queues.<name>.<key>` | for the queue of that name | |
//!
//! and for `queue_defaults` and each queue the options of [`QueueChoices`], whose page has the
//! values and the defaults of all of them.
//!
//! A duration is one or more parts, each a number and one of the units `d`, `h`, `m`, `s`, `ms`,
//! `us` and `ns`, larger units first and each unit once, as in `1m30s`; the last part may have a
//! fraction, as in `1.5s`. A number without a unit is refused. `queue_defaults` take the place of the
//! defaults in that table, so an annotation is stronger than they are; `queues.<name>` is stronger
//! than the annotation. The version of a payload belongs to its type and can only be set there.
//!
//! Everything else is rejected: an unknown key, a value of another type, a malformed duration. The
//! error names the key, and the one that was probably meant. Bounds are checked when the bus starts,
//! together with those of the annotations.
//!
//! # The file
//!
//! `duly.toml` in the working directory, or the file in `DULY_CONFIG`. It is optional, except in
//! `DULY_CONFIG`.
//!
//! ```toml
#![doc = include_str!("../../duly.example.toml")]
//! ```
//!
//! # The environment
//!
//! A variable is `DULY__` and the key, in any case, with `__` for each dot:
//!
//! ```sh
//! export DULY__STORE__URL=sqlite:/var/lib/duly/events.db
//! export DULY__READ_AHEAD=50ms
//! export DULY__QUEUE_DEFAULTS__TIMEOUT=1m
//! export DULY__QUEUES__ORDER_CLOSE__WORKERS=32    # the queue `order-close`
//! ```
//!
//! A shell allows no `-` and no `.` in the name of a variable, so **a queue's name is compared
//! without case, and `_` stands for `-`, `.` and itself**:
//!
//! 1. The exact name of a known queue means that queue.
//! 2. A spelling of exactly one known queue means that queue. Known are the queues that have a
//!    section in the file, even an empty one, and those of annotated handlers in this program.
//! 3. A spelling of several known queues is rejected, and the error names them.
//! 4. Any other spelling is the name of a new queue if it contains no `_`: in lower case if it is
//!    all upper case, otherwise as it is. With a `_` it is ambiguous and rejected.
//!
//! The name of a calendar is found in the same way; known are those of the file, and those that
//! schedules of the file and annotations name. A variable changes a schedule that has a section in the
//! file, even an empty one, and makes none.
//!
//! If the variables are not set by a shell (but by `env`, a container, a unit file),
//! `DULY__QUEUES__order-close__WORKERS` may be written as it is.

mod encryption;
mod environment;
mod file;
mod key;
mod keys;
mod load;
mod raw_value;
mod schedules;
mod settings;
mod similar_names;

pub use self::encryption::EncryptionChoices;
pub use self::keys::known_keys;
pub use self::schedules::ScheduleChoices;
pub use self::settings::Settings;
pub(crate) use self::similar_names::{queue_meant, spelled_otherwise};
pub use crate::core::options::NodeOptions;
pub use crate::flow::{QueueChoices, QueueOptions};
