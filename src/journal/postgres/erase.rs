//! Erases what records hold of a person: payloads and error texts.
//!
//! The server keeps the old version of a row until its vacuum, and in its log, as of any update.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::copy::ordered;
use super::fault::{ErrorContext, PgError};
use super::schema;
use super::scope::Scope;
use crate::error::Result;
use crate::record::Cursor;

/// Erases payload and error of the records at these places, all or none.
pub(super) async fn erase(
    client: &mut Client,
    scope: &Scope,
    places: &[Cursor],
    spot: ErrorContext<'_>,
) -> Result<()> {
    match step(client, scope, places).await {
        Ok(None) => Ok(()),
        Ok(Some(version)) => Err(schema::newer(version, spot)),
        Err(fault) => Err(spot.error(fault)),
    }
}

/// Returns the version of the tables, if a newer duly has upgraded them; then nothing is erased.
async fn step(
    client: &mut Client,
    scope: &Scope,
    places: &[Cursor],
) -> Result<Option<usize>, PgError> {
    let step = scope.begin(client).await?;
    if let Some(version) = schema::upgraded(&step, &scope.schema).await? {
        return Ok(Some(version));
    }
    let finished: Vec<i64> = places.iter().map(|it| ordered(it.finished_us)).collect();
    let numbers: Vec<i64> = places.iter().map(|it| ordered(it.number)).collect();
    let events = places.iter().map(|it| hexadecimal(it.id.to_bytes()));
    let events: Vec<String> = events.collect();
    let sql = "UPDATE records SET error = NULL, payload = NULL \
               FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS place (at, nth, id) \
               WHERE event = place.id::uuid AND finished = place.at AND number = place.nth \
               AND (error IS NOT NULL OR payload IS NOT NULL)";
    let params = [
        (
            &finished as &(dyn tokio_postgres::types::ToSql + Sync),
            Type::INT8_ARRAY,
        ),
        (&numbers, Type::INT8_ARRAY),
        (&events, Type::TEXT_ARRAY),
    ];
    step.query_typed(sql, &params).await?;
    step.commit().await?;
    Ok(None)
}

/// Formats an id as a `uuid` is read.
fn hexadecimal(id: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(id))
}
