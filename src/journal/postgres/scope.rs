//! The schema of a journal, and transactions in it.

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Transaction};

use super::fault::PgError;

/// What a transaction that only reads sets as well. Each page is meant to scan one index, in order; a
/// plan that collects and sorts all rows is always wrong.
const READING: &str = "SET TRANSACTION READ ONLY; SET LOCAL enable_seqscan TO off; \
                       SET LOCAL enable_bitmapscan TO off";

/// The schema of the tables, and the settings of each transaction.
///
/// Every statement is in a transaction, and nothing is left behind in its session: a pooler such as
/// PgBouncer lends that to another program afterwards.
pub(super) struct Scope {
    pub(super) schema: String,
    settings: String,
}

impl Scope {
    /// A server that lost its client releases its locks.
    pub(super) fn new(schema: &str, timeout: Duration) -> Self {
        let (schema, ms) = (schema.to_owned(), timeout.as_millis());
        let settings = format!(
            "SET LOCAL search_path TO \"{schema}\"; SET LOCAL client_min_messages TO warning; \
             SET LOCAL statement_timeout TO {ms}; SET LOCAL lock_timeout TO {ms}; \
             SET LOCAL idle_in_transaction_session_timeout TO {ms}; SET LOCAL jit TO off; \
             SET LOCAL max_parallel_workers_per_gather TO 0"
        );
        Self { schema, settings }
    }

    /// Begins a transaction.
    pub(super) async fn begin<'a>(
        &self,
        client: &'a mut Client,
    ) -> Result<Transaction<'a>, PgError> {
        let step = client.transaction().await?;
        step.batch_execute(&self.settings).await?;
        Ok(step)
    }

    /// Begins a transaction that only reads.
    pub(super) async fn begin_reading<'a>(
        &self,
        client: &'a mut Client,
    ) -> Result<Transaction<'a>, PgError> {
        let step = client.transaction().await?;
        let settings = format!("{READING}; {}", self.settings);
        step.batch_execute(&settings).await?;
        Ok(step)
    }
}

/// Locks out every other node that would change tables, until the transaction ends.
pub(super) async fn lock(step: &impl GenericClient, schema: &str) -> Result<(), PgError> {
    // The first number identifies the application: `duly` in ASCII.
    let sql = "SELECT pg_advisory_xact_lock(1685417081, hashtext($1))";
    step.query_typed(sql, &[(&schema, Type::TEXT)]).await?;
    Ok(())
}

/// Returns whether a table exists.
///
/// Reads the catalogue: a lookup by name may miss a table that another node has just created, as
/// names are cached until a lock is taken.
pub(super) async fn exists(
    client: &impl GenericClient,
    schema: &str,
    table: &str,
) -> Result<bool, PgError> {
    let sql = "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = $2";
    let params: [(&(dyn ToSql + Sync), Type); 2] = [(&schema, Type::TEXT), (&table, Type::TEXT)];
    let found = client.query_typed_opt(sql, &params).await?;
    Ok(found.is_some())
}
