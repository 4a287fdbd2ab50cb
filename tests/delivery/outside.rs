//! Handlers with a database, on virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duly::Annotation;
use duly::prelude::*;
use duly::testing::{TestBus, outside};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::servers::shared_postgres;
use crate::world::{ms, secs};

/// Sums what it is given in the database, and sleeps before that if it is told so.
struct Sum {
    pool: PgPool,
    sum: Arc<AtomicU64>,
}

impl Handler for Sum {
    type Payload = (u64, u64);

    async fn handle(&self, event: Event<(u64, u64)>, _cx: &Context) -> Result<(), Failure> {
        let (number, sleep) = event.payload;
        if sleep > 0 {
            tokio::time::sleep(secs(sleep)).await;
        }
        let mut connection = self.pool.acquire().await?;
        let asked = sqlx::query_scalar::<_, i64>("select $1 + 1 from pg_sleep(0.05)");
        let next = asked
            .bind(number as i64)
            .fetch_one(&mut *connection)
            .await?;
        self.sum.fetch_add(next as u64, Ordering::Relaxed);
        match event.attempt() {
            1 => Err(Failure::retry_after(secs(3_600), "once more")),
            _ => Ok(()),
        }
    }
}

/// A bus whose handler has a pool, as everybody makes one.
async fn start() -> (TestBus, PgPool, Arc<AtomicU64>) {
    let pool = PgPoolOptions::new().max_connections(2);
    let pool = pool.connect_lazy(&shared_postgres().url()).unwrap();
    let sum = Arc::<AtomicU64>::default();
    let handler = Sum {
        pool: pool.clone(),
        sum: Arc::clone(&sum),
    };
    let annotation = Annotation::new("sums").workers(4).timeout(secs(60));
    let builder = Bus::builder().only_registered();
    let bus = TestBus::start(builder.register_as(annotation, handler)).await;
    (bus.unwrap(), pool, sum)
}

#[tokio::test(start_paused = true)]
async fn time_stands_still_while_a_handler_waits_for_its_database() {
    let (bus, pool, sum) = start().await;
    let queue = bus.queue_named::<(u64, u64)>("sums").unwrap();
    let numbers = (0..20).map(|number| (number, 0));
    queue.push_many(numbers, secs(60)).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(
        sum.load(Ordering::Relaxed),
        210,
        "each has answered, and none timed out"
    );
    bus.advance(secs(3_599)).await;
    assert_eq!(sum.load(Ordering::Relaxed), 210);
    let took = bus.run_until_idle(secs(60)).await.unwrap();
    assert_eq!((sum.load(Ordering::Relaxed), took.as_secs()), (420, 1));
    let failed = bus.records().failed().page().await.unwrap();
    assert!(
        failed
            .items
            .iter()
            .all(|it| it.error.as_deref() == Some("once more"))
    );
    // What the test asks by itself.
    let before = bus.now();
    let asked = sqlx::query_scalar::<_, i32>("select 7 from pg_sleep(0.05)");
    assert_eq!(outside(asked.fetch_one(&pool)).await.unwrap(), 7);
    assert_eq!(bus.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_sleeps_beside_a_database_sleeps_on_virtual_time() {
    let (bus, pool, sum) = start().await;
    outside(pool.acquire()).await.unwrap();
    let queue = bus.queue_named::<(u64, u64)>("sums").unwrap();
    queue.push((6, 30), When::Now).await.unwrap();
    bus.advance(secs(29)).await;
    assert_eq!(sum.load(Ordering::Relaxed), 0);
    bus.advance(secs(2)).await;
    assert_eq!(sum.load(Ordering::Relaxed), 7);
    let id = queue.push((6, 90), When::Now).await.unwrap().id();
    bus.advance(secs(61)).await;
    let history = bus.history(id).await.unwrap();
    assert_eq!(history[0].cause, Some(duly::records::Cause::TimedOut));
}

/// A database without a socket: a thread that answers after a while of real time.
struct Threaded(std::sync::mpsc::Sender<tokio::sync::oneshot::Sender<u64>>);

impl Handler for Threaded {
    type Payload = u64;

    async fn handle(&self, event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        let (asks, answer) = tokio::sync::oneshot::channel();
        self.0.send(asks).map_err(|_| Failure::permanent("gone"))?;
        assert_eq!(answer.await?, 7 * event.payload);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_of_the_test_holds_the_time_for_what_answers_without_one() {
    // Threads of sqlx that read SQLite files need none.
    for (has_socket, name) in [
        (true, "reader"),
        (false, "reader"),
        (false, "sqlx-sqlite-worker-0"),
    ] {
        let is_seen = has_socket || name != "reader";
        let (asks, asked) = std::sync::mpsc::channel::<tokio::sync::oneshot::Sender<u64>>();
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            for answer in asked {
                let reads_for = if is_seen { ms(50) } else { secs(60) };
                let _ = ended.recv_timeout(reads_for);
                let _ = answer.send(7);
            }
        });
        thread.unwrap();
        let socket = has_socket.then(|| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let annotation = Annotation::new("files").timeout(secs(60)).attempts(1);
        let builder = Bus::builder().only_registered();
        let bus = TestBus::start(builder.register_as(annotation, Threaded(asks)));
        let bus = bus.await.unwrap();
        let queue = bus.queue_named::<u64>("files").unwrap();
        let id = queue.push(1, When::Now).await.unwrap().id();
        bus.advance(secs(61)).await;
        let outcome = if is_seen {
            Outcome::Acked
        } else {
            Outcome::Buried
        };
        assert_eq!(bus.outcomes(id).await.unwrap(), [outcome]);
        drop((socket, ends));
    }
}
