//! The tables, and which version of them.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient};

use super::fault::{Fault, Spot};
use super::weeks;
use crate::error::{Error, ErrorKind, Result};

/// What each version adds to the one before, the first to nothing.
const VERSIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
];

/// The oldest server that plans what is asked as it is meant: 13.
const SERVER_MIN: i32 = 130_000;

/// Finds the tables as this duly knows them, or makes them so.
///
/// Each version is one transaction under a lock, so that nodes that start at once wait for the
/// first. A role that may not create a schema can be given one.
///
/// # Errors
///
/// [`Corrupt`](ErrorKind::Corrupt) when the tables are those of a newer duly.
pub(super) async fn ensure(client: &mut Client, schema: &str, spot: Spot<'_>) -> Result<()> {
    let fault = |fault| spot.error(fault);
    suits(client, spot).await?;
    while version(client, schema, spot).await? < VERSIONS.len() {
        let step = client.transaction().await.map_err(fault)?;
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

/// Holds off every other node that would change tables, until the transaction ends.
pub(super) async fn lock(step: &impl GenericClient, schema: &str) -> Result<(), Fault> {
    // The first number says who locks: `duly` in ASCII.
    let sql = "SELECT pg_advisory_xact_lock(1685417081, hashtext($1))";
    step.query_typed(sql, &[(&schema, Type::TEXT)]).await?;
    Ok(())
}

async fn first(step: &impl GenericClient, schema: &str) -> Result<(), Fault> {
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

/// Whether the server and its database can hold a journal at all.
async fn suits(client: &Client, spot: Spot<'_>) -> Result<()> {
    let sql = "SELECT current_setting('server_version_num')::integer, \
               current_setting('server_encoding')";
    let row = client.query_typed_one(sql, &[]).await;
    let row = row.map_err(|fault| spot.error(fault))?;
    let refused = |what: &str| Err(spot.because(ErrorKind::Invalid, what));
    if read::<i32>(&row, 0, spot)? < SERVER_MIN {
        return refused("PostgreSQL 13 or later is needed");
    }
    if read::<String>(&row, 1, spot)? != "UTF8" {
        return refused("the database has to be in the encoding UTF8, or not every text fits");
    }
    Ok(())
}

/// Whether there is such a table.
///
/// Asked of the catalogue itself: by its name a table that another node has just made may not be
/// found, as names are remembered until a lock is taken.
pub(super) async fn exists(
    client: &impl GenericClient,
    schema: &str,
    table: &str,
) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = $2";
    let params: [(&(dyn ToSql + Sync), Type); 2] = [(&schema, Type::TEXT), (&table, Type::TEXT)];
    let found = client.query_typed_opt(sql, &params).await?;
    Ok(found.is_some())
}

/// Which version the tables have; 0 where there are none.
async fn version(client: &impl GenericClient, schema: &str, spot: Spot<'_>) -> Result<usize> {
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

/// The version that is noted.
async fn noted(client: &impl GenericClient, schema: &str) -> Result<usize, Fault> {
    let sql = format!("SELECT coalesce(max(version), 0) FROM \"{schema}\".versions");
    let found = client.query_typed_one(&sql, &[]).await?;
    Ok(usize::try_from(found.try_get::<_, i32>(0)?).unwrap_or(usize::MAX))
}

/// The version of the tables, if a newer duly has upgraded them since this one has found them as it
/// knows them: what it does not know of them it would neither write nor keep.
pub(super) async fn upgraded(
    client: &impl GenericClient,
    schema: &str,
) -> Result<Option<usize>, Fault> {
    let version = noted(client, schema).await?;
    Ok(Some(version).filter(|version| *version > VERSIONS.len()))
}

/// The error of a call on tables of a newer duly.
pub(super) fn newer(version: usize, spot: Spot<'_>) -> Error {
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
    spot: Spot<'_>,
) -> Result<T, Error> {
    row.try_get(column).map_err(|fault| spot.error(fault))
}
