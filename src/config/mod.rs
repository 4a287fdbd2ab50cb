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
mod raw_value;
mod schedules;
mod similar_names;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::encryption::EncryptionChoices;
use self::environment::KnownNames;
pub use self::keys::known_keys;
pub use self::schedules::ScheduleChoices;
pub(crate) use self::similar_names::{queue_meant, spelled_otherwise};
pub use crate::core::options::NodeOptions;
use crate::error::{Error, Result, redact_url};
use crate::event::QueueName;
use crate::flow::annotations;
pub use crate::flow::{QueueChoices, QueueOptions};
use crate::journal::RecordChoices;
use crate::metrics::MetricsChoices;
use crate::store::Durability;

/// The settings of the file and the environment; `None` is unset.
///
/// # Examples
///
/// ```
/// use duly::config::Settings;
///
/// let file = "
///     [queues.order-close]
///     workers = 4
///     timeout = '5s'
/// ";
/// let settings = Settings::from_toml(file)?
///     .with_environment([("DULY__QUEUES__ORDER_CLOSE__WORKERS", "32")])?;
///
/// let queue = &settings.queues["order-close"];
/// assert_eq!(queue.workers, Some(32));
/// assert_eq!(queue.timeout, Some(std::time::Duration::from_secs(5)));
/// assert_eq!(queue.attempts, None);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// `store.url`: `memory:`, `sqlite:` and the path of a file, or a Redis URL. Checked when the
    /// bus starts. Default: `sqlite:duly.db`.
    pub store_url: Option<String>,
    /// `store.durability`: the durability that every push waits for. Default: the store's own.
    pub durability: Option<Durability>,
    /// `records`: where records are kept, how many, and for how long.
    pub records: RecordChoices,
    /// `encryption`: the keys of encrypted payloads.
    pub encryption: EncryptionChoices,
    /// `metrics`: the metrics of this process, and their level of detail.
    pub metrics: MetricsChoices,
    /// `queue_defaults`: for every queue without its own value; weaker than an annotation.
    pub queue_defaults: QueueChoices,
    /// `queues.<name>`: for one queue; stronger than its annotation.
    pub queues: BTreeMap<QueueName, QueueChoices>,
    /// `schedules.<name>`: schedules that this program declares.
    pub schedules: BTreeMap<QueueName, ScheduleChoices>,
    /// `calendars.<name>`: sets of dates for schedules, each a text such as `2026-12-25 2026-12-26`.
    pub calendars: BTreeMap<String, String>,
    /// `deploy`: the number of the deploy, which decides between declarations of one schedule.
    pub deploy: Option<u64>,
    /// `payload_bytes_max`: the largest payload that a push accepts, in bytes. Default: 1 MiB.
    pub payload_bytes_max: Option<usize>,
    /// `read_ahead`: how long before its due time an event may be prefetched. Default: 100 ms.
    pub read_ahead: Option<Duration>,
}

impl Settings {
    /// Reads the settings file, if there is one, and then the environment of this process.
    ///
    /// See [above](self#the-file) for where the file is found.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): two settings files, a missing file in
    /// `DULY_CONFIG`, and the errors of [`from_file`](Self::from_file) and
    /// [`with_environment`](Self::with_environment).
    pub fn load() -> Result<Self> {
        Self::load_for([])
    }

