//! Per-minute statistics by queue: counts and lateness.

use std::collections::BTreeMap;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Transaction};

use super::copy::ordered;
use super::fault::{ErrorContext, PgError};
use super::row::Columns;
use super::scope::Scope;
use super::weeks;
use crate::error::Result;
use crate::event::QueueName;
use crate::record::{Lateness, MinuteQuery, MinuteStats, Numbered, Outcome};
use crate::time::Timestamp;

/// The counters of one load.
#[derive(Default)]
pub(super) struct MinuteCounters<'a> {
    minutes: BTreeMap<(Timestamp, &'a QueueName), MinuteCounts>,
    weeks: BTreeMap<(i32, &'a str), i64>,
}

/// The counters of one queue and minute.
#[derive(Default)]
struct MinuteCounts {
    outcomes: BTreeMap<Outcome, i64>,
    lateness: BTreeMap<u16, i64>,
}

impl<'a> MinuteCounters<'a> {
    pub(super) fn add(&mut self, outbox: &'a str, (_, record): &'a Numbered) {
        let minute = (MinuteStats::of(record), &record.queue);
        let counted = self.minutes.entry(minute).or_default();
        *counted.outcomes.entry(record.outcome).or_default() += 1;
        if let Some(late) = record.lateness() {
            *counted.lateness.entry(Lateness::slot(late)).or_default() += 1;
        }
        let week = weeks::of(ordered(record.stages.finished_us));
        *self.weeks.entry((week, outbox)).or_default() += 1;
    }

    /// Adds the counters to the stored ones. Rows are locked in the order of keys, so that two
    /// concurrent loads cannot deadlock.
    pub(super) async fn write(&self, step: &Transaction<'_>) -> Result<(), PgError> {
        let (weeks, outboxes): (Vec<i32>, Vec<&str>) = self.weeks.keys().copied().unzip();
        let many: Vec<i64> = self.weeks.values().copied().collect();
        let params: [(&(dyn ToSql + Sync), Type); 3] = [
            (&weeks, Type::INT4_ARRAY),
            (&outboxes, Type::TEXT_ARRAY),
            (&many, Type::INT8_ARRAY),
        ];
        let sql = "INSERT INTO weeks AS w (week, outbox, records) \
                   SELECT * FROM unnest($1, $2, $3) ORDER BY 1, 2 \
                   ON CONFLICT (week, outbox) DO UPDATE SET records = w.records + excluded.records";
        step.execute_typed(sql, &params).await?;

        let outcomes = self.rows(|counted| &counted.outcomes);
        let names: Vec<_> = outcomes.of.iter().map(|outcome| outcome.as_str()).collect();
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&outcomes.starts, Type::INT8_ARRAY),
            (&outcomes.queues, Type::TEXT_ARRAY),
            (&names, Type::TEXT_ARRAY),
            (&outcomes.many, Type::INT8_ARRAY),
        ];
        let sql = "INSERT INTO minutes AS m (start, queue, outcome, records) \
                   SELECT * FROM unnest($1, $2, $3, $4) AS n (s, q, o, r) \
                   ORDER BY s, q COLLATE \"C\", o COLLATE \"C\" \
                   ON CONFLICT (queue, start, outcome) \
                   DO UPDATE SET records = m.records + excluded.records";
        step.execute_typed(sql, &params).await?;

        let lateness = self.rows(|counted| &counted.lateness);
        let slots: Vec<_> = lateness.of.iter().map(|slot| *slot as i16).collect(); // below 1,000
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&lateness.starts, Type::INT8_ARRAY),
            (&lateness.queues, Type::TEXT_ARRAY),
            (&slots, Type::INT2_ARRAY),
            (&lateness.many, Type::INT8_ARRAY),
        ];
        let sql = "INSERT INTO lateness AS l (start, queue, slots, records) \
                   SELECT s, q COLLATE \"C\", array_agg(o), array_agg(r) \
                   FROM unnest($1, $2, $3, $4) AS n (s, q, o, r) GROUP BY 1, 2 ORDER BY 1, 2 \
                   ON CONFLICT (start, queue) DO UPDATE SET (slots, records) = ( \
                   SELECT array_agg(slot ORDER BY slot), array_agg(many ORDER BY slot) FROM ( \
                   SELECT slot, sum(n)::bigint AS many FROM ( \
                   SELECT * FROM unnest(l.slots, l.records) UNION ALL \
                   SELECT * FROM unnest(excluded.slots, excluded.records)) AS each (slot, n) \
                   GROUP BY slot) AS summed)";
        step.execute_typed(sql, &params).await?;
        Ok(())
    }

    /// Returns the counters of one kind, as columns of rows.
    fn rows<T: Copy + 'a>(&self, kind: impl Fn(&MinuteCounts) -> &BTreeMap<T, i64>) -> Rows<'a, T> {
        let mut rows = Rows::default();
        for ((start, queue), counted) in &self.minutes {
            for (of, many) in kind(counted) {
                rows.starts.push(ordered(start.as_millis()));
                rows.queues.push(queue.as_str());
                rows.of.push(*of);
                rows.many.push(*many);
            }
        }
        rows
    }
}

