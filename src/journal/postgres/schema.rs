//! The tables: creation, version, upgrade.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient};

use super::fault::{ErrorContext, PgError};
use super::scope::{Scope, exists, lock};
use super::weeks;
use crate::error::{Error, ErrorKind, Result};

/// The SQL of each version, applied to the previous one.
const VERSIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
];

/// The oldest server whose planner uses the indexes as intended: 13.
const SERVER_MIN: i32 = 130_000;

/// Creates the tables, or upgrades them to the version of this duly.
///
/// Each version is one transaction under a lock, so that nodes that start at once wait for the
/// first. For a role that may not create a schema, an operator can create one.
///
/// # Errors
///
/// [`Corrupt`](ErrorKind::Corrupt) when the tables are those of a newer duly.
pub(super) async fn ensure(
    client: &mut Client,
    scope: &Scope,
    spot: ErrorContext<'_>,
) -> Result<()> {
    let fault = |fault| spot.error(fault);
    let schema = scope.schema.as_str();
    suits(client, spot).await?;
    while version(client, schema, spot).await? < VERSIONS.len() {
        let step = scope.begin(client).await.map_err(fault)?;
        lock(&step, schema).await.map_err(fault)?;
        let from = version(&step, schema, spot).await?;
        if let Some(tables) = VERSIONS.get(from) {
            step.batch_execute("SET LOCAL statement_timeout TO 0")
                .await
                .map_err(fault)?;
            if from == 0 {
                first(&step, schema).await.map_err(fault)?;
            }
            step.batch_execute(tables).await.map_err(fault)?;
            if from == 0 {
                weeks::attach_edges(&step).await.map_err(fault)?;
            }
            let noted = format!("INSERT INTO versions (version) VALUES ({})", from + 1);
            step.batch_execute(&noted).await.map_err(fault)?;
        }
        step.commit().await.map_err(fault)?;
    }
    Ok(())
}

async fn first(step: &impl GenericClient, schema: &str) -> Result<(), PgError> {
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
    .await
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

/// Returns the version of the tables; 0 without tables.
async fn version(
    client: &impl GenericClient,
    schema: &str,
    spot: ErrorContext<'_>,
) -> Result<usize> {
    let fault = |fault| spot.error(fault);
    if !exists(client, schema, "versions").await.map_err(fault)? {
        return Ok(0);
    }
    let version = noted(client, schema).await.map_err(fault)?;
    if version > VERSIONS.len() {
        return Err(newer(version, spot));
    }
    Ok(version)
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
    Ok(Some(version).filter(|version| *version > VERSIONS.len()))
}

/// Returns the error of a call on tables of a newer duly.
pub(super) fn newer(version: usize, spot: ErrorContext<'_>) -> Error {
    let what = format!(
        "the tables were written by a newer duly (version {version}), this one knows up to {}: it \
         writes and removes nothing there; start the newer one in its place",
        VERSIONS.len()
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
