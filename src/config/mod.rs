//! Settings: a file and the environment.
//!
//! What a handler's annotation says is compiled in; what must differ between a desk and a
//! production machine is said here. For one and the same key the sources are, weakest first: the
//! file, the environment, and the [builder](crate::BusBuilder). A bus that is given no settings loads these
//! itself with [`Settings::load`].
//!
//! # Keys
//!
//! | key | what stands there | default |
//! |---|---|---|
//! | `payload_bytes_max` | bytes, a whole number | 1,048,576 |
//! | `read_ahead` | a duration, at most 10 s | `100ms` |
//! | `store.url` | `sqlite:` and a path, `redis://` and a host, or `memory:` | `sqlite:duly.db` |
//! | `store.durability` | `memory`, `os_cache`, `disk`, or `replicated:` and how many others: what a push survives before it answers | what the store does by itself |
//! | `records.journal` | `off`, `sqlite:` and a path, or `postgres://host/database` | with a store at `sqlite:path` the file `path.records`, else `off` |
//! | `records.keep` | how long the journal keeps a record, a duration of at least 1 s | `30d` |
//! | `records.keep_max` | how many records it keeps, at least 1 | 10,000,000 |
//! | `records.keep_minutes` | how long it keeps counts and lateness by minute, at least 1 s | `400d` |
//! | `records.prune_at_once` | whether all that is older goes at once, and not a tenth of that time in an hour | `false` |
//! | `records.outbox_max` | how many records wait in an outbox while the journal is away, at least 1 | 100,000 where processes share the store, else as many as it keeps anyway |
//! | `records.when_full` | what happens when more wait: `drop_oldest`, or `refuse_pushes` | `drop_oldest` |
//! | `encryption.keys` | the keys of [encrypted payloads](crate::_docs::payloads): a table of ids and the base64 of 32 bytes, or a text such as `2026-10=.. 2026-11=..` | none |
//! | `encryption.keys_file` | a file of more keys, such an id and key a line | none |
//! | `encryption.use` | the id of the key under which new payloads are encrypted | none |
//! | `metrics.queues_max` | how many queues have a label of their own in metrics, 0 to 10,000 | 100 |
//! | `metrics.listen` | an address and a port, where Prometheus reads the metrics of this process | nowhere |
//! | `metrics.census_every` | how often the events of each queue are counted, a duration from 100 ms to 1 h, or 0 s for never | `10s` |
//! | `queue_defaults.<key>` | for every queue that says nothing else | |
//! | `queues.<name>.<key>` | for the queue of that name | |
//!
//! and for `queue_defaults` and each queue:
//!
//! | key | what stands there | default |
//! |---|---|---|
//! | `buckets` | 1 to 1,024 | 8 |
//! | `workers` | 0 to 65,536; 0 pauses | 16 |
//! | `timeout` | a duration, at most 7 days | `30s` |
//! | `attempts` | 1 to 1,000 | 16 |
//! | `backoff` | as in [`RetryPolicy`](crate::RetryPolicy) | `exp(1s..10m, jitter 10%)` |
//! | `late` | as in [`Late`](crate::Late); said by who pushes | `deliver` |
//! | `spread` | a duration of at most a day; said by who pushes | `0s` |
//! | `ring` | slots, a power of two from 64 to 65,536 | 1,024 |
//! | `linger` | a duration | `20us` |
//! | `dedicated` | `true` or `false` | `false` |
//! | `consume` | `true` or `false` | `true` |
//! | `keep_payload` | `true` or `false`: whether records keep the payload | `false` |
//! | `codec` | `json`, `msgpack` or `raw`: how payloads that are pushed become bytes | `json` |
//! | `encrypt` | `true` or `false`: whether payloads that are pushed are encrypted | `false` |
//!
//! A duration is one or more parts, each a number and one of the units `d`, `h`, `m`, `s`, `ms`,
//! `us` and `ns`, larger units first and each unit once, as in `1m30s`; the last part may have a
//! fraction, as in `1.5s`. A number without a unit is refused. `queue_defaults` take the place of the
//! defaults in this table, so an annotation is stronger than they are; `queues.<name>` is stronger
//! than the annotation. The version of a payload is a fact of its type and can only be said there.
//!
//! Everything else is refused: a key that is not in the table, a value of another kind, a text
//! that is no duration. The message names the key, and the one that was probably meant. Whether a
//! value is within its bounds is checked when the bus starts, together with the annotations'.
//!
//! # The file
//!
//! `duly.toml` in the working directory, or the file that `DULY_CONFIG` names. It need not exist,
//! unless it is named.
//!
//! ```toml
#![doc = include_str!("../../duly.example.toml")]
//! ```
//!
//! # The environment
//!
//! A variable is `DULY__` and the key, in capitals or not, with `__` for each dot:
//!
//! ```sh
//! export DULY__STORE__URL=sqlite:/var/lib/duly/events.db
//! export DULY__READ_AHEAD=50ms
//! export DULY__QUEUE_DEFAULTS__TIMEOUT=1m
//! export DULY__QUEUES__ORDER_CLOSE__WORKERS=32    # the queue `order-close`
//! ```
//!
//! A shell allows no `-` and no `.` in the name of a variable, so **a queue's name is compared
//! without regard to case, and `_` stands for `-`, `.` and itself**:
//!
//! 1. A spelling that is a known queue's name letter for letter means that queue.
//! 2. A spelling of exactly one known queue means that queue. Known are the queues that have a
//!    section in the file, though it be empty, and those of annotated handlers in this program.
//! 3. A spelling of several known queues is refused, and they are named.
//! 4. A spelling of no known queue is taken for a name if it holds no `_`: in small letters if it
//!    is all capitals, otherwise as it is. With a `_` it could mean several names and is refused.
//!
//! Where something other than a shell sets the variables (`env`, a container, a unit file),
//! `DULY__QUEUES__order-close__WORKERS` may be written as it is.

