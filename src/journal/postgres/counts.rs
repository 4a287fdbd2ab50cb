//! Counts and lateness by queue and minute.

use std::collections::BTreeMap;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Transaction};

use super::copy::ordered;
use super::fault::{Fault, Spot};
use super::row::Columns;
use super::weeks;
use crate::error::Result;
use crate::event::QueueName;
use crate::record::{Lateness, Minute, MinuteQuery, Numbered, Outcome};
use crate::time::Timestamp;

/// What was loaded, counted.
#[derive(Default)]
pub(super) struct Tally<'a> {
    outcomes: BTreeMap<(Timestamp, QueueName, Outcome), i64>,
    lateness: BTreeMap<(Timestamp, QueueName, u16), i64>,
    weeks: BTreeMap<(i32, &'a str), i64>,
}

impl<'a> Tally<'a> {
    pub(super) fn add(&mut self, outbox: &'a str, (_, record): &Numbered) {
        let (minute, queue) = (Minute::of(record), &record.queue);
        let outcome = (minute, queue.clone(), record.outcome);
        *self.outcomes.entry(outcome).or_default() += 1;
        if let Some(late) = record.lateness() {
            let slot = (minute, queue.clone(), Lateness::slot(late));
            *self.lateness.entry(slot).or_default() += 1;
        }
        let week = weeks::of(ordered(record.stages.finished_us));
        *self.weeks.entry((week, outbox)).or_default() += 1;
    }

    /// Adds it to what is there. In the order of keys, so that two who do so at once wait for each
    /// other and never in a circle.
    pub(super) async fn write(&self, step: &Transaction<'_>) -> Result<(), Fault> {
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

        let (starts, queues): (Vec<i64>, Vec<&str>) = places(self.outcomes.keys());
        let outcomes: Vec<_> = self.outcomes.keys().map(|key| key.2.as_str()).collect();
        let many: Vec<i64> = self.outcomes.values().copied().collect();
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&starts, Type::INT8_ARRAY),
            (&queues, Type::TEXT_ARRAY),
            (&outcomes, Type::TEXT_ARRAY),
            (&many, Type::INT8_ARRAY),
        ];
        let sql = "INSERT INTO minutes AS m (start, queue, outcome, records) \
                   SELECT * FROM unnest($1, $2, $3, $4) AS n (s, q, o, r) \
                   ORDER BY s, q COLLATE \"C\", o COLLATE \"C\" \
                   ON CONFLICT (queue, start, outcome) \
                   DO UPDATE SET records = m.records + excluded.records";
        step.execute_typed(sql, &params).await?;

        let (starts, queues): (Vec<i64>, Vec<&str>) = places(self.lateness.keys());
        let slots: Vec<_> = self.lateness.keys().map(|key| key.2 as i16).collect(); // below 1,000
        let many: Vec<i64> = self.lateness.values().copied().collect();
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&starts, Type::INT8_ARRAY),
            (&queues, Type::TEXT_ARRAY),
            (&slots, Type::INT2_ARRAY),
            (&many, Type::INT8_ARRAY),
        ];
        let sql = "INSERT INTO lateness AS l (start, queue, slot, records) \
                   SELECT * FROM unnest($1, $2, $3, $4) AS n (s, q, o, r) \
                   ORDER BY s, q COLLATE \"C\", o \
                   ON CONFLICT (start, queue, slot) \
                   DO UPDATE SET records = l.records + excluded.records";
        step.execute_typed(sql, &params).await?;
        Ok(())
    }
}

fn places<'a, T: 'a>(
    keys: impl Iterator<Item = &'a (Timestamp, QueueName, T)>,
) -> (Vec<i64>, Vec<&'a str>) {
    keys.map(|key| (ordered(key.0.as_millis()), key.1.as_str()))
        .unzip()
}

/// Removes minutes that began before `before`, a bounded part; answers whether it was all.
pub(super) async fn prune(
    step: &impl GenericClient,
    before: Timestamp,
    most: u64,
) -> Result<bool, Fault> {
    let mut is_all = true;
    for table in ["minutes", "lateness"] {
        let removed = step
            .execute_typed(
                &format!(
                    "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} \
                     WHERE start < '{}'::bigint ORDER BY start LIMIT {most}))",
                    ordered(before.as_millis())
                ),
                &[],
            )
            .await?;
        is_all &= removed < most;
    }
    Ok(is_all)
}

/// Reads minutes.
pub(super) async fn minutes(
    client: &Client,
    query: &MinuteQuery,
    spot: Spot<'_>,
) -> Result<Vec<Minute>> {
    let (asked, texts) = asked(query);
    let params: Vec<(&(dyn ToSql + Sync), Type)> = texts
        .iter()
        .map(|text| (text as &(dyn ToSql + Sync), Type::TEXT))
        .collect();
    // Both in one statement, so that they are of one instant.
    let sql = format!(
        "WITH asked AS MATERIALIZED ({asked}) \
         SELECT start, queue, m.outcomes, m.many, l.slots, l.many FROM asked AS a \
         CROSS JOIN LATERAL (SELECT array_agg(outcome) AS outcomes, array_agg(records) AS many \
          FROM minutes AS m WHERE m.queue = a.queue AND m.start = a.start) AS m \
         CROSS JOIN LATERAL (SELECT array_agg(slot) AS slots, array_agg(records) AS many \
          FROM lateness AS l WHERE l.start = a.start AND l.queue = a.queue) AS l \
         ORDER BY start, queue"
    );
    let rows = client.query_typed(&sql, &params).await;
    let rows = rows.map_err(|fault| spot.error(fault))?;
    rows.iter()
        .map(|row| minute(&mut Columns::of(row, spot)))
        .collect()
}

/// The minutes that are asked for, and what stands for `$1` and so on.
fn asked(query: &MinuteQuery) -> (String, Vec<String>) {
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

fn minute(columns: &mut Columns<'_>) -> Result<Minute> {
    let start = Timestamp::from_millis(columns.bits()?);
    let mut minute = Minute::new(start, columns.parsed()?);
    let outcomes: Vec<String> = columns.take()?;
    let many: Vec<i64> = columns.take()?;
    for (outcome, many) in outcomes.iter().zip(many) {
        let outcome: Outcome = columns.parse(outcome)?;
        minute.outcomes.insert(outcome, many.unsigned_abs());
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
