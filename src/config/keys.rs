//! The table of keys: the name, the expected value, and the setting of each.

use crate::config::key::Key;
use crate::config::raw_value::RawValue;
use crate::config::schedules::SCHEDULE;
use crate::config::settings::Settings;
use crate::config::similar_names::nearest;
use crate::error::shown;
use crate::event::QueueName;
use crate::flow::QueueChoices;

macro_rules! queue_keys {
    (
        always {$(
            $(#[$doc:meta])*
            $name:ident: $type:ty = $value:expr, $kind:expr,
                $example:literal, $values:literal, $default:literal;
        )*}
        perhaps {$(
            $(#[$maybe_doc:meta])*
            $maybe:ident: $maybe_type:ty, $maybe_kind:expr,
                $maybe_example:literal, $maybe_values:literal, $maybe_default:literal;
        )*}
    ) => {
        /// The keys of `queue_defaults` and of each queue: the options of a queue.
        const QUEUE: &[Key<QueueChoices>] = &[
            $(Key::new(stringify!($name), "", |queue, found| {
                found.read().map(|it| queue.$name = Some(it))
            }),)*
            $(Key::new(stringify!($maybe), "", |queue, found| {
                found.read().map(|it| queue.$maybe = Some(it))
            }),)*
        ];
    };
}
duly_options::queue_options!(queue_keys);

/// The option that only an annotation sets.
const VERSION: &str = "version";

/// The keys of `store`.
const STORE: [Key<Settings>; 2] = [
    Key::new(
        "url",
        "a text such as `memory:`, `sqlite:duly.db` or `redis://127.0.0.1/0`",
        |settings, found| found.url().map(|it| settings.store_url = Some(it)),
    ),
    Key::new(
        "durability",
        "`memory`, `os_cache`, `disk`, or `replicated:` and a whole number of at least 1",
        |settings, found| found.durability().map(|it| settings.durability = Some(it)),
    ),
];

/// The keys of `records`.
const RECORDS: [Key<Settings>; 7] = [
    Key::new(
        "journal",
        "`off`, or a text such as `sqlite:records.db` or `postgres://host/database`",
        |settings, found| found.url().map(|it| settings.records.journal = Some(it)),
    ),
    Key::new("keep", DURATION, |settings, found| {
        found.duration().map(|it| settings.records.keep = Some(it))
    }),
    Key::new("keep_max", COUNT, |settings, found| {
        found
            .number()
            .map(|it| settings.records.keep_max = Some(it))
    }),
    Key::new("keep_minutes", DURATION, |settings, found| {
        found
            .duration()
            .map(|it| settings.records.keep_minutes = Some(it))
    }),
    Key::new("prune_at_once", BOOLEAN, |settings, found| {
        found
            .boolean()
            .map(|it| settings.records.prune_at_once = Some(it))
    }),
    Key::new("outbox_max", COUNT, |settings, found| {
        found
            .number()
            .map(|it| settings.records.outbox_max = Some(it))
    }),
    Key::new(
        "when_full",
        "`drop_oldest` or `refuse_pushes`",
        |settings, found| {
            found
                .when_full()
                .map(|it| settings.records.when_full = Some(it))
        },
    ),
];

/// The keys of `encryption`.
const ENCRYPTION: [Key<Settings>; 3] = [
    Key::new("keys", "a table of ids and keys", |settings, found| {
        found.keys().map(|it| settings.encryption.keys = Some(it))
    }),
    Key::new("keys_file", "the path of a file", |settings, found| {
        found
            .name()
            .map(|it| settings.encryption.keys_file = Some(it.into()))
    }),
    Key::new("use", "the id of a key", |settings, found| {
        found.name().map(|it| settings.encryption.used = Some(it))
    }),
];

/// The keys of `metrics`.
const METRICS: [Key<Settings>; 3] = [
    Key::new(
        "queues_max",
        "a whole number of queues from 0 to 10000",
        |settings, found| {
            found
                .number()
                .map(|it| settings.metrics.queues_max = Some(it))
        },
    ),
    Key::new(
        "listen",
        "an address and a port such as `127.0.0.1:9464` or `[::]:9464`",
        |settings, found| found.address().map(|it| settings.metrics.listen = Some(it)),
    ),
    Key::new("depths_every", DURATION, |settings, found| {
        found
            .duration()
            .map(|it| settings.metrics.depths_every = Some(it))
    }),
];

/// The keys outside of sections.
const TOP: [Key<Settings>; 3] = [
    Key::new("deploy", "a whole number from 0 on", |settings, found| {
        found.number().map(|it| settings.deploy = Some(it))
    }),
    Key::new(
        "payload_bytes_max",
        "a whole number of bytes",
        |settings, found| {
            found
                .number()
                .map(|it| settings.payload_bytes_max = Some(it))
        },
    ),
    Key::new("read_ahead", DURATION, |settings, found| {
        found.duration().map(|it| settings.read_ahead = Some(it))
    }),
];

/// The sections, which hold keys and are no setting themselves.
const SECTIONS: [&str; 8] = [
    "store",
    "records",
    "encryption",
    "metrics",
    "queue_defaults",
    "queues",
    "schedules",
    "calendars",
];

const DURATION: &str = "a duration such as `250ms`, `30s` or `1m30s`";
const COUNT: &str = "a whole number of records";
const BOOLEAN: &str = "`true` or `false`";

/// Returns the path of every key that settings may have, with `<name>` for a queue's name.
///
/// # Examples
///
/// ```
/// let keys: Vec<String> = duly::config::known_keys().collect();
///
/// assert!(keys.contains(&"store.url".to_owned()));
/// assert!(keys.contains(&"queues.<name>.workers".to_owned()));
/// ```
pub fn known_keys() -> impl Iterator<Item = String> {
    let queue = |section: &'static str| {
        let keys = QUEUE.iter().filter(|key| key.name != VERSION);
        keys.map(move |key| format!("{section}.{}", key.name))
    };
    let top = TOP.iter().map(|key| key.name.to_owned());
    let store = STORE.iter().map(|key| format!("store.{}", key.name));
    let records = RECORDS.iter().map(|key| format!("records.{}", key.name));
    let encryption = ENCRYPTION
        .iter()
        .map(|key| format!("encryption.{}", key.name));
    let metrics = METRICS.iter().map(|key| format!("metrics.{}", key.name));
    let schedule = SCHEDULE
        .iter()
        .map(|key| format!("schedules.<name>.{}", key.name));
    top.chain(store)
        .chain(records)
        .chain(encryption)
        .chain(metrics)
        .chain(queue("queue_defaults"))
        .chain(queue("queues.<name>"))
        .chain(schedule)
        .chain(["calendars.<name>".to_owned()])
}

/// The section of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    /// No section.
    Top,
    /// In `store`.
    Store,
    /// In `records`.
    Records,
    /// In `encryption`.
    Encryption,
    /// In `metrics`.
    Metrics,
    /// In `queue_defaults`.
    Defaults,
    /// In `queues.<name>`.
    Queue(QueueName),
    /// In `schedules.<name>`.
    Schedule(QueueName),
    /// In `calendars`, whose keys are names.
    Calendars,
}

