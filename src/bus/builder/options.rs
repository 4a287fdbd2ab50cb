//! The options of a bus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schedules")]
use crate::bus::builder::schedule_setup::ScheduleSetup;
use crate::bus::handle::Bus;
use crate::bus::journal::JournalHandle;
use crate::codec::KeyRing;
use crate::config::Settings;
use crate::core::options::NodeOptions;
use crate::flow::{Entry, QueueChoices};
use crate::handler::{Annotated, Annotation, BlockingHandler, Handler, States};
use crate::journal::{Journal, RecordChoices, RecorderOptions};
use crate::metrics::MetricsChoices;
#[cfg(feature = "schedules")]
use crate::schedule::ScheduleOptions;
use crate::store::{Durability, Store};
use crate::time::Clock;

/// Builds a bus; nothing starts before [`start`](Self::start).
///
/// Settings come, weakest first, from `queue_defaults` in `duly.toml`, the annotation, the queue's
/// section in `duly.toml`, the environment (`DULY__STORE__URL`), and this builder.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct BusBuilder {
    pub(super) store: Option<Arc<dyn Store>>,
    /// Whether the given store is shared with others.
    pub(super) is_lent: bool,
    pub(super) store_url: Option<String>,
    pub(super) settings: Option<Settings>,
    pub(super) states: States,
    pub(super) handlers: Vec<Entry>,
    pub(super) linked: bool,
    pub(super) dynamic_queues: bool,
    pub(super) publish_only: bool,
    pub(super) queues: BTreeMap<String, QueueChoices>,
    pub(super) node: Option<NodeOptions>,
    pub(super) read_ahead: Option<Duration>,
    pub(super) payload_bytes_max: Option<usize>,
    pub(super) durability: Option<Durability>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    pub(super) keys: Option<KeyRing>,
    pub(super) journal: Option<JournalHandle>,
    pub(super) records: RecordChoices,
    pub(super) recorder: Option<RecorderOptions>,
    pub(super) metrics: MetricsChoices,
    pub(super) virtual_time: bool,
    #[cfg(feature = "schedules")]
    pub(super) schedules: ScheduleSetup,
}

impl BusBuilder {
    pub(crate) fn new() -> Self {
        Self {
            linked: true,
            ..Self::default()
        }
    }

    /// Sets where events are kept: `memory:` loses them with the process, `sqlite:path` (or
    /// `sqlite://path`) is the embedded store in that file, `redis://host` and similar URLs are a
    /// store that many processes share (see [`RedisStore`](crate::store::RedisStore)). Default:
    /// `sqlite:duly.db`.
    pub fn store_url(mut self, url: impl Into<String>) -> Self {
        self.store_url = Some(url.into());
        self
    }

    /// Sets a store; it replaces [`store_url`](Self::store_url).
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self.is_lent = false;
        self
    }

    /// Sets a store that is shared, for example by several buses. The bus does not close it: it is
    /// closed by [`Store::close`], or when it is dropped.
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self.is_lent = true;
        self
    }

    /// Replaces the settings of the file and the environment.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Adds a value that handlers share, for example a database client. A second value of its type
    /// replaces it.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Registers a handler by hand: one that says `register = false`, or that has fields.
    pub fn register<H>(mut self, handler: H) -> Self
    where
        H: Handler + Annotated<Value = <H as Handler>::Payload>,
    {
        let entry = Entry::suspending(handler, H::ANNOTATION, H::UPGRADE);
        self.handlers.push(entry);
        self
    }

    /// Registers a blocking handler by hand.
    pub fn register_blocking<H>(mut self, handler: H) -> Self
    where
        H: BlockingHandler + Annotated<Value = <H as BlockingHandler>::Payload>,
    {
        let entry = Entry::blocking(handler, H::ANNOTATION, H::UPGRADE);
        self.handlers.push(entry);
        self
    }

    /// Registers a handler without an annotation, for the queue that `annotation` names.
    pub fn register_as<H: Handler>(mut self, annotation: Annotation, handler: H) -> Self {
        self.handlers
            .push(Entry::suspending(handler, annotation, None));
        self
    }

    /// Sets options of one queue, stronger than its annotation, the file and the environment.
    ///
    /// A second call for the same queue replaces the first.
    pub fn queue(mut self, name: impl Into<String>, choices: QueueChoices) -> Self {
        self.queues.insert(name.into(), choices);
        self
    }

    /// Sets how long before its due time an event may be prefetched, so that it starts on time.
    /// Zero disables prefetch; at most 10 s. Default: 100 ms. Of a crowd, many events that are due
    /// at about the same time, the first may be prefetched up to 1 s before, since it takes longer
    /// to fetch.
    pub fn read_ahead(mut self, ahead: Duration) -> Self {
        self.read_ahead = Some(ahead);
        self
    }

    /// Sets the largest encoded payload that a push accepts, in bytes. Default: 1 MiB.
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = Some(bytes);
        self
    }

    /// Sets the durability that every push waits for, unless it sets its own
    /// ([`durable`](crate::EventBuilder::durable)). Default: the store's own.
    ///
    /// If the store can never reach it, the bus does not start, or, where only the server knows,
    /// its pushes are refused; both as [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets the keys for encrypting and decrypting payloads; they replace those of the settings.
    /// All clones of the ring share their keys, which can be added, chosen and removed while the
    /// bus runs. Default: those of the settings, or none.
    pub fn keys(mut self, keys: KeyRing) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Sets the intervals and limits of this node. Default: [`NodeOptions::default`].
    pub fn node_options(mut self, node: NodeOptions) -> Self {
        self.node = Some(node);
        self
    }

    /// Sets metrics options, stronger than the file and the environment.
    pub fn metrics(mut self, choices: MetricsChoices) -> Self {
        self.metrics = self.metrics.with(choices);
        self
    }

    /// Sets the clock. Default: the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Uses the runtime's time, which tests pause: the mover is a task, not a thread.
    ///
    /// Unset options default to what a test needs: nothing is read from the environment, nothing is
    /// kept, nothing lingers, and no fallback poll of an idle bucket hides a lost wake-up.
    #[cfg(feature = "testing")]
    pub(crate) fn virtual_time(mut self, clock: Arc<dyn Clock>) -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        self.virtual_time = true;
        self.settings.get_or_insert_default();
        self.store_url.get_or_insert_with(|| "memory:".to_owned());
        self.node.get_or_insert_with(|| NodeOptions {
            settle_linger: Duration::ZERO,
            sleep_max: DAY,
            fallback_scan_every: DAY,
            ..NodeOptions::default()
        });
        self.recorder.get_or_insert_with(|| RecorderOptions {
            linger: Duration::ZERO,
            fallback_poll_every: Some(DAY),
            ..RecorderOptions::default()
        });
        self.clock(clock)
    }

    /// Runs only the handlers registered by hand, not those that the linker found.
    pub fn only_registered(mut self) -> Self {
        self.linked = false;
        self
    }

    /// Runs no handlers in this process: it only pushes.
    pub fn publish_only(mut self) -> Self {
        self.publish_only = true;
        self
    }

    /// Takes any name of a queue for what is meant, where names are made while the program runs: of
    /// tenants, of clients. By default a name that nobody knows and that is nearly that of a known
    /// queue is taken for a mistake: some calls fail with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound),
    /// and name the queue that was probably meant.
    pub fn dynamic_queues(mut self) -> Self {
        self.dynamic_queues = true;
        self
    }

    /// Sets where the records of a store on Redis or in memory are kept: `off`, `sqlite:` and the path of
    /// a file, or `postgres://host/database`. Default: `off`, the store keeps the last records
    /// itself. A store at `sqlite:path` keeps all of them in its own file and takes no other journal.
    pub fn journal_url(mut self, url: impl Into<String>) -> Self {
        self.records.journal = Some(url.into());
        self
    }

    /// Sets a journal; it replaces [`journal_url`](Self::journal_url).
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Some(JournalHandle {
            journal: Arc::new(journal),
            is_shared: false,
        });
        self
    }

    /// Sets a journal that is shared, for example by several buses. The bus does not close it.
    pub fn shared_journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = Some(JournalHandle {
            journal,
            is_shared: true,
        });
        self
    }

    /// Sets record options, stronger than the file and the environment.
    pub fn records(mut self, choices: RecordChoices) -> Self {
        self.records = self.records.with(choices);
        self
    }

    /// Sets how records are carried to the journal. Default: [`RecorderOptions::default`].
    pub fn recorder_options(mut self, options: RecorderOptions) -> Self {
        self.recorder = Some(options);
        self
    }
}

