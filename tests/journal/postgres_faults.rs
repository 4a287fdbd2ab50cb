//! PostgreSQL that dies, hangs, refuses or is far away, and a journal in it all the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::ErrorKind;
use duly::journal::{Journal, PostgresJournal};
use duly::records::{Numbered, Query};

use crate::journal::harness::play;
use crate::journal::postgres::{Schema, connect};
use crate::journal::sample::{
    batch, batch_of, counted, everything, load, many, minutes, queue, with,
};
use crate::servers::{Fault, PASSWORD, Postgres, PostgresOptions, Proxy, shared_postgres};

/// Loads records in parts, each again until it is taken.
async fn load_until_taken(journal: &Arc<dyn Journal>, records: &[Numbered], part: usize) -> usize {
    let mut refused = 0;
    for part in records.chunks(part) {
        while let Err(error) = journal.load(vec![batch(part)]).await {
            let kinds = [
                ErrorKind::Unavailable,
                ErrorKind::Unknown,
                ErrorKind::TimedOut,
            ];
            assert!(kinds.contains(&error.kind()), "{error:?}");
            refused += 1;
            assert!(refused < 10_000, "{error:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    refused
}

/// The URL of a journal behind a proxy.
fn behind(proxy: &Proxy, schema: &Schema, options: &str) -> String {
    let port = proxy.port();
    format!(
        "postgres://duly:{PASSWORD}@127.0.0.1:{port}/postgres?sslmode=disable&schema={}{options}",
        schema.name()
    )
}

#[test]
fn a_server_killed_again_and_again_has_every_record_once() {
    let mut server = Postgres::start(PostgresOptions::default());
    let url = format!("{}?timeout=5s", server.url());
    play(async {
        let journal: Arc<dyn Journal> = Arc::new(connect(&url).await);
        let records = many(12_000);
        let (loading, there) = (Arc::clone(&journal), records.clone());
        let done = Arc::new(AtomicBool::new(false));
        let is_done = Arc::clone(&done);
        let loader = tokio::spawn(async move {
            let refused = load_until_taken(&loading, &there, 40).await;
            is_done.store(true, Ordering::Release);
            refused
        });
        for loaded in [500, 2_000, 4_000, 6_000] {
            // A number of rows that is passed at some time, seen from outside.
            while !done.load(Ordering::Acquire) {
                let count = server.sql("SELECT coalesce(sum(records), 0) FROM duly.weeks");
                if count.parse::<u64>().is_ok_and(|count| count >= loaded) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            server.restart();
        }
        let refused = loader.await.expect("a loader");
        assert!(refused > 0, "no kill was noticed");
        assert!(everything(&journal).await == records);
        assert_eq!(minutes(&journal).await, counted(&records));
    });
}

/// The recorder tries such an outbox alone: the others do not wait for it.
#[test]
fn what_the_tables_refuse_of_an_outbox_is_refused_and_all_else_is_taken() {
    let raise = |code: &str| {
        format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.queue = 'refused' THEN RAISE EXCEPTION 'not here' {code}; END IF; \
             RETURN NEW; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    };
    for refuse in [
        raise(""),
        raise("USING ERRCODE = '22003'"),
        raise("USING ERRCODE = '23503'"),
        raise("USING ERRCODE = 'check_violation'"),
    ] {
        play(async {
            let schema = Schema::new();
            let journal: Arc<dyn Journal> = Arc::new(connect(&schema.url()).await);
            schema.sql(&refuse);
            let bad = many(3).pop().expect("three");
            let bad = [with(bad, |it| it.queue = queue("refused"))];
            let batches = [batch(&many(2)), batch_of("other", &bad)];
            for refused in [batches.to_vec(), vec![batches[1].clone()]] {
                let error = journal.load(refused).await.expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::Invalid, "{refuse}: {error}");
            }
            load(&journal, &many(2)).await;
            assert_eq!(everything(&journal).await, many(2), "{refuse}");
            assert_eq!(minutes(&journal).await, counted(&many(2)), "{refuse}");
        });
    }
    // A server that cannot is another matter.
    play(async {
        let schema = Schema::new();
        let journal: Arc<dyn Journal> = Arc::new(connect(&schema.url()).await);
        schema.sql(&raise("USING ERRCODE = '53200'"));
        let bad = [with(many(1).remove(0), |it| it.queue = queue("refused"))];
        let error = journal.load(vec![batch(&bad)]).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    });
}

#[test]
fn a_connection_cut_anywhere_loses_and_doubles_nothing() {
    play(async {
        let schema = Schema::new();
        let proxy = Proxy::before(shared_postgres().address());
        let journal: Arc<dyn Journal> = Arc::new(connect(&behind(&proxy, &schema, "")).await);
        let records = many(3_000);
        let mut refused = 0;
        for (at, part) in records.chunks(100).enumerate() {
            let fault = [Fault::CutBefore, Fault::CutAfter, Fault::CutWithin][at % 3];
            let mut left = at / 3; // the piece that is cut comes later and later
            proxy.on_request(move |_| {
                left = left.wrapping_sub(1);
                (left == usize::MAX).then_some(fault)
            });
            refused += load_until_taken(&journal, part, 100).await;
        }
        proxy.heal();
        assert!(refused > 10, "{refused} cuts were noticed");
        assert_eq!(everything(&journal).await, records);
        assert_eq!(minutes(&journal).await, counted(&records));
    });
}

#[test]
fn a_lost_answer_to_a_commit_is_not_known() {
    play(async {
        let schema = Schema::new();
        let proxy = Proxy::before(shared_postgres().address());
        let journal: Arc<dyn Journal> = Arc::new(connect(&behind(&proxy, &schema, "")).await);
        load(&journal, &many(1)).await;
        let is_commit = |piece: &[u8]| piece.windows(7).any(|word| word == b"COMMIT\0");
        proxy.on_request(move |piece| is_commit(piece).then_some(Fault::CutAfter));
        let error = journal.load(vec![batch(&many(2))]).await;
        assert_eq!(error.expect_err("cut").kind(), ErrorKind::Unknown);
        proxy.heal();
        // It had been carried out; the same again changes nothing.
        assert_eq!(everything(&journal).await, many(2));
        load(&journal, &many(2)).await;
        assert_eq!(everything(&journal).await, many(2));
        assert_eq!(minutes(&journal).await, counted(&many(2)));
    });
}

#[test]
fn a_server_that_hangs_is_given_up_and_answers_later() {
    let server = Postgres::start(PostgresOptions::default());
    let url = format!("{}?timeout=3s&connect_timeout=3s", server.url());
    play(async {
        let journal: Arc<dyn Journal> = Arc::new(connect(&url).await);
        load(&journal, &many(1)).await;
        server.stop_process();
        let began = tokio::time::Instant::now();
        let (loaded, read) = tokio::join!(
            journal.load(vec![batch(&many(2))]),
            journal.page(Query::default())
        );
        assert_eq!(loaded.expect_err("stopped").kind(), ErrorKind::TimedOut);
        assert_eq!(read.expect_err("stopped").kind(), ErrorKind::TimedOut);
        let again = journal.page(Query::default()).await;
        assert_eq!(again.expect_err("stopped").kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(30));
        server.cont();
        load_until_taken(&journal, &many(3), 3).await;
        assert_eq!(everything(&journal).await, many(3));
    });
}

#[test]
fn a_server_that_is_away_is_connected_to_when_it_is_back() {
    let mut server = Postgres::start(PostgresOptions::default());
    let url = server.url();
    server.kill();
    play(async {
        let journal = PostgresJournal::new(&url).expect("nothing is tried yet");
        let error = PostgresJournal::connect(&url).await.expect_err("away");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!format!("{error:?} {journal:?}").contains(PASSWORD));
        let journal: Arc<dyn Journal> = Arc::new(journal);
        let error = journal.load(vec![batch(&many(1))]).await;
        assert_eq!(error.expect_err("away").kind(), ErrorKind::Unavailable);
        server.restart();
        load(&journal, &many(1)).await;
        assert_eq!(everything(&journal).await, many(1));
    });
}

#[test]
fn a_full_disk_says_so_and_keeps_all_or_nothing() {
    play(async {
        let schema = Schema::new();
        let journal: Arc<dyn Journal> = Arc::new(connect(&schema.url()).await);
        load(&journal, &many(1)).await;
        // What a server says whose disk is full, wherever in the load that shows.
        schema.sql(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$; \
             CREATE TRIGGER full_disk BEFORE INSERT ON minutes EXECUTE FUNCTION full_disk()",
        );
        let error = journal.load(vec![batch(&many(5))]).await;
        assert_eq!(error.expect_err("full").kind(), ErrorKind::Full);
        assert_eq!(everything(&journal).await, many(1));
        schema.sql("DROP TRIGGER full_disk ON minutes");
        load(&journal, &many(5)).await;
        assert_eq!(everything(&journal).await, many(5));
        assert_eq!(minutes(&journal).await, counted(&many(5)));
    });
}

#[test]
fn who_may_not_come_in_is_told_why_and_the_password_is_not() {
    play(async {
        let url = shared_postgres().url();
        for (wrong, said) in [
            (
                url.replace(PASSWORD, "sesame-closed"),
                "check the user and the password",
            ),
            (url.replace("/postgres", "/nowhere"), "create the database"),
            (
                url.replace("//duly:", "//nobody:"),
                "check the user and the password",
            ),
        ] {
            let error = PostgresJournal::connect(&wrong).await;
            let error = error.map(|_| ()).expect_err(said);
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            let text = format!("{error} {error:?}");
            assert!(text.contains(said), "{text}");
            for password in [PASSWORD, "sesame-closed"] {
                assert!(!text.contains(password), "{text}");
            }
        }
    });
}

/// What is logged while `call` runs.
fn logged<T>(call: impl FnOnce() -> T) -> (T, String) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || Lines(Arc::clone(&writer)))
        .finish();
    // Where there is one subscriber only, a line that another thread reaches first, which has none,
    // is off for everybody.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let answer = tracing::subscriber::with_default(subscriber, call);
    let lines = lines.lock().expect("nobody panics with it").clone();
    (answer, String::from_utf8(lines).expect("a log is text"))
}

struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut lines = self.0.lock().expect("nobody panics with it");
        lines.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn to_another_machine_nothing_goes_in_the_clear_unless_the_url_says_so() {
    let server = Postgres::start(PostgresOptions {
        tls: true,
        ..PostgresOptions::default()
    });
    // A name of this machine that does not look like one: it is resolved, and leads to 127.0.0.1.
    let elsewhere = |url: &str| url.replace("127.0.0.1", "127.1");
    let plain = Schema::new();
    play(async {
        for url in [
            elsewhere(&plain.url()),
            // By an authority that this machine does not know.
            elsewhere(&format!("{}?schema=elsewhere", server.url())),
        ] {
            let refused = PostgresJournal::connect(&url).await;
            let said = refused.expect_err("in the clear").to_string();
            assert!(said.contains("TLS"), "{said}");
            assert!(said.contains("sslmode=disable"), "{said}");
            let preferred = format!("{url}&sslmode=prefer");
            let (opened, log) = logged(|| PostgresJournal::new(&preferred));
            assert_eq!(log.matches("may be in the clear").count(), 1, "{log}");
            assert!(log.contains("WARN") && !log.contains(PASSWORD), "{log}");
            drop(opened);
            connect(&preferred).await.close().await.expect("a close");
        }
        let here = format!("{}&sslmode=prefer", plain.url());
        assert_eq!(logged(|| PostgresJournal::new(&here)).1, "");
    });
}