impl Section {
    /// Sets the key `name` of this section to `found`.
    ///
    /// The error completes a message that begins with the source.
    pub(super) fn put(
        &self,
        settings: &mut Settings,
        name: &str,
        found: &RawValue,
    ) -> Result<(), String> {
        let path = |name: &str| self.path(name);
        match self {
            Self::Top => pick(&TOP, self, name)?.set(settings, path, found),
            Self::Store => pick(&STORE, self, name)?.set(settings, path, found),
            Self::Records => pick(&RECORDS, self, name)?.set(settings, path, found),
            Self::Encryption => pick(&ENCRYPTION, self, name)?.set(settings, path, found),
            Self::Metrics => pick(&METRICS, self, name)?.set(settings, path, found),
            Self::Defaults => {
                pick(QUEUE, self, name)?.set(&mut settings.queue_defaults, path, found)
            }
            Self::Schedule(name_of) => {
                let key = pick(&SCHEDULE, self, name)?;
                let schedule = settings.schedules.entry(name_of.clone()).or_default();
                key.set(schedule, path, found)
            }
            Self::Calendars => {
                let dates = found.text().map_err(|_| {
                    let path = self.path(name);
                    format!("{path} is {found}; it must be dates such as `2026-12-25 2026-12-26`")
                })?;
                settings.calendars.insert(name.to_owned(), dates.to_owned());
                Ok(())
            }
            Self::Queue(queue) => {
                let key = pick(QUEUE, self, name)?;
                key.set(
                    settings.queues.entry(queue.clone()).or_default(),
                    path,
                    found,
                )
            }
        }
    }