impl Bus {
    /// Returns a builder of a bus.
    pub fn builder() -> BusBuilder {
        BusBuilder::new()
    }
}

/// The schedules that a program declares, and whether it carries schedules out.
#[cfg(feature = "schedules")]
impl BusBuilder {
    /// Declares a schedule of this program: it is made when the bus starts, or changed, if it was
    /// declared otherwise before. A second call with the same name replaces the first.
    ///
    /// One that a later build no longer declares goes on until it is
    /// [removed](crate::admin::Schedules::remove). While builds with different declarations run,
    /// that of the later one holds, as [`deploy`](Self::deploy) says.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// use duly::prelude::*;
    /// use duly::event::Occurrence;
    /// use duly::schedule::ScheduleOptions;
    ///
    /// #[delay_event(queue = "report", register = false)]
    /// async fn report(event: Event<Occurrence>) -> Result<(), Failure> {
    ///     println!("a report of the time until {}", event.payload.instant);
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let workdays = ScheduleOptions::new("report", "0 9 * * MON-FRI Europe/Berlin")?;
    /// let bus = Bus::builder()
    ///     # .only_registered()
    ///     # .store_url("memory:")
    ///     .register(report {})
    ///     .schedule("daily-report", workdays)
    ///     .start()
    ///     .await?;
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn schedule(mut self, name: impl Into<String>, options: ScheduleOptions) -> Self {
        self.schedules.declared.insert(name.into(), options);
        self
    }

    /// Sets the number of the deploy, such as that of the build: of two programs that declare one
    /// schedule differently, that of the higher number holds.
    ///
    /// Default: zero. Of programs with the same number that holds which was declared for the first
    /// time later; and an earlier one, as after a deploy that was taken back, when no program has
    /// declared the later one for ten minutes.
    pub fn deploy(mut self, number: u64) -> Self {
        self.schedules.deploy = Some(number);
        self
    }

    /// Sets the most schedules of a namespace, which is what their names have before the first dot.
    /// Making another one fails with [`ErrorKind::Full`](crate::ErrorKind::Full). Default: 100,000,
    /// which take about 100 MB of the store.
    ///
    /// They are counted before one is made, so calls at the same moment may exceed it by one each.
    pub fn schedules_max(mut self, most: usize) -> Self {
        self.schedules.max = Some(most);
        self
    }

    /// Sets whether this process carries schedules out: pushes their occurrences, whoever made them.
    /// Default: if it has handlers. Any one process of a fleet is enough, and several share the work.
    ///
    /// What it declares is another matter: a process with handlers declares the schedules of their
    /// annotations and of its settings even if it carries none out; one without handlers that does
    /// not either declares those of its builder alone.
    pub fn run_schedules(mut self, runs: bool) -> Self {
        self.schedules.runs = Some(runs);
        self
    }
}
