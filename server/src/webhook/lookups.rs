//! Lookups of names, of which few are under way at a time.
//!
//! The resolver of the system blocks a thread until it gives up, which takes far longer than a
//! webhook waits. So a lookup goes on without whoever has asked, and what asks for the same name
//! waits for that one; each holds its places until the thread is free again.
//!
//! To wait for a place is no fault of a name: [`Lookups::ready`] waits before a request begins, and
//! [`Lookups::find`], whose time is that of the request, never does. What was found last serves
//! while there is no place, and names that were slow last time leave some places to the others.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

/// The most lookups that are under way: a runtime has 512 threads that may block.
const LOOKUPS_MAX: usize = 256;
/// The most of a namespace, however many of its webhooks have names that nobody knows.
pub(super) const LOOKUPS_OF_NAMESPACE_MAX: usize = 16;
/// The most of a namespace that are of names whose last lookup was slow.
const SLOW_OF_NAMESPACE_MAX: usize = 12;
/// How long a lookup takes at least that is slow.
const SLOW: Duration = Duration::from_secs(1);
/// How long addresses are used without another lookup: they are there when the request begins for
/// which they were looked up.
const FRESH: Duration = Duration::from_secs(5);
/// As [`FRESH`], of a failure, which fails every event of the host meanwhile.
const FAILED_FRESH: Duration = Duration::from_millis(500);
/// How long what was found serves while there is no place for another lookup, or that one is silent.
const STALE_MAX: Duration = Duration::from_secs(3_600);
/// How long a lookup may be silent where addresses are known.
const SILENT_MAX: Duration = Duration::from_millis(500);
/// How long a place is waited for. Whoever has waited for so long begins anew, and says why.
const PLACE_MAX: Duration = Duration::from_secs(30);
/// How often who waits for a place looks whether another one has found the name.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The most names of which is known what was found: more than there are webhooks.
const KNOWN_MAX: usize = 4_096;

/// What a lookup has found; the error is one for all who wait.
type Lookup = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;
/// A lookup under way.
type Running = watch::Receiver<Option<Lookup>>;
/// What blocks until a name is looked up.
type Resolver = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The lookups of a server; a clone is the same ones.
#[derive(Clone)]
pub(super) struct Lookups(Arc<Inner>);

struct Inner {
    resolver: Box<Resolver>,
    place_max: Duration,
    all: Arc<Semaphore>,
    /// Those of each namespace that looks something up, or waits for it.
    of_namespace: Mutex<HashMap<String, OfNamespace>>,
    names: Mutex<Names>,
}

#[derive(Clone)]
struct OfNamespace {
    all: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

#[derive(Default)]
struct Names {
    running: HashMap<String, Running>,
    known: HashMap<String, Known>,
}

/// What the last lookup of a name has found.
struct Known {
    found: Lookup,
    ended: Instant,
    was_slow: bool,
    /// The addresses that were found last, and when.
    addresses: Option<(Vec<SocketAddr>, Instant)>,
}

/// Why a name has no addresses.
#[derive(Debug)]
pub(super) enum LookupError {
    /// Its lookup would have to wait for a place; it was not tried.
    NoPlace(NoPlace),
    Failed(io::Error),
}

/// There is no place for a lookup, which is no fault of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoPlace;

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "full: too many names of webhooks are being looked up, and do not respond; the event \
             stays in its queue until there is a place, which costs no attempt",
        )
    }
}

impl std::error::Error for NoPlace {}

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

impl Lookups {
    pub(super) fn new(
        resolver: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self::within(PLACE_MAX, resolver)
    }