#[test]
fn what_is_encrypted_is_verified() {
    let server = Postgres::start(PostgresOptions {
        tls: true,
        ..PostgresOptions::default()
    });
    let authority = format!("sslrootcert={}", server.authority().display());
    let is_encrypted = || {
        let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl AS s JOIN pg_stat_activity AS a \
                   USING (pid) WHERE a.application_name = 'duly'";
        server.sql(sql)
    };
    play(async {
        let ask = async |options: &str| {
            let journal = PostgresJournal::connect(&format!("{}?{options}", server.url())).await;
            let journal = journal.map_err(|error| error.to_string())?;
            let encrypted = is_encrypted();
            journal.close().await.expect("a close");
            while !is_encrypted().is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await; // the connection is ending
            }
            Ok::<_, String>(encrypted)
        };
        let verified = format!("sslmode=require&{authority}");
        assert_eq!(ask(&verified).await.as_deref(), Ok("t"));
        let verified = format!("sslmode=prefer&{authority}");
        assert_eq!(ask(&verified).await.as_deref(), Ok("t"));
        assert_eq!(ask("sslmode=disable").await.as_deref(), Ok("f"));
        // By whom this machine trusts, which is not whom the tests made up.
        let refused = ask("sslmode=require").await.expect_err("not verified");
        assert!(refused.contains("certificate"), "{refused}");
        assert_eq!(ask("sslmode=prefer").await.as_deref(), Ok("f"));
        let refused = ask("sslmode=require&sslrootcert=/nowhere").await;
        assert!(refused.expect_err("no file").contains("/nowhere"));
    });
    let plain = format!("{}?sslmode=require&{authority}", shared_postgres().url());
    play(async {
        let refused = PostgresJournal::connect(&plain).await.expect_err("no TLS");
        assert!(refused.to_string().contains("TLS"), "{refused}");
    });
}