    /// Like [`load`](Self::load), for a program that has these queues besides those of annotated
    /// handlers, so that variables may [spell](self#the-environment) them too.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_for(queues: impl IntoIterator<Item = QueueName>) -> Result<Self> {
        Self::layered(Path::new(""), env::vars_os(), queues)
    }

    /// Like [`load`](Self::load), with the given directory and variables.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::config::Settings;
    ///
    /// let empty = std::env::temp_dir().join("a directory without settings");
    /// let settings = Settings::load_from(empty, [("DULY__STORE__URL", "memory:")])?;
    /// assert_eq!(settings.store_url.as_deref(), Some("memory:"));
    /// # Ok::<(), duly::Error>(())
    /// ```
    pub fn load_from<N: Into<OsString>, V: Into<OsString>>(
        directory: impl AsRef<Path>,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self::layered(directory.as_ref(), variables, [])
    }

    /// Reads the file and applies the variables over it.
    fn layered(
        directory: &Path,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        queues: impl IntoIterator<Item = QueueName>,
    ) -> Result<Self> {
        let variables: Vec<_> = variables.into_iter().collect();
        let named = variables.iter().find(|(name, _)| name == environment::FILE);
        let settings = match named {
            Some((_, path)) if path.is_empty() => {
                return Err(Error::invalid(
                    "DULY_CONFIG is empty; set it to a settings file or unset it",
                ));
            }
            // An absolute path replaces the directory.
            Some((_, path)) => Self::from_file(directory.join(PathBuf::from(path)))?,
            None => match file::find(directory)? {
                Some(path) => Self::from_file(path)?,
                None => Self::default(),
            },
        };
        settings.overlaid(variables, queues)
    }

    /// Reads a TOML file, whose name must end in `.toml`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) and the file's path: it is missing,
    /// unreadable, larger than 1 MiB, of another extension, or rejected by
    /// [`from_toml`](Self::from_toml).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        file::parse(&file::read(path)?, &path.display().to_string())
    }

    /// Parses settings from the text of a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): invalid TOML, with the line; or unknown
    /// keys and invalid values, up to ten of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::config::Settings;
    ///
    /// let error = Settings::from_toml("queue_defaults.worker = 8").unwrap_err();
    /// assert!(error.to_string().starts_with(
    ///     "settings: unknown key queue_defaults.worker, did you mean queue_defaults.workers?"
    /// ));
    /// ```
    pub fn from_toml(text: &str) -> Result<Self> {
        file::parse(text, "settings")
    }

    /// Applies `variables` over these settings; names that are no setting's are ignored.
    ///
    /// See [above](self#the-environment) for how a name becomes a key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) and the variable's name: its key is
    /// unknown, its value is invalid, its queue is ambiguous, or two variables mean the same key.
    pub fn with_environment<N: Into<OsString>, V: Into<OsString>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.overlaid(variables, [])
    }

    /// Applies the variables over these settings; they may spell any of `queues` as well.
    fn overlaid(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        queues: impl IntoIterator<Item = QueueName>,
    ) -> Result<Self> {
        let queues = self.queues.keys().cloned().chain(queues);
        let mut known = KnownNames {
            queues: queues.map(|queue| queue.to_string()).collect(),
            calendars: self.calendars.keys().cloned().collect(),
            schedules: self.schedules.keys().cloned().collect(),
        };
        let mut names = |names: Option<&str>| {
            let names = names.unwrap_or_default().split_whitespace();
            known.calendars.extend(names.map(str::to_owned));
        };
        for schedule in self.schedules.values() {
            names(schedule.exclude.as_deref());
            names(schedule.only.as_deref());
        }
        for annotation in annotations() {
            known.queues.insert(annotation.queue.to_owned());
            if let Some(schedule) = annotation.schedule {
                names(schedule.exclude);
                names(schedule.only);
            }
        }
        environment::apply(&mut self, variables, &known)?;
        Ok(self)
    }
}

impl fmt::Debug for Settings {
    /// Omits what is before the `@` of a URL, which may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("store_url", &self.store_url.as_deref().map(redact_url))
            .field("durability", &self.durability)
            .field("records", &self.records)
            .field("encryption", &self.encryption)
            .field("metrics", &self.metrics)
            .field("queue_defaults", &self.queue_defaults)
            .field("queues", &self.queues)
            .field("payload_bytes_max", &self.payload_bytes_max)
            .field("read_ahead", &self.read_ahead)
            .finish()
    }
}
