//! A journal behind PgBouncer in transaction mode, where each transaction may be in another session,
//! and a session is another program's afterwards.

use std::sync::Arc;
use std::time::Duration;

use duly::journal::{Journal, Keep};
use duly::time::Timestamp;

use crate::journal::harness::play;
use crate::journal::postgres::connect;
use crate::journal::sample::{batch_of, counted, everything, load, many, minutes};
use crate::servers::{Pooler, Postgres, PostgresOptions};

/// What a session has that a new one has not. A pooler itself sets what its client has asked for at
/// the start, and `transaction_read_only` is that of the statement itself.
const LEFT_BEHIND: &str = "SELECT name || '=' || setting FROM pg_settings WHERE source = 'session' \
    AND name NOT IN ('client_encoding', 'application_name', 'DateStyle', 'TimeZone', \
    'standard_conforming_strings', 'transaction_read_only') \
    UNION ALL SELECT 'statement ' || name FROM pg_prepared_statements \
    UNION ALL SELECT 'table ' || relname FROM pg_class WHERE relpersistence = 't' \
    UNION ALL SELECT 'lock ' || locktype FROM pg_locks WHERE locktype = 'advisory'";

#[test]
fn a_pooled_session_is_given_back_as_it_was() {
    let server = Postgres::start(PostgresOptions::default());
    let pooler = Pooler::start(&server);
    let session = pooler.sql("SELECT pg_backend_pid()");
    assert_eq!(pooler.sql(LEFT_BEHIND), "");
    play(async {
        let journal: Arc<dyn Journal> = Arc::new(connect(&pooler.url()).await);
        let is_clean = |after: &str| {
            assert_eq!(
                pooler.sql("SELECT pg_backend_pid()"),
                session,
                "one session"
            );
            assert_eq!(pooler.sql(LEFT_BEHIND), "", "{after}");
        };
        is_clean("connect");
        let records = many(500);
        load(&journal, &records[..400]).await;
        is_clean("load");
        // Some of them again, and so on the slow path.
        load(&journal, &records[300..]).await;
        is_clean("a load of duplicates");
        // What a neighbour has set in the session is no matter to the journal, and stays.
        pooler.sql("SET search_path TO pg_catalog; SET enable_indexscan TO off");
        assert!(everything(&journal).await == records);
        assert_eq!(minutes(&journal).await, counted(&records));
        let more = many(600);
        load(&journal, &more[500..]).await;
        journal
            .load(vec![batch_of("another", &[])])
            .await
            .expect("it is loaded");
        let kept = pooler.sql(
            "SELECT name FROM pg_settings WHERE source = 'session' \
            AND name IN ('search_path', 'enable_indexscan') ORDER BY 1",
        );
        assert_eq!(kept, "enable_indexscan\nsearch_path");
        pooler.sql("RESET ALL");
        is_clean("pages");
        let keep = Keep {
            age: Some(Duration::from_secs(1)),
            minutes: Some(Duration::from_secs(1)),
            ..Keep::default()
        };
        journal
            .prune(keep, Timestamp::from_millis(4_000_000_000_000))
            .await
            .expect("pruned");
        is_clean("prune");
    });
}
