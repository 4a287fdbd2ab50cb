//! A throttle of logins: guesses of one client for one name are slow, and nobody else waits.
//!
//! Clients are told apart by address, and by a cookie that a browser has since a user logged in with
//! it: behind a proxy all have one address, and there a guesser would lock everybody out.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::{Mutex, MutexGuard};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::access::User;
use crate::cookies::cookie;

/// The cookie of a browser that a user has logged in with.
pub(crate) const DEVICE: &str = "duly_device";

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
/// bits. A browser that a user has logged in with is one beside its address, by the cookie
/// `duly_device`: who logs in there again is not locked out by those who guess from the same
/// address, as behind a proxy. All browsers of a user are one, and they have ten wrong logins beside those of their address.
///
/// Clones count together, and know the same browsers, which are forgotten with the process. Share
/// one between a [`Dashboard`](crate::Dashboard) and whatever else checks the same passwords.
///
/// ```
/// # use std::net::{IpAddr, Ipv4Addr};
/// use duly_dashboard::LoginThrottle;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let throttle = LoginThrottle::default();
/// let (address, headers) = (IpAddr::V4(Ipv4Addr::LOCALHOST), axum::http::HeaderMap::new());
/// match throttle.attempt(Some(address), &headers, "ann") {
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
    devices: DeviceKey,
    clients: Mutex<HashMap<Client, Guesses>>,
}

/// Who guesses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Client {
    Address(Option<IpAddr>),
    /// A browser that this user has logged in with.
    Device(String),
}

/// The wrong logins of a client: until when they count, by the hash of the name.
type Guesses = HashMap<u64, Instant>;

/// A login that may be checked. It counts as wrong unless [`succeeded`](Self::succeeded) is called.
#[derive(Debug)]
#[must_use = "a login that was right has to be told"]
pub struct LoginAttempt {
    throttle: Arc<Throttle>,
    client: Client,
    name: u64,
}

impl LoginThrottle {
    /// Counts a login of a client before it is checked. All clients whose address is not known are
    /// one; a browser that was logged in with is known by the headers of its request.
    ///
    /// # Errors
    ///
    /// How long the client has to wait; the login must not be checked.
    pub fn attempt(
        &self,
        address: Option<IpAddr>,
        headers: &HeaderMap,
        name: &str,
    ) -> Result<LoginAttempt, Duration> {
        let device = cookie(headers, DEVICE).and_then(|text| self.0.devices.user(text));
        // One with too many wrong logins is as any other of its address.
        let of_device = device.map(|user| self.attempt_of(Client::Device(user), name));
        match of_device {
            Some(Ok(attempt)) => Ok(attempt),
            _ => self.attempt_of(Client::Address(address.map(network)), name),
        }
    }

    fn attempt_of(&self, client: Client, name: &str) -> Result<LoginAttempt, Duration> {
        let now = Instant::now();
        let mut clients = self.0.clients();
        make_room(&mut clients, &client, now);
        let guesses = clients.entry(client.clone()).or_default();
        guesses.retain(|_, until| *until > now);
        let mut name = self.0.hasher.hash_one(name).max(OTHER_NAMES + 1);
        if guesses.len() >= NAMES_MAX && !guesses.contains_key(&name) {
            name = OTHER_NAMES;
        }
        let until = guesses.get(&name).copied().unwrap_or(now);
        let wait = (until + INTERVAL).saturating_duration_since(now + INTERVAL * BURST);
        if !wait.is_zero() {
            return Err(wait);
        }
        guesses.insert(name, until + INTERVAL);
        Ok(LoginAttempt {
            throttle: Arc::clone(&self.0),
            client,
            name,
        })
    }

    /// Returns what the cookie of a browser has from now on, as a user has logged in with it.
    pub(crate) fn device(&self, user: &User) -> String {
        self.0.devices.text(&user.name)
    }
}

impl LoginAttempt {
    /// The login was right, and does not count.
    pub fn succeeded(self) {
        self.forget();
    }

    /// It is not known whether the login was right, and it does not count.
    pub(crate) fn forget(self) {
        let mut clients = self.throttle.clients();
        let Some(client) = clients.get_mut(&self.client) else {
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
    fn clients(&self) -> MutexGuard<'_, HashMap<Client, Guesses>> {
        self.clients.lock()
    }
}

/// Signs what browsers keep of the users that have logged in with them.
struct DeviceKey([u8; 32]);

impl std::fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DeviceKey").finish_non_exhaustive()
    }
}

impl Default for DeviceKey {
    fn default() -> Self {
        let mut key = [0; 32];
        if let Err(error) = getrandom::fill(&mut key) {
            tracing::error!(%error, "no random numbers; no browser is known again");
        }
        Self(key)
    }
}

impl DeviceKey {
    /// Returns a user and the proof that the text is ours, as text.
    fn text(&self, user: &str) -> String {
        let proof = self.proof(user);
        format!("{}.{}", encoded(user.as_bytes()), encoded(&proof))
    }