    /// Lookups of which a place is waited for so long.
    pub(super) fn within(
        place_max: Duration,
        resolver: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            resolver: Box::new(resolver),
            place_max,
            all: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            of_namespace: Mutex::default(),
            names: Mutex::default(),
        }))
    }

    /// Whether [`find`](Self::find) would wait for no place.
    pub(super) fn is_ready(&self, name: &str) -> bool {
        let names = self.0.names.lock();
        names.running.contains_key(name)
            || names.fresh(name).is_some()
            || names.addresses(name).is_some()
    }

    /// Waits for a place for a bounded time, where a lookup of a name needs one, and begins it.
    pub(super) async fn ready(&self, namespace: &str, name: &str) -> Result<(), NoPlace> {
        if self.is_ready(name) {
            return Ok(());
        }
        let ends = Instant::now() + self.0.place_max;
        let places = self.of_namespace(namespace);
        let was_slow = self.0.names.lock().was_slow(name);
        let mut places = pin!(async {
            let slow = if was_slow {
                places.slow.acquire_owned().await.ok()
            } else {
                None
            };
            let own = places.all.acquire_owned().await.ok();
            let all = Arc::clone(&self.0.all).acquire_owned().await.ok();
            [slow, own, all].into_iter().flatten().collect()
        });
        loop {
            let places = timeout(LOOK_EVERY, &mut places).await;
            if self.is_ready(name) {
                return Ok(());
            }
            if let Ok(places) = places {
                self.start(name, places);
                return Ok(());
            }
            if Instant::now() >= ends {
                return Err(NoPlace);
            }
        }
    }

    /// Looks a name up for a namespace, or waits for the lookup that is under way; never for a place.
    pub(super) async fn find(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<SocketAddr>, LookupError> {
        let (fresh, running, addresses) = {
            let names = self.0.names.lock();
            let running = names.running.get(name).cloned();
            (names.fresh(name), running, names.addresses(name))
        };
        let running = || {
            running.or_else(|| {
                let places = self.try_places(namespace, name)?;
                self.start(name, places)
            })
        };
        let found = match fresh {
            Some(found) => found,
            None => match (running(), addresses) {
                (Some(running), None) => ended(running).await?,
                (Some(running), Some(addresses)) => {
                    match timeout(SILENT_MAX, ended(running)).await {
                        Ok(found) => found?,
                        Err(_) => Ok(addresses),
                    }
                }
                (None, Some(addresses)) => Ok(addresses),
                // The request has waited for more than the lookup since that has failed.
                (None, None) => match self.0.names.lock().failure(name) {
                    Some(failure) => failure,
                    None => return Err(LookupError::NoPlace(NoPlace)),
                },
            },
        };
        found.map_err(|(kind, text)| LookupError::Failed(io::Error::new(kind, text)))
    }

    fn of_namespace(&self, namespace: &str) -> OfNamespace {
        let mut of_namespace = self.0.of_namespace.lock();
        // Each place, and each that waits for one, has a part of it.
        of_namespace
            .retain(|_, it| Arc::strong_count(&it.all) > 1 || Arc::strong_count(&it.slow) > 1);
        let new = || OfNamespace {
            all: Arc::new(Semaphore::new(LOOKUPS_OF_NAMESPACE_MAX)),
            slow: Arc::new(Semaphore::new(SLOW_OF_NAMESPACE_MAX)),
        };
        let places = of_namespace.entry(namespace.to_owned());
        places.or_insert_with(new).clone()
    }

    /// Returns the places of a lookup if there are some now.
    fn try_places(&self, namespace: &str, name: &str) -> Option<Vec<OwnedSemaphorePermit>> {
        let places = self.of_namespace(namespace);
        let mut held = Vec::new();
        if self.0.names.lock().was_slow(name) {
            held.push(places.slow.try_acquire_owned().ok()?);
        }
        held.push(places.all.try_acquire_owned().ok()?);
        held.push(Arc::clone(&self.0.all).try_acquire_owned().ok()?);
        Some(held)
    }

    /// Begins a lookup, unless another one of the name has begun meanwhile.
    fn start(&self, name: &str, places: Vec<OwnedSemaphorePermit>) -> Option<Running> {
        let mut names = self.0.names.lock();
        if let Some(running) = names.running.get(name) {
            return Some(running.clone());
        }
        let (sender, receiver) = watch::channel(None);
        names.running.insert(name.to_owned(), receiver.clone());
        let mut ended = LookupEnd {
            inner: Arc::clone(&self.0),
            name: name.to_owned(),
            known: None,
            _places: places,
        };
        drop(names); // a runtime that ends drops what it is given here and now, which takes the lock
        tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let found = (ended.inner.resolver)(&ended.name);
            let found = found.map_err(|error| (error.kind(), error.to_string()));
            ended.known = Some(Known::new(found.clone(), began.elapsed() >= SLOW));
            drop(ended);
            sender.send_replace(Some(found));
        });
        Some(receiver)
    }
}

/// Waits for the end of a lookup.
async fn ended(mut running: Running) -> Result<Lookup, LookupError> {
    let found = running.wait_for(Option::is_some).await;
    let found = found.ok().and_then(|found| found.clone());
    // A resolver that panics leaves nothing.
    found.ok_or_else(|| LookupError::Failed(io::Error::other("the name was not looked up")))
}

impl Known {
    fn new(found: Lookup, was_slow: bool) -> Self {
        let ended = Instant::now();
        let addresses = found.as_ref().ok().map(|found| (found.clone(), ended));
        Self {
            found,
            ended,
            was_slow,
            addresses,
        }
    }
}

impl Names {
    fn fresh(&self, name: &str) -> Option<Lookup> {
        let known = self.known.get(name)?;
        let most = match known.found {
            Ok(_) => FRESH,
            Err(_) => FAILED_FRESH,
        };
        (known.ended.elapsed() < most).then(|| known.found.clone())
    }

    fn addresses(&self, name: &str) -> Option<Vec<SocketAddr>> {
        let (addresses, found) = self.known.get(name)?.addresses.as_ref()?;
        (found.elapsed() < STALE_MAX).then(|| addresses.clone())
    }

    fn failure(&self, name: &str) -> Option<Lookup> {
        let known = self.known.get(name)?;
        let is_failure = known.found.is_err() && known.ended.elapsed() < STALE_MAX;
        is_failure.then(|| known.found.clone())
    }

    fn was_slow(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|known| known.was_slow)
    }

    /// Ends a lookup, and keeps what it has found.
    fn end(&mut self, name: &str, known: Option<Known>) {
        self.running.remove(name);
        let Some(mut known) = known else { return };
        let before = self.known.remove(name).and_then(|known| known.addresses);
        known.addresses = known.addresses.or(before);
        self.known.insert(name.to_owned(), known);
        if self.known.len() > KNOWN_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.ended);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.known.remove(&oldest);
            }
        }
    }
}

/// Ends a lookup when it is dropped: the next one of its name begins anew.
struct LookupEnd {
    inner: Arc<Inner>,
    name: String,
    known: Option<Known>,
    _places: Vec<OwnedSemaphorePermit>,
}

impl Drop for LookupEnd {
    fn drop(&mut self) {
        self.inner.names.lock().end(&self.name, self.known.take());
    }
}

#[cfg(test)]
mod tests;