    /// Returns the full path of a key of this section.
    fn path(&self, name: &str) -> String {
        match self {
            Self::Top => name.to_owned(),
            Self::Store => format!("store.{name}"),
            Self::Records => format!("records.{name}"),
            Self::Encryption => format!("encryption.{name}"),
            Self::Metrics => format!("metrics.{name}"),
            Self::Defaults => format!("queue_defaults.{name}"),
            // A dot in a name would read as one more section.
            Self::Queue(queue) if queue.contains('.') => format!("queues.\"{queue}\".{name}"),
            Self::Queue(queue) => format!("queues.{queue}.{name}"),
            Self::Schedule(of) if of.contains('.') => format!("schedules.\"{of}\".{name}"),
            Self::Schedule(of) => format!("schedules.{of}.{name}"),
            Self::Calendars => format!("calendars.{name}"),
        }
    }
}

/// Returns the key called `name`, or an error that lists the known ones.
fn pick<'a, T>(keys: &'a [Key<T>], section: &Section, name: &str) -> Result<&'a Key<T>, String> {
    let is_of_queue = matches!(section, Section::Defaults | Section::Queue(_));
    let keys = keys
        .iter()
        .filter(|key| !is_of_queue || key.name != VERSION);
    if let Some(key) = keys.clone().find(|key| key.name == name) {
        return Ok(key);
    }
    let name = &*shown(name);
    let path = section.path(name);
    if matches!(section, Section::Top) && SECTIONS.contains(&name) {
        return Err(format!(
            "{path} is a section; it holds keys and has no value"
        ));
    }
    if is_of_queue && name == VERSION {
        return Err(format!(
            "unknown key {path}; the version of a payload belongs to its type, set it in the \
             annotation"
        ));
    }
    let mut known: Vec<&str> = keys.map(|key| key.name).collect();
    if matches!(section, Section::Top) {
        known.extend(SECTIONS);
    }
    known.sort_unstable();
    let meant = match nearest(name, &known) {
        Some(near) => did_you_mean(&section.path(near)),
        None => elsewhere(name),
    };
    Err(format!(
        "unknown key {path}{meant} (known here: {})",
        known.join(", ")
    ))
}

/// Returns the error for an unknown section, with the known ones.
pub(super) fn unknown_section(name: &str) -> String {
    let name = &*shown(name);
    let meant = nearest(name, &SECTIONS).map_or_else(String::new, did_you_mean);
    format!(
        "unknown section {name}{meant} (known: {})",
        SECTIONS.join(", ")
    )
}

/// Returns a hint for a key that is known, but in another section.
fn elsewhere(name: &str) -> String {
    let is_it =
        |path: &str| path.rsplit('.').next() == Some(name) || path.replace('.', "_") == name;
    let places: Vec<String> = known_keys().filter(|path| is_it(path)).collect();
    if places.is_empty() {
        String::new()
    } else {
        did_you_mean(&places.join(" or "))
    }
}

fn did_you_mean(path: &str) -> String {
    format!(", did you mean {path}?")
}