    /// Returns the user of a text that is ours.
    fn user(&self, text: &str) -> Option<String> {
        let (user, proof) = text.split_once('.')?;
        let [user, proof] = [user, proof].map(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let user = String::from_utf8(user?).ok()?;
        let is_ours = !self.is_missing() && self.proof(&user).ct_eq(&proof?).into();
        is_ours.then_some(user)
    }

    fn is_missing(&self) -> bool {
        self.0 == [0; 32]
    }

    fn proof(&self, user: &str) -> Vec<u8> {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return Vec::new(); // never: it takes keys of any length
        };
        mac.update(user.as_bytes());
        mac.finalize().into_bytes().to_vec()
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Forgets clients whose logins count no more, and if that is not enough the one that is next.
fn make_room(clients: &mut HashMap<Client, Guesses>, new: &Client, now: Instant) {
    if clients.len() < CLIENTS_MAX || clients.contains_key(new) {
        return;
    }
    let counts_until = |guesses: &Guesses| guesses.values().max().copied().unwrap_or(now);
    clients.retain(|_, guesses| counts_until(guesses) > now);
    if clients.len() >= CLIENTS_MAX {
        let next = clients
            .iter()
            .min_by_key(|(_, guesses)| counts_until(guesses));
        if let Some(next) = next.map(|(client, _)| client.clone()) {
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
    use crate::access::Role;

    fn attempt(
        throttle: &LoginThrottle,
        address: &str,
        name: &str,
    ) -> Result<LoginAttempt, Duration> {
        throttle.attempt(Some(address.parse().unwrap()), &HeaderMap::new(), name)
    }

    fn guesses(throttle: &LoginThrottle, address: &str, name: &str) -> usize {
        let attempts = (0..1_000).map_while(|_| attempt(throttle, address, name).ok());
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
        let wait = attempt(&throttle, "10.0.0.1", "ann").unwrap_err();
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
            attempt(&throttle, "::1", "ann").unwrap().succeeded();
        }
        assert_eq!(guesses(&throttle, "::1", "ann"), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_browser_that_was_logged_in_with_does_not_wait_for_those_who_guess() {
        let (throttle, address) = (LoginThrottle::default(), IpAddr::from([10, 0, 0, 1]));
        let (ann, other) = (
            User::new("ann", Role::Admin),
            User::new("of ann", Role::View),
        );
        let of = |cookie: &str| {
            let mut headers = HeaderMap::new();
            let cookie = format!("duly_visit=1; {DEVICE}={cookie}");
            headers.insert("cookie", cookie.parse().unwrap());
            headers
        };
        let known = throttle.device(&ann);
        assert_eq!(guesses(&throttle, "10.0.0.1", "ann"), 10);
        // Not by what somebody has made up, or has of another process.
        let foreign = LoginThrottle::default().device(&ann);
        let (user, proof) = known.split_once('.').unwrap();
        let forged = format!("{}.{proof}", encoded(b"bob"));
        for cookie in ["", "ann", user, ".", &format!("{user}."), &foreign, &forged] {
            let attempt = throttle.attempt(Some(address), &of(cookie), "ann");
            assert!(attempt.is_err(), "{cookie}");
        }
        for _ in 0..1_000 {
            let attempt = throttle.attempt(Some(address), &of(&known), "ann");
            attempt.unwrap().succeeded();
        }
        // Whoever has a browser guesses as slowly as others do, for whatever name.
        for user in [&ann, &other] {
            let cookie = of(&throttle.device(user));
            let guesses = (0..1_000).map_while(|_| {
                let attempt = throttle.attempt(Some(address), &cookie, "ann");
                attempt.ok()
            });
            assert_eq!(guesses.count(), 10, "{}", user.name);
        }
        assert_eq!(guesses(&throttle, "10.0.0.2", "ann"), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn many_names_and_many_clients_free_no_guesses() {
        let throttle = LoginThrottle::default();
        assert_eq!(guesses(&throttle, "10.0.0.1", "ann"), 10);
        for name in 0..10_000 {
            attempt(&throttle, "10.0.0.1", &name.to_string()).ok();
        }
        for client in 0..CLIENTS_MAX * 2 {
            let address = Ipv6Addr::from_bits(u128::try_from(client).unwrap() << 64);
            let address = IpAddr::V6(address);
            let attempt = throttle.attempt(Some(address), &HeaderMap::new(), "ann");
            assert!(attempt.is_ok(), "client {client}");
        }
        assert_eq!(guesses(&throttle, "10.0.0.1", "ann"), 0);
        let clients = throttle.0.clients();
        assert!(clients.len() <= CLIENTS_MAX);
        assert!(
            clients
                .values()
                .all(|guesses| guesses.len() <= NAMES_MAX + 1)
        );
    }
}
