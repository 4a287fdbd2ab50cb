//! Journals in PostgreSQL, each in a schema of its own of one server.

use std::sync::Arc;

use duly::journal::{Journal, PostgresJournal};

use crate::journal::harness::{Harnessed, JournalHarness, Subject};
use crate::journal::suite::{durable_journal_tests, journal_tests};
use crate::servers::{schema, shared_postgres};

journal_tests!(PostgresHarness);
durable_journal_tests!(PostgresHarness);

pub(crate) struct PostgresHarness;

/// A schema, which is gone when this is dropped.
pub(crate) struct Schema(String);

impl Schema {
    /// The name of one that there is not yet.
    pub(crate) fn new() -> Self {
        Self(schema())
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// The URL of a journal in it.
    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}", shared_postgres().url(), self.0)
    }

    /// Runs statements in it, and answers what they print.
    pub(crate) fn sql(&self, statements: &str) -> String {
        let set = format!("SET search_path TO {}; ", self.0);
        shared_postgres().sql(&(set + statements))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.sql(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.0));
        }
    }
}

pub(crate) async fn connect(url: &str) -> PostgresJournal {
    PostgresJournal::connect(url).await.expect("a journal")
}

struct PostgresSubject {
    journal: PostgresJournal,
    schema: Arc<Schema>,
}

impl PostgresSubject {
    async fn open(schema: Arc<Schema>) -> Arc<dyn Subject> {
        Arc::new(Self {
            journal: connect(&schema.url()).await,
            schema,
        })
    }
}

impl JournalHarness for PostgresHarness {
    fn fresh(&self) -> Harnessed<Arc<dyn Subject>> {
        Box::pin(PostgresSubject::open(Arc::new(Schema::new())))
    }
}

impl Subject for PostgresSubject {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(self.journal.clone())
    }

    fn beside(&self) -> Harnessed<Arc<dyn Journal>> {
        let url = self.schema.url();
        Box::pin(async move {
            let journal: Arc<dyn Journal> = Arc::new(connect(&url).await);
            journal
        })
    }

    fn reopen(&self) -> Harnessed<Arc<dyn Subject>> {
        let (journal, schema) = (self.journal.clone(), Arc::clone(&self.schema));
        Box::pin(async move {
            journal.close().await.expect("a close");
            Self::open(schema).await
        })
    }
}
