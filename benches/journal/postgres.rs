//! The journal in PostgreSQL, and a `COPY` of the same rows into the same tables.

use std::io::Cursor as Bytes;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use duly::journal::{Batch, Journal, PostgresJournal};
use duly::records::{Numbered, Query};
use futures_util::SinkExt;
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};

use crate::contender::{Contender, Doing};
use crate::servers::{Postgres as Server, PostgresOptions};
use crate::{Result, records};

pub(crate) struct Postgres {
    journal: PostgresJournal,
    /// On a schema with the same tables.
    raw: Client,
    server: Server,
}

impl Postgres {
    pub(crate) async fn open() -> Result<Self> {
        // As it comes, but for memory that suits a machine on which nothing else is: a quarter for
        // the server, half for the files; and for checkpoints as far apart as one who loads much
        // would have them. A commit is on disk when it returns.
        let memory_mb = memory_mb();
        let more = vec![
            format!("shared_buffers={}MB", memory_mb / 4),
            format!("effective_cache_size={}MB", memory_mb / 2),
            "max_wal_size=16GB".to_owned(),
            "checkpoint_timeout=15min".to_owned(),
        ];
        println!("\nPostgreSQL with {}", more.join(", "));
        let server = Server::start(PostgresOptions {
            more,
            ..PostgresOptions::default()
        });
        let url = |schema: &str| format!("{}?schema={schema}", server.socket_url());
        // Makes the tables and the week, of which its one record is taken out again.
        let tables = PostgresJournal::connect(&url("raw")).await?;
        let first = Batch {
            outbox: "store".to_owned(),
            records: vec![records::record(0)],
        };
        tables.load(vec![first]).await?;
        tables.close().await?;
        server.sql("TRUNCATE raw.records");
        let (raw, driver) = tokio_postgres::connect(&server.socket_url(), NoTls).await?;
        tokio::spawn(driver);
        raw.batch_execute("SET search_path TO raw").await?;
        Ok(Self {
            journal: PostgresJournal::connect(&url("duly")).await?,
            raw,
            server,
        })
    }

    async fn copy(&mut self, records: &[Numbered]) -> Result<Duration> {
        // What has to be made of a record is not the database's work.
        let rows = rows(records);
        let began = Instant::now();
        let step = self.raw.transaction().await?;
        let mut sink = pin!(
            step.copy_in::<_, Bytes<Vec<u8>>>("COPY records FROM STDIN (FORMAT binary)")
                .await?
        );
        sink.send(Bytes::new(rows)).await?;
        sink.finish().await?;
        step.commit().await?;
        Ok(began.elapsed())
    }
}

/// How much memory the machine has; 8 GB where there is no telling.
fn memory_mb() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = told.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kb = total.and_then(|total| total.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kb.map_or(8_192, |kb| kb / 1_024)
}

/// The rows as they are sent.
fn rows(records: &[Numbered]) -> Vec<u8> {
    let mut rows = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for (number, record) in records {
        let stages = record.stages;
        let big = |number: u64| Some(number.to_be_bytes().to_vec());
        let text = |text: &str| Some(text.as_bytes().to_vec());
        let fields = [
            big(stages.finished_us),
            big(*number),
            Some(record.id.to_bytes().to_vec()),
            big(record.due.as_millis()),
            big(stages.moved_us),
            big(stages.fetched_us),
            big(stages.started_us),
            big(record.node.0),
            Some(i32::from(record.attempt).to_be_bytes().to_vec()),
            record.trace.map(|trace| trace.to_bytes().to_vec()),
            text(&record.queue),
            text(record.outcome.as_str()),
            record.cause.and_then(|cause| text(cause.as_str())),
            record.key.as_deref().and_then(text),
            record.error.as_deref().and_then(text),
            None,
            None,
        ];
        rows.extend((fields.len() as i16).to_be_bytes());
        for field in fields {
            let length = field.as_ref().map_or(-1, |bytes| bytes.len() as i32);
            rows.extend(length.to_be_bytes());
            rows.extend(field.unwrap_or_default());
        }
    }
    rows.extend((-1_i16).to_be_bytes());
    rows
}

impl Contender for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(self.journal.clone())
    }

    fn raw_load<'a>(&'a mut self, records: &'a [Numbered]) -> Doing<'a, Duration> {
        Box::pin(self.copy(records))
    }

    fn plan(&self, query: Query) -> Doing<'_, Vec<String>> {
        Box::pin(async move { Ok(self.journal.plan(query).await?) })
    }

    fn server_time(&self) -> Option<Duration> {
        self.server.processor_time()
    }

    fn bytes(&self) -> Doing<'_, u64> {
        let bytes = self.server.sql(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c JOIN pg_namespace AS n \
             ON n.oid = relnamespace WHERE nspname = 'duly' AND relkind = 'r'",
        );
        Box::pin(std::future::ready(Ok(bytes.parse().unwrap_or_default())))
    }
}
