//! A program whose outbox and whose bus are files of SQLite is killed at any moment: what is handled is
//! what was committed, each as one event, and not before.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly_outbox::{Database, PushIn, Relay, RelayOptions, at_once, schema};
use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

use crate::load::number as variable;
use crate::world::eventually;

/// The folder of the child, and whether it is the last, which pushes nothing and ends when all is done.
const FOLDER: &str = "DULY_OUTBOX_FOLDER";
const IS_LAST: &str = "DULY_OUTBOX_IS_LAST";
/// The numbers of orders that are rolled back begin here.
const ROLLED_BACK: u64 = 1_000_000;

type Shop = Arc<Mutex<Connection>>;

// A kill interrupts what runs, which is tried again after a backoff.
#[delay_event(
    queue = "placed",
    register = false,
    workers = 4,
    attempts = 1000,
    backoff = "fixed(1ms)"
)]
async fn placed(event: Event<u64>, shop: duly::State<Shop>) -> Result<(), Failure> {
    let sql = "insert or ignore into handled select ?1, ?2, \
               not exists (select 1 from orders where number = ?1)";
    let id = event.id().to_string();
    let noted = shop.lock().execute(sql, (event.payload as i64, id));
    Ok(noted.map(drop)?)
}

fn open(folder: &Path) -> Connection {
    let shop = Connection::open(folder.join("shop.db")).unwrap();
    shop.busy_timeout(Duration::from_secs(30)).unwrap();
    // A kill loses nothing that the system has; only a power cut would.
    shop.pragma_update(None, "synchronous", "normal").unwrap();
    shop
}

fn count(shop: &Connection, sql: &str) -> i64 {
    shop.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Places an order in a transaction, which is rolled back now and then.
fn place(shop: &mut Connection, queue: &Queue<u64>) {
    // It reads before it writes: it is to wait for other writers at its begin.
    let immediate = TransactionBehavior::Immediate;
    let mut tx = shop.transaction_with_behavior(immediate).unwrap();
    let is_kept = fastrand::u8(..4) > 0;
    let next = "select coalesce(max(number), 0) + 1 from orders";
    let number = if is_kept {
        count(&tx, next) as u64
    } else {
        ROLLED_BACK + fastrand::u64(..ROLLED_BACK)
    };
    tx.execute("insert into orders values (?1)", [number as i64])
        .unwrap();
    let delay = Duration::from_millis(fastrand::u64(..40));
    at_once(queue.push_in(&mut tx, number, delay)).unwrap();
    if is_kept {
        tx.commit().unwrap();
    } else {
        tx.rollback().unwrap();
    }
}

/// The program of a child: orders, a relay and handlers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_in_files() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let store = format!("sqlite:{}", folder.join("jobs.db").display());
    let builder = Bus::builder().only_registered().store_url(store);
    let builder = builder.register(placed {});
    let handled: Shop = Arc::new(Mutex::new(open(&folder)));
    let bus = builder.state(handled).start().await.unwrap();
    let relay = Relay::rusqlite(&bus, folder.join("shop.db"), RelayOptions::default());
    let relay = relay.await.unwrap();
    let (mut shop, queue) = (open(&folder), bus.queue::<placed>());
    while env::var_os(IS_LAST).is_none() {
        tokio::task::block_in_place(|| place(&mut shop, &queue));
        tokio::task::yield_now().await;
    }
    // Much may be left of those that were killed: what counts is that it goes on.
    let handled = || count(&shop, "select count(*) from handled");
    let left = async || {
        // First those of the outbox, as they go from there to the store.
        let waits =
            "select (select count(*) from duly_outbox) + count(*) from duly_outbox_deferred";
        let waits = count(&shop, waits) as usize;
        let stats = bus.stats("placed").await.unwrap();
        waits + stats.scheduled + stats.ready + stats.leased
    };
    while left().await > 0 {
        let before = handled();
        eventually("more is handled", async || {
            handled() > before || left().await == 0
        })
        .await;
    }
    relay.stop().await;
    bus.shutdown(Duration::from_secs(10)).await.unwrap();
}

fn child(folder: &Path) -> Command {
    let mut command = Command::new(env::current_exe().expect("the test binary"));
    command.args(["--exact", "files::a_shop_in_files", "--nocapture"]);
    command.env(FOLDER, folder);
    command
}

/// Kills it on the way out of a test that fails, too.
pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    /// Sends a signal: `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("there is kill").success());
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().expect("it is killed");
        self.0.wait().expect("it has ended");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_program_committed_in_a_file_is_handled_and_nothing_else() {
    let kills = variable("DULY_OUTBOX_KILLS", 12);
    let seed = variable("DULY_OUTBOX_SEED", fastrand::u64(..1 << 32));
    println!("DULY_OUTBOX_SEED={seed} DULY_OUTBOX_KILLS={kills}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let shop = open(folder.path());
    shop.pragma_update(None, "journal_mode", "wal").unwrap();
    shop.execute_batch(schema(Database::Sqlite)).unwrap();
    let tables = "create table orders (number integer primary key); \
                  create table handled (number integer, event text, early integer, \
                  primary key (number, event))";
    shop.execute_batch(tables).unwrap();
    for kill in 0..kills {
        let placed = count(&shop, "select count(*) from orders");
        let mut command = child(folder.path());
        let _killed = Killed(command.stdout(Stdio::null()).spawn().unwrap());
        let places = async || count(&shop, "select count(*) from orders") > placed;
        eventually(&format!("program {kill} places orders"), places).await;
        // The moment of the kill; nothing is concluded from it.
        tokio::time::sleep(Duration::from_millis(random.u64(..300))).await;
    }
    let ended = child(folder.path()).env(IS_LAST, "yes").output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let placed = count(&shop, "select count(*) from orders");
    assert!(placed >= i64::try_from(kills).unwrap());
    for (fault, sql) in [
        (
            "lost",
            "select count(*) from orders where number not in (select number from handled)",
        ),
        (
            "handled without a commit",
            "select count(*) from handled where number not in (select number from orders)",
        ),
        (
            "handled before its commit",
            "select count(*) from handled where early",
        ),
        (
            "two events",
            "select count(*) from (select 1 from handled group by number having count(*) > 1)",
        ),
        ("put aside", "select count(*) from duly_outbox_refused"),
    ] {
        assert_eq!(count(&shop, sql), 0, "of {placed} {fault}");
    }
    println!("{placed} orders, {kills} kills");
}
