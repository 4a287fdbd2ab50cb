//! Weeks: the partitions of the records table.
//!
//! A week begins on Monday, at midnight UTC. Records that finished before the first week or after
//! the last one, at times that no correct clock shows, have a partition of their own, so that every
//! record fits.

use std::collections::BTreeSet;

use tokio_postgres::{Client, GenericClient, Transaction};

use super::fault::PgError;
use super::scope::{Scope, exists, lock};
use crate::time::Timestamp;

const DAY_US: i64 = 86_400_000_000;

/// The length of a week.
pub(super) const WEEK_US: i64 = 7 * DAY_US;

/// The first Monday, 29 December 1969, from which weeks are counted.
const MONDAY_US: i64 = -3 * DAY_US;

/// The week of 6 January 2020.
const FIRST: i32 = 2_610;

/// The week after the last one, of 8 January 2120.
const END: i32 = 7_828;

/// Returns the week of a time, in microseconds since the epoch.
pub(super) fn of(finished: i64) -> i32 {
    let week = finished.saturating_sub(MONDAY_US).div_euclid(WEEK_US);
    // Between the two bounds by then.
    week.clamp(i64::from(FIRST - 1), i64::from(END)) as i32
}

/// Returns when a week begins.
fn start(week: i32) -> i64 {
    i64::from(week) * WEEK_US + MONDAY_US
}

/// Returns when a week ends; never for the last partition.
pub(super) fn end(week: i32) -> i64 {
    match week {
        END => i64::MAX,
        week => start(week + 1),
    }
}

/// Returns whether a partition can be dropped as a whole.
pub(super) fn can_be_dropped(week: i32) -> bool {
    (FIRST..END).contains(&week)
}

/// Returns the table of a week.
pub(super) fn table(week: i32) -> String {
    match week {
        ..FIRST => "records_early".to_owned(),
        END.. => "records_late".to_owned(),
        week => {
            let ms = u64::try_from(start(week) / 1_000).unwrap_or_default();
            let monday = Timestamp::from_millis(ms).to_string();
            format!("records_{}", monday[..10].replace('-', "_"))
        }
    }
}

/// Creates the partitions before and after all weeks.
pub(super) async fn attach_edges(step: &impl GenericClient) -> Result<(), PgError> {
    let (first, end) = (start(FIRST), start(END));
    step.batch_execute(&format!(
        "CREATE TABLE records_early PARTITION OF records FOR VALUES FROM (MINVALUE) TO ({first}); \
         CREATE TABLE records_late PARTITION OF records FOR VALUES FROM ({end}) TO (MAXVALUE)"
    ))
    .await
}

/// Creates the missing weeks. It does not wait for loads or reads.
pub(super) async fn ensure(
    client: &mut Client,
    scope: &Scope,
    weeks: &BTreeSet<i32>,
) -> Result<(), PgError> {
    for week in weeks.iter().filter(|week| can_be_dropped(**week)) {
        let table = table(*week);
        if exists(client, &scope.schema, &table).await? {
            continue;
        }
        let step = scope.begin(client).await?;
        lock(&step, &scope.schema).await?;
        if !exists(&step, &scope.schema, &table).await? {
            attach(&step, &table, *week).await?;
        }
        step.commit().await?;
    }
    Ok(())
}

/// Attaches an existing table, which does not block loads and reads; creating it as a partition
/// would.
async fn attach(step: &Transaction<'_>, table: &str, week: i32) -> Result<(), PgError> {
    step.batch_execute(&format!(
        "CREATE TABLE {table} (LIKE records INCLUDING STORAGE); \
         ALTER TABLE records ATTACH PARTITION {table} FOR VALUES FROM ({}) TO ({})",
        start(week),
        end(week)
    ))
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_week_and_a_week_is_seven_days() {
        let monday = 1_795_392_000_000_000; // 23 November 2026
        assert_eq!(table(of(monday)), "records_2026_11_23");
        assert_eq!(table(of(monday - 1)), "records_2026_11_16");
        assert_eq!(start(of(monday)), monday);
        assert_eq!(end(of(monday)), monday + WEEK_US);
        for (time, name) in [
            (i64::MIN, "records_early"),
            (0, "records_early"),
            (start(FIRST) - 1, "records_early"),
            (start(FIRST), "records_2020_01_06"),
            (start(END) - 1, "records_2120_01_01"),
            (start(END), "records_late"),
            (i64::MAX, "records_late"),
        ] {
            assert_eq!(table(of(time)), name, "{time}");
        }
    }
}
