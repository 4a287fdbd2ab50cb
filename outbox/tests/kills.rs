//! What kills beside a load: servers, relays and clients, again and again.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::files::Killed;
use crate::load::Server;
use crate::servers::Redis;

pub(crate) const CHILD_DATABASE: &str = "DULY_OUTBOX_CHILD_DATABASE";
pub(crate) const CHILD_STORE: &str = "DULY_OUTBOX_CHILD_STORE";
pub(crate) const CHILD_FIRST: &str = "DULY_OUTBOX_CHILD_FIRST";
/// What a client prints once it has placed its first order.
pub(crate) const PLACED: &str = "the first order is placed";
/// The orders of a client in a process begin with a multiple of this.
pub(crate) const ORDERS_OF_CLIENT: u64 = 1_000;
/// Kills go on for so many rounds at least, in which each kind of them comes.
const ROUNDS_MIN: u64 = 8;

/// A relay, or a client whose orders begin with a number.
pub(crate) fn child(database: &str, store: &str, first: Option<u64>) -> Killed {
    let mut command = Command::new(env::current_exe().expect("the test binary"));
    let program = match first {
        None => "load::a_relay_in_a_process_of_its_own",
        Some(_) => "load::a_client_in_a_process_of_its_own",
    };
    command.args(["--exact", program, "--nocapture"]);
    command
        .env(CHILD_DATABASE, database)
        .env(CHILD_STORE, store);
    if let Some(first) = first {
        command.env(CHILD_FIRST, first.to_string());
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    Killed(child.expect("the child starts"))
}

/// Kills the server now and then, and relays and clients of children again and again. Some relays are
/// stopped instead, and go on once all is over or others have long had what they were at.
pub(crate) fn kill(
    is_over: &AtomicBool,
    server: &Mutex<Server>,
    redis: &Mutex<Redis>,
    (url, store, seed): (&str, &str, u64),
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut rounds, mut stopped) = (0_u64, None);
    while rounds < ROUNDS_MIN || !is_over.load(Ordering::Relaxed) {
        let mut client = child(url, store, Some((rounds + 1) * ORDERS_OF_CLIENT));
        let relay = child(url, store, None);
        let lines = BufReader::new(client.0.stdout.take().expect("a pipe")).lines();
        let placed = lines
            .map_while(Result::ok)
            .find(|line| line.ends_with(PLACED));
        // The moment of the kill; nothing is concluded from it.
        std::thread::sleep(Duration::from_millis(random.u64(..300)));
        drop((client, placed));
        rounds += 1;
        if rounds % 12 == 1 {
            relay.signal("STOP");
            if let Some(stopped) = stopped.replace(relay) {
                goes_on(&stopped);
            }
        } else {
            drop(relay);
        }
        match rounds % 8 {
            0 => server.lock().restart(false),
            4 => server.lock().restart(true),
            2 | 6 => redis.lock().restart(),
            _ => {}
        }
    }
    if let Some(stopped) = stopped {
        goes_on(&stopped);
    }
    println!("{rounds} rounds of kills");
}

/// Resumes a relay, and lets it go on for a while; then it is dropped, which kills it.
fn goes_on(relay: &Killed) {
    relay.signal("CONT");
    std::thread::sleep(Duration::from_millis(500));
}
