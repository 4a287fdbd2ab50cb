//! The retention of a journal whose processes have different settings: the most that one of them
//! has asked for within a day, stored in the table `pruned`.
//!
//! A process without settings of its own must not remove what others keep for longer.

use std::time::Duration;

use tokio_postgres::GenericClient;

use super::copy::ordered;
use super::fault::PgError;
use crate::record::Keep;

/// How long a setting holds after it was last asked for, in microseconds.
const VALID_US: i64 = 24 * 3_600 * 1_000_000;

/// Returns what a step keeps that is asked to `keep` this much, and stores it.
///
/// With [`at_once`](Keep::at_once) it is just this much: room is needed.
pub(super) async fn longest(step: &impl GenericClient, keep: Keep) -> Result<Keep, PgError> {
    let us = |age: Duration| i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    let age = keep.age.map_or(i64::MAX, us);
    let count = keep.count.map_or(i64::MAX, ordered);
    let minutes = keep.minutes.map_or(i64::MAX, us);
    let is_final = keep.at_once;
    step.batch_execute(&format!(
        "INSERT INTO pruned AS p (what, since, begun, through) \
         SELECT what, now, now, asked \
         FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock, \
         (VALUES ('keep records', '{age}'::bigint), ('keep count', '{count}'), \
         ('keep minutes', '{minutes}')) AS keep (what, asked) \
         ON CONFLICT (what) DO UPDATE \
         SET (since, begun, through) = (excluded.since, excluded.begun, excluded.through) \
         WHERE {is_final} OR p.through <= excluded.through \
         OR p.since NOT BETWEEN excluded.since - {VALID_US} AND excluded.since"
    ))
    .await?;
    let sql = "SELECT through FROM pruned \
               WHERE what IN ('keep records', 'keep count', 'keep minutes') ORDER BY what";
    let rows = step.query_typed(sql, &[]).await?;
    let most = |at: usize| -> Result<Option<u64>, PgError> {
        let most: Option<i64> = rows.get(at).map(|row| row.try_get(0)).transpose()?;
        let most = most.filter(|most| *most < i64::MAX); // else without a bound
        Ok(most.map(i64::unsigned_abs))
    };
    Ok(Keep {
        count: most(0)?,
        minutes: most(1)?.map(Duration::from_micros),
        age: most(2)?.map(Duration::from_micros),
        at_once: keep.at_once,
    })
}