/// Columns of counters: minute, queue, label and count.
struct Rows<'a, T> {
    starts: Vec<i64>,
    queues: Vec<&'a str>,
    of: Vec<T>,
    many: Vec<i64>,
}

impl<T> Default for Rows<'_, T> {
    fn default() -> Self {
        Self {
            starts: Vec::new(),
            queues: Vec::new(),
            of: Vec::new(),
            many: Vec::new(),
        }
    }
}

/// Removes minutes that began before `before`, in milliseconds, up to a limit; returns whether none
/// are left.
pub(super) async fn prune(
    step: &impl GenericClient,
    before: i64,
    most: u64,
) -> Result<bool, PgError> {
    let mut is_all = true;
    for table in ["minutes", "lateness"] {
        let removed = step
            .execute_typed(
                &format!(
                    "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} \
                     WHERE start < '{before}'::bigint ORDER BY start LIMIT {most}))"
                ),
                &[],
            )
            .await?;
        is_all &= removed < most;
    }
    Ok(is_all)
}

/// Reads per-minute statistics.
pub(super) async fn minutes(
    client: &mut Client,
    scope: &Scope,
    query: &MinuteQuery,
    spot: ErrorContext<'_>,
) -> Result<Vec<MinuteStats>> {
    let (requested, texts) = requested(query);
    let params: Vec<(&(dyn ToSql + Sync), Type)> = texts
        .iter()
        .map(|text| (text as &(dyn ToSql + Sync), Type::TEXT))
        .collect();
    // In one statement, so that both are of one instant.
    let sql = format!(
        "WITH asked AS MATERIALIZED ({requested}) \
         SELECT start, queue, m.outcomes, m.many, l.slots, l.records FROM asked AS a \
         CROSS JOIN LATERAL (SELECT array_agg(outcome) AS outcomes, array_agg(records) AS many \
          FROM minutes AS m WHERE m.queue = a.queue AND m.start = a.start) AS m \
         LEFT JOIN LATERAL (SELECT slots, records FROM lateness AS l \
          WHERE l.start = a.start AND l.queue = a.queue LIMIT 1) AS l ON true \
         ORDER BY start, queue"
    );
    let rows = async {
        let step = scope.begin_reading(client).await?;
        let rows = step.query_typed(&sql, &params).await?;
        step.commit().await?;
        Ok(rows)
    };
    let rows = rows.await.map_err(|fault: PgError| spot.error(fault))?;
    rows.iter()
        .map(|row| minute(&mut Columns::of(row, spot)))
        .collect()
}

/// Returns the SQL of the requested minutes, and its parameters.
fn requested(query: &MinuteQuery) -> (String, Vec<String>) {
    let mut texts = Vec::new();
    let mut conditions = vec!["true".to_owned()];
    let time = |at: Timestamp| format!("'{}'::bigint", ordered(at.as_millis()));
    if let Some(queue) = &query.queue {
        texts.push(queue.as_str().to_owned());
        conditions.push(format!("queue = ${}", texts.len()));
    }
    if let Some(since) = query.since {
        conditions.push(format!("start >= {}", time(since)));
    }
    if let Some(until) = query.until {
        conditions.push(format!("start < {}", time(until)));
    }
    if let Some((start, queue)) = &query.after {
        texts.push(queue.as_str().to_owned());
        let start = time(*start);
        conditions.push(format!("(start, queue) > ({start}, ${})", texts.len()));
    }
    let sql = format!(
        "SELECT DISTINCT start, queue FROM minutes WHERE {} ORDER BY start, queue LIMIT {}",
        conditions.join(" AND "),
        query.page_len()
    );
    (sql, texts)
}

fn minute(columns: &mut Columns<'_>) -> Result<MinuteStats> {
    let start = Timestamp::from_millis(columns.bits()?);
    let mut minute = MinuteStats::new(start, columns.parsed()?);
    let outcomes: Vec<String> = columns.take()?;
    let many: Vec<i64> = columns.take()?;
    for (outcome, many) in outcomes.iter().zip(many) {
        // An outcome that only a newer duly knows hides none of the others.
        if let Ok(outcome) = outcome.parse::<Outcome>() {
            minute.outcomes.insert(outcome, many.unsigned_abs());
        }
    }
    let slots: Option<Vec<i16>> = columns.take()?;
    let many: Option<Vec<i64>> = columns.take()?;
    for (slot, many) in slots.into_iter().flatten().zip(many.into_iter().flatten()) {
        minute
            .lateness
            .add(slot.unsigned_abs(), many.unsigned_abs());
    }
    Ok(minute)
}
