//! What a role has to be given to keep a journal in PostgreSQL.

use std::sync::Arc;

use duly::ErrorKind;
use duly::journal::{Journal, PostgresJournal};

use crate::journal::harness::play;
use crate::journal::postgres::{Schema, connect};
use crate::journal::sample::{batch, everything, load, many};
use crate::servers::{schema, shared_postgres};

#[test]
fn a_role_that_may_create_no_schema_can_be_given_one() {
    play(async {
        let schema = Schema::new();
        let name = schema.name();
        schema.sql(&format!("CREATE ROLE {name} LOGIN PASSWORD 'x'"));
        let url = schema
            .url()
            .replace("duly:open-sesame@", &format!("{name}:x@"));
        let error = PostgresJournal::connect(&url).await.expect_err("no right");
        assert!(error.to_string().contains("grant"), "{error}");
        schema.sql(&format!("CREATE SCHEMA {name} AUTHORIZATION {name}"));
        let journal: Arc<dyn Journal> = Arc::new(connect(&url).await);
        load(&journal, &many(3)).await;
        load(&journal, &many(5)).await; // by the slow way
        assert_eq!(everything(&journal).await, many(5));

        schema.sql(&format!(
            "ALTER ROLE {name} SET default_transaction_read_only TO on"
        ));
        let journal = PostgresJournal::connect(&url).await.expect("it only reads");
        let error = journal.load(vec![batch(&many(9))]).await;
        let error = error.expect_err("read only");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("primary"), "{error}");
    });
}

/// Everybody may make them unless a database takes that away.
#[test]
fn a_role_that_may_make_no_temporary_tables_loads_again_what_is_there() {
    play(async {
        let (server, name) = (shared_postgres(), schema());
        for statement in [
            "CREATE ROLE $ LOGIN PASSWORD 'x'",
            "CREATE DATABASE $",
            "REVOKE ALL ON DATABASE $ FROM PUBLIC",
            "GRANT CONNECT, CREATE ON DATABASE $ TO $",
        ] {
            server.sql(&statement.replace('$', &name));
        }
        let url = server
            .url()
            .replace("duly:open-sesame@", &format!("{name}:x@"));
        let url = url.replace("/postgres", &format!("/{name}"));
        let journal: Arc<dyn Journal> = Arc::new(connect(&url).await);
        load(&journal, &many(3)).await;
        load(&journal, &many(5)).await;
        assert_eq!(everything(&journal).await, many(5));
        journal.close().await.expect("a close");
        server.sql(&format!("DROP DATABASE {name} WITH (FORCE)"));
        server.sql(&format!("DROP ROLE {name}"));
    });
}
