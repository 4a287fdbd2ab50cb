//! A throttle of logins: guesses of one client for one name are slow, and nobody else waits.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// How many wrong logins of a client for a name are checked at once.
const BURST: u32 = 10;
/// How long after the burst each further one waits.
const INTERVAL: Duration = Duration::from_secs(10);
/// The names of a client that are told apart; the others share a place.
const NAMES_MAX: usize = 64;
/// The clients that are told apart. Beyond it the one is forgotten that may go on soonest, which is
/// worth its [`BURST`] of guesses to whoever has this many addresses.
const CLIENTS_MAX: usize = 4_096;
/// The share of a client's names beyond [`NAMES_MAX`].
const OTHER_NAMES: u64 = 0;

/// Slows down guesses of passwords, before they are checked: a client has ten wrong logins for a
/// name, and one more every ten seconds. Clients are told apart by address, of IPv6 by its first 64
/// bits, so nobody is locked out by the guesses of another.
///
/// Clones count together. Share one between a [`Dashboard`](crate::Dashboard) and whatever else
/// checks the same passwords.
///
/// ```
/// # use std::net::{IpAddr, Ipv4Addr};
/// use duly_dashboard::LoginThrottle;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let throttle = LoginThrottle::default();
/// let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// match throttle.attempt(Some(address), "ann") {
///     Ok(attempt) => {
///         let is_right = true; // compare the password
///         if is_right {
///             attempt.succeeded();
///         }
///     }
///     Err(wait) => println!("try again in {wait:?}"),
/// }
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoginThrottle(Arc<Throttle>);

#[derive(Debug, Default)]
struct Throttle {
    hasher: RandomState,
    clients: Mutex<HashMap<Option<IpAddr>, Client>>,
}

/// The wrong logins of a client: until when they count, by the hash of the name.
type Client = HashMap<u64, Instant>;

/// A login that may be checked. It counts as wrong unless [`succeeded`](Self::succeeded) is called.
#[derive(Debug)]
#[must_use = "a login that was right has to be told"]
pub struct LoginAttempt {
    throttle: Arc<Throttle>,
    address: Option<IpAddr>,
    name: u64,
}

impl LoginThrottle {
    /// Counts a login of a client before it is checked. All clients whose address is not known are
    /// one.
    ///
    /// # Errors
    ///
    /// How long the client has to wait; the login must not be checked.
    pub fn attempt(&self, address: Option<IpAddr>, name: &str) -> Result<LoginAttempt, Duration> {
        let now = Instant::now();
        let address = address.map(network);
        let mut clients = self.0.clients();
        make_room(&mut clients, address, now);
        let client = clients.entry(address).or_default();
        client.retain(|_, until| *until > now);
        let mut name = self.0.hasher.hash_one(name).max(OTHER_NAMES + 1);
        if client.len() >= NAMES_MAX && !client.contains_key(&name) {
            name = OTHER_NAMES;
        }
        let until = client.get(&name).copied().unwrap_or(now);
        let wait = (until + INTERVAL).saturating_duration_since(now + INTERVAL * BURST);
        if !wait.is_zero() {
            return Err(wait);
        }
        client.insert(name, until + INTERVAL);
        Ok(LoginAttempt {
            throttle: Arc::clone(&self.0),
            address,
            name,
        })
    }
}

impl LoginAttempt {
    /// The login was right, and does not count.
    pub fn succeeded(self) {
        let mut clients = self.throttle.clients();
        let Some(client) = clients.get_mut(&self.address) else {
            return;
        };
        if let Some(until) = client.get_mut(&self.name)
            && let Some(earlier) = until.checked_sub(INTERVAL)
        {
            *until = earlier;
        }
    }
}

impl Throttle {
    fn clients(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, Client>> {
        self.clients.lock()
    }
}

/// Forgets clients whose logins count no more, and if that is not enough the one that is next.
fn make_room(clients: &mut HashMap<Option<IpAddr>, Client>, new: Option<IpAddr>, now: Instant) {
    if clients.len() < CLIENTS_MAX || clients.contains_key(&new) {
        return;
    }
    let counts_until = |client: &Client| client.values().max().copied().unwrap_or(now);
    clients.retain(|_, client| counts_until(client) > now);
    if clients.len() >= CLIENTS_MAX {
        let next = clients
            .iter()
            .min_by_key(|(_, client)| counts_until(client));
        if let Some(next) = next.map(|(address, _)| *address) {
            clients.remove(&next);
        }
    }
}

/// Returns what stands for a client: its address, of IPv6 the part that its network has assigned.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guesses(throttle: &LoginThrottle, address: &str, name: &str) -> usize {
        let address = address.parse().unwrap();
        let attempts = (0..1_000).map_while(|_| throttle.attempt(Some(address), name).ok());
        attempts.count()
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_are_slow_and_others_do_not_wait() {
        let throttle = LoginThrottle::default();
        assert_eq!(guesses(&throttle, "10.0.0.1", "ann"), 10);
        assert_eq!(guesses(&throttle, "::ffff:10.0.0.1", "ann"), 0);
        assert_eq!(guesses(&throttle, "10.0.0.1", "bob"), 10);
        assert_eq!(guesses(&throttle, "10.0.0.2", "ann"), 10);
        assert_eq!(guesses(&throttle, "2001:db8:0:1::1", "ann"), 10);
        assert_eq!(guesses(&throttle, "2001:db8:0:1::2", "ann"), 0);
        assert_eq!(guesses(&throttle, "2001:db8:0:2::1", "ann"), 10);
        let address = "10.0.0.1".parse().unwrap();
        let wait = throttle.attempt(Some(address), "ann").unwrap_err();
        assert_eq!(wait, INTERVAL);
        tokio::time::advance(wait).await;
        assert_eq!(guesses(&throttle, "10.0.0.1", "ann"), 1);
        tokio::time::advance(INTERVAL * 1_000).await;
        assert_eq!(guesses(&throttle, "10.0.0.1", "ann"), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_right_does_not_count() {
        let throttle = LoginThrottle::default();
        for _ in 0..1_000 {
            throttle.attempt(None, "ann").unwrap().succeeded();
        }
        let wrong = (0..1_000).map_while(|_| throttle.attempt(None, "ann").ok());
        assert_eq!(wrong.count(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn many_names_and_many_clients_free_no_guesses() {
        let throttle = LoginThrottle::default();
        assert_eq!(guesses(&throttle, "10.0.0.1", "ann"), 10);
        for name in 0..10_000 {
            let address = "10.0.0.1".parse().unwrap();
            throttle.attempt(Some(address), &name.to_string()).ok();
        }
        for client in 0..CLIENTS_MAX * 2 {
            let address = Ipv6Addr::from_bits(u128::try_from(client).unwrap() << 64);
            let attempt = throttle.attempt(Some(IpAddr::V6(address)), "ann");
            assert!(attempt.is_ok(), "client {client}");
        }
        assert_eq!(guesses(&throttle, "10.0.0.1", "ann"), 0);
        let clients = throttle.0.clients();
        assert!(clients.len() <= CLIENTS_MAX);
        assert!(clients.values().all(|client| client.len() <= NAMES_MAX + 1));
    }
}