mod encryption;
mod environment;
mod file;
mod found;
mod keys;
mod near;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::encryption::EncryptionChoices;
pub use self::keys::known_keys;
pub(crate) use self::near::{queue_meant, spelled_otherwise};
pub use crate::core::options::NodeOptions;
use crate::error::{Error, Result, shown_url};
use crate::event::QueueName;
use crate::flow::annotations;
pub use crate::flow::{QueueChoices, QueueOptions};
use crate::journal::RecordChoices;
use crate::metrics::MetricsChoices;
use crate::store::Durability;

/// What the settings file and the environment say; what is `None` they leave open.
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
    /// `store.url`: `memory:`, `sqlite:` and the path of a file, or one of Redis. Which stores
    /// there are is checked when the bus starts. Default: `sqlite:duly.db`.
    pub store_url: Option<String>,
    /// `store.durability`: what every push has to survive before it answers. Default: what the
    /// store does by itself.
    pub durability: Option<Durability>,
    /// `records`: where records are kept, how many, and for how long.
    pub records: RecordChoices,
    /// `encryption`: the keys of encrypted payloads.
    pub encryption: EncryptionChoices,
    /// `metrics`: what is told of this process, and in how much detail.
    pub metrics: MetricsChoices,
    /// `queue_defaults`: for every queue that says nothing else; weaker than an annotation.
    pub queue_defaults: QueueChoices,
    /// `queues.<name>`: for one queue; stronger than its annotation.
    pub queues: BTreeMap<QueueName, QueueChoices>,
    /// `payload_bytes_max`: the largest payload that a push accepts, in bytes. Default: 1 MiB.
    pub payload_bytes_max: Option<usize>,
    /// `read_ahead`: how long before its due time an event may be leased. Default: 100 ms.
    pub read_ahead: Option<Duration>,
}

impl Settings {
    /// Reads the settings file, if there is one, and then the environment of this process.
    ///
    /// Where the file is looked for is told [above](self#the-file).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): two settings files, a named one that is
    /// missing, and everything that [`from_file`](Self::from_file) and
    /// [`with_environment`](Self::with_environment) refuse.
    pub fn load() -> Result<Self> {
        Self::load_for([])
    }

    /// As [`load`](Self::load), for a program that has these queues besides those of annotated
    /// handlers, so that variables may [spell](self#the-environment) them too.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_for(queues: impl IntoIterator<Item = QueueName>) -> Result<Self> {
        Self::layered(Path::new(""), env::vars_os(), queues)
    }

    /// As [`load`](Self::load), with another directory and other variables than the process's.
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

    /// The file and, over it, the variables.
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
                    "DULY_CONFIG is empty, name a settings file or unset it",
                ));
            }
            // A path that is absolute takes the place of the directory.
            Some((_, path)) => Self::from_file(directory.join(PathBuf::from(path)))?,
            None => match file::find(directory)? {
                Some(path) => Self::from_file(path)?,
                None => Self::default(),
            },
        };
        settings.overlaid(variables, queues)
    }

    /// Reads one file of TOML, whose name ends in `.toml`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) and the file's path: it is missing,
    /// unreadable, larger than 1 MiB, of another extension, or refused by
    /// [`from_toml`](Self::from_toml).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        file::parse(&file::read(path)?, &path.display().to_string())
    }

    /// Reads settings from the text of a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): the text is not TOML, and then
    /// the message has the line; or it holds unknown keys, or values that the keys do not take,
    /// and then the message names up to ten of them.
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

    /// Puts over these settings what `variables` say; names that are no setting's are passed over.
    ///
    /// How a name becomes a key is told [above](self#the-environment).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) and the variable's name: its key is
    /// unknown, its value is not one that the key takes, the queue it names may be another, or two
    /// variables mean the same key.
    pub fn with_environment<N: Into<OsString>, V: Into<OsString>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.overlaid(variables, [])
    }

    /// These settings with the variables over them, which may spell any of `queues` as well.
    fn overlaid(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        queues: impl IntoIterator<Item = QueueName>,
    ) -> Result<Self> {
        let mut known: Vec<QueueName> = self.queues.keys().cloned().chain(queues).collect();
        for annotation in annotations() {
            known.push(QueueName::new(annotation.queue)?);
        }
        known.sort();
        known.dedup();
        environment::apply(&mut self, variables, &known)?;
        Ok(self)
    }
}

impl fmt::Debug for Settings {
    /// Shows everything but what stands before the `@` of a url: a password, one day.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("store_url", &self.store_url.as_deref().map(shown_url))
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
