//! All settings.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::config::encryption::EncryptionChoices;
use crate::config::schedules::ScheduleChoices;
use crate::error::redact_url;
use crate::event::QueueName;
use crate::flow::QueueChoices;
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
