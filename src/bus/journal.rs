//! The journal of a bus: how it is chosen and opened, and its status.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

#[cfg(feature = "postgres")]
use crate::bus::open::check_io;
use crate::bus::open::sqlite_path;
#[cfg(feature = "postgres")]
use crate::error::ErrorKind;
use crate::error::{Error, Result, redact_url, shown};
use crate::journal::recorder::{Recorder, Setup, answered};
use crate::journal::{Journal, RecordChoices, RecorderOptions};
use crate::panics;
use crate::store::{Store, WhenFull};

/// How long a stop waits for the journal to close.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// How long a start waits for a database.
#[cfg(feature = "postgres")]
const REACHED_WITHIN: Duration = Duration::from_secs(5);

/// A journal that was passed to the builder.
#[derive(Clone, Debug)]
pub(super) struct JournalHandle {
    pub(super) journal: Arc<dyn Journal>,
    /// Whether it is shared, so that the bus must not close it.
    pub(super) is_shared: bool,
}

/// The journal that a bus records into.
#[derive(Debug)]
pub(super) struct JournalRecorder {
    pub(super) journal: Arc<dyn Journal>,
    is_shared: bool,
    pub(super) recorder: Recorder,
}

/// The arguments that select and open a journal.
pub(super) struct JournalConfig<'a> {
    pub(super) given: Option<JournalHandle>,
    pub(super) choices: &'a RecordChoices,
    pub(super) options: RecorderOptions,
    pub(super) store: &'a Arc<dyn Store>,
    /// The URL of the store.
    pub(super) store_url: Option<&'a str>,
    /// Notified when another node is lost.
    pub(super) member_lost: &'a Arc<Notify>,
}

/// Opens the selected journal, bounds the outboxes, and starts the recorder.
pub(super) async fn record(choice: JournalConfig<'_>) -> Result<Option<JournalRecorder>> {
    let JournalConfig {
        given,
        choices,
        options,
        store,
        store_url,
        member_lost,
    } = choice;
    choices.check()?;
    options.check()?;
    let url = choices.journal.as_deref().filter(|url| *url != "off");
    if let Some(table) = store.records() {
        if given.is_some() || url.is_some() {
            return Err(Error::invalid(
                "the store keeps its records in its own file, where they are asked for, and takes \
                 no journal beside it: leave `records.journal` out, or `off`; a journal in \
                 PostgreSQL or in another file is for a store in Redis",
            ));
        }
        store.limit_outboxes(choices.outbox(store.is_shared()))?;
        table.keep(choices.keep());
        return Ok(None);
    }
    let given = match (given, url) {
        (Some(given), _) => Some(given),
        (None, Some(url)) => Some(open(url).await?),
        (None, None) => None,
    };
    let mut limit = choices.outbox(store.is_shared());
    let Some(JournalHandle { journal, is_shared }) = given else {
        if limit.when_full == WhenFull::RefusePushes {
            return Err(Error::invalid(
                "records.when_full is `refuse_pushes` without a journal, so pushes would be \
                 refused for ever; configure a journal, or leave it at `drop_oldest`",
            ));
        }
        limit.max = choices.outbox_max;
        store.limit_outboxes(limit)?;
        let settings = choices.of_a_journal().join(", ");
        if !settings.is_empty() {
            panics::reported(|| {
                tracing::warn!(settings, "settings for a journal, and none is configured");
            });
        }
        panics::reported(|| {
            tracing::info!(
                "no journal configured; the store keeps the last records of its outboxes"
            );
        });
        return Ok(None);
    };
    store.limit_outboxes(limit)?;
    let recorder = Recorder::start(Setup {
        store: Arc::clone(store),
        journal: Arc::clone(&journal),
        // Never with a password.
        name: store_url.map_or_else(|| "store".to_owned(), redact_url),
        keep: choices.keep(),
        member_lost: Arc::clone(member_lost),
        options,
    })?;
    Ok(Some(JournalRecorder {
        journal,
        is_shared,
        recorder,
    }))
}

impl JournalRecorder {
    /// Records what is left and closes the journal.
    pub(super) async fn stop(&self) {
        self.recorder.stop().await;
        if self.is_shared {
            return;
        }
        let closed = answered(CLOSE_WITHIN, async { self.journal.close().await }).await;
        if let Err(error) = closed {
            panics::reported(|| tracing::warn!(%error, "failed to close the journal"));
        }
    }

    /// Ends at once.
    pub(super) fn abandon(&self) {
        self.recorder.abandon();
    }
}

/// Opens the journal of a URL.
async fn open(url: &str) -> Result<JournalHandle> {
    let journal = match url.split_once(':') {
        Some(("sqlite", rest)) => open_sqlite(sqlite_path(rest)?)?,
        Some(("postgres" | "postgresql", _)) => open_postgres(url).await?,
        // Only the scheme is quoted: the rest may contain a password.
        other => {
            return Err(Error::invalid(format!(
                "unknown scheme \"{}\" of a journal url; use `off`, `sqlite:` and the path of a \
                 file, or `postgres://host/database`",
                shown(other.map_or("", |(scheme, _)| scheme)),
            )));
        }
    };
    Ok(JournalHandle {
        journal,
        is_shared: false,
    })
}

#[cfg(feature = "embedded")]
fn open_sqlite(path: &str) -> Result<Arc<dyn Journal>> {
    Ok(Arc::new(crate::journal::SqliteJournal::open(path)?))
}

#[cfg(not(feature = "embedded"))]
fn open_sqlite(_: &str) -> Result<Arc<dyn Journal>> {
    Err(Error::not_built(
        "a journal in a file, `sqlite:`",
        "embedded",
    ))
}

/// An unreachable database is connected later: the bus does not need it to start.
#[cfg(feature = "postgres")]
async fn open_postgres(url: &str) -> Result<Arc<dyn Journal>> {
    use crate::journal::PostgresJournal;

    check_io("a journal in PostgreSQL")?;

    let journal = PostgresJournal::new(url)?;
    match tokio::time::timeout(REACHED_WITHIN, PostgresJournal::connect(url)).await {
        Ok(Ok(journal)) => Ok(Arc::new(journal)),
        Ok(Err(error)) if !is_out_of_reach(&error) => Err(error),
        unreached => {
            let error = unreached.map(Result::err).ok().flatten();
            let error = error.map_or_else(|| "no response".to_owned(), |it| it.to_string());
            panics::reported(|| {
                tracing::warn!(
                    error,
                    "journal unavailable; records stay in the store and the connection is retried"
                );
            });
            Ok(Arc::new(journal))
        }
    }
}

#[cfg(not(feature = "postgres"))]
#[allow(clippy::unused_async)] // opening one is async
async fn open_postgres(_: &str) -> Result<Arc<dyn Journal>> {
    Err(Error::not_built("a journal in PostgreSQL", "postgres"))
}

#[cfg(feature = "postgres")]
fn is_out_of_reach(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::TimedOut
    )
}
