//! The tables: their creation and their version.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient};

use super::fault::{ErrorContext, PgError};
use super::scope::{Scope, exists, lock};
use super::weeks;
use crate::error::{Error, ErrorKind, Result};

/// The tables of a journal.
const TABLES: &str = include_str!("schema.sql");

/// The version of the tables that this duly writes and reads. No version has been released, so tables
/// of an older one are refused; the first that is released will be upgraded.
const VERSION: usize = 4;

/// The oldest server whose planner uses the indexes as intended: 13.
const SERVER_MIN: i32 = 130_000;

/// Creates the tables where there are none.
///
/// It does so in one transaction under a lock, so that nodes that start at once wait for the first.
/// For a role that may not create a schema, an operator can create one.
///
/// # Errors
///
/// [`Corrupt`](ErrorKind::Corrupt) when the tables are those of a newer duly, or of one from before
/// the first release.
pub(super) async fn ensure(
    client: &mut Client,
    scope: &Scope,
    spot: ErrorContext<'_>,
) -> Result<()> {
    let fault = |fault| spot.error(fault);
    let schema = scope.schema.as_str();
    suits(client, spot).await?;
    if are_there(client, schema, spot).await? {
        return Ok(());
    }
    let step = scope.begin(client).await.map_err(fault)?;
    lock(&step, schema).await.map_err(fault)?;
    // Looked at again: another node may have made them meanwhile.
    if !are_there(&step, schema, spot).await? {
        step.batch_execute("SET LOCAL statement_timeout TO 0")
            .await
            .map_err(fault)?;
        create(&step, schema).await.map_err(fault)?;
    }
    step.commit().await.map_err(fault)
}

async fn create(step: &impl GenericClient, schema: &str) -> Result<(), PgError> {
    let sql = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    let found = step.query_typed(sql, &[(&schema, Type::TEXT)]).await?;
    if found.is_empty() {
        let create = format!("CREATE SCHEMA \"{schema}\"");
        step.batch_execute(&create).await?;
    }
    step.batch_execute(
        "CREATE TABLE versions (version integer PRIMARY KEY, \
         made timestamptz NOT NULL DEFAULT now())",
    )
    .await?;
    step.batch_execute(TABLES).await?;
    weeks::attach_edges(step).await?;
    let noted = format!("INSERT INTO versions (version) VALUES ({VERSION})");
    step.batch_execute(&noted).await
}

/// Checks whether the server and its database can hold a journal.
async fn suits(client: &Client, spot: ErrorContext<'_>) -> Result<()> {
    let sql = "SELECT current_setting('server_version_num')::integer, \
               current_setting('server_encoding')";
    let row = client.query_typed_one(sql, &[]).await;
    let row = row.map_err(|fault| spot.error(fault))?;
    let refused = |what: &str| Err(spot.because(ErrorKind::Invalid, what));
    if read::<i32>(&row, 0, spot)? < SERVER_MIN {
        return refused("PostgreSQL 13 or later is needed");
    }
    if read::<String>(&row, 1, spot)? != "UTF8" {
        return refused("the encoding of the database must be UTF8, to hold every text");
    }
    Ok(())
}

/// Whether there are tables of the version that is known.
async fn are_there(
    client: &impl GenericClient,
    schema: &str,
    spot: ErrorContext<'_>,
) -> Result<bool> {
    let fault = |fault| spot.error(fault);
    if !exists(client, schema, "versions").await.map_err(fault)? {
        return Ok(false);
    }
    match noted(client, schema).await.map_err(fault)? {
        VERSION => Ok(true),
        version if version > VERSION => Err(newer(version, spot)),
        version => Err(older(version, spot)),
    }
}

/// Returns the recorded version.
async fn noted(client: &impl GenericClient, schema: &str) -> Result<usize, PgError> {
    let sql = format!("SELECT coalesce(max(version), 0) FROM \"{schema}\".versions");
    let found = client.query_typed_one(&sql, &[]).await?;
    Ok(usize::try_from(found.try_get::<_, i32>(0)?).unwrap_or(usize::MAX))
}

/// Returns the version of the tables if a newer duly has upgraded them since this one connected: it
/// would neither write nor prune them correctly.
pub(super) async fn upgraded(
    client: &impl GenericClient,
    schema: &str,
) -> Result<Option<usize>, PgError> {
    let version = noted(client, schema).await?;
    Ok(Some(version).filter(|version| *version > VERSION))
}

/// Returns the error of a call on tables of a newer duly.
pub(super) fn newer(version: usize, spot: ErrorContext<'_>) -> Error {
    let what = format!(
        "the tables were written by a newer duly (version {version}), this one knows up to {VERSION}: it \
         writes and removes nothing there; start the newer one in its place"
    );
    spot.because(ErrorKind::Corrupt, &what)
}

fn older(version: usize, spot: ErrorContext<'_>) -> Error {
    let what = format!(
        "the tables were written by an older duly (version {version}), this one knows {VERSION} and \
         upgrades none from before the first release; name another schema, or use the duly that \
         wrote them"
    );
    spot.because(ErrorKind::Corrupt, &what)
}

fn read<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a tokio_postgres::Row,
    column: usize,
    spot: ErrorContext<'_>,
) -> Result<T, Error> {
    row.try_get(column).map_err(|fault| spot.error(fault))
}
