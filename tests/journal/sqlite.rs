//! Journals in files, each in a directory of its own, and what is promised of the file alone.

use std::future::ready;
use std::sync::Arc;

use duly::journal::{Journal, SqliteJournal};

use crate::journal::harness::{Harnessed, JournalHarness, Subject};
use crate::journal::suite::{durable_journal_tests, journal_tests};

journal_tests!(SqliteHarness);
durable_journal_tests!(SqliteHarness);

pub(crate) struct SqliteHarness;

struct SqliteSubject {
    journal: Arc<SqliteJournal>,
    /// Goes when the last journal in it has gone.
    directory: Arc<tempfile::TempDir>,
}

impl SqliteSubject {
    fn open(directory: Arc<tempfile::TempDir>) -> Arc<dyn Subject> {
        let path = directory.path().join("journal.db");
        Arc::new(Self {
            journal: Arc::new(SqliteJournal::open(path).expect("a journal")),
            directory,
        })
    }
}

impl JournalHarness for SqliteHarness {
    fn fresh(&self) -> Harnessed<Arc<dyn Subject>> {
        let directory = tempfile::tempdir().expect("a directory");
        Box::pin(ready(SqliteSubject::open(Arc::new(directory))))
    }
}

impl Subject for SqliteSubject {
    fn journal(&self) -> Arc<dyn Journal> {
        let journal: Arc<SqliteJournal> = Arc::clone(&self.journal);
        journal
    }

    fn beside(&self) -> Harnessed<Arc<dyn Journal>> {
        let journal = SqliteJournal::open(self.journal.path()).expect("a journal");
        let journal: Arc<dyn Journal> = Arc::new(journal);
        Box::pin(ready(journal))
    }

    fn reopen(&self) -> Harnessed<Arc<dyn Subject>> {
        let (journal, directory) = (Arc::clone(&self.journal), Arc::clone(&self.directory));
        Box::pin(async move {
            journal.close().await.expect("a close");
            Self::open(directory)
        })
    }
}
