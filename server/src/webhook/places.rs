//! Places for requests of a server, which namespaces share.
//!
//! A namespace takes another place while it has fewer than are free. So one alone has half of them,
//! several come to equal parts and leave one more, and whoever comes finds a place, however long the
//! requests of others take.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The places.
#[derive(Debug)]
pub(super) struct RequestPlaces {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    free: usize,
    /// The number of the next that waits.
    next: u64,
    namespaces: HashMap<Arc<str>, Namespace>,
}

/// A namespace that has places, or waits for some.
#[derive(Debug, Default)]
struct Namespace {
    taken: usize,
    /// Those that wait, the first that came first.
    waiting: BTreeMap<u64, oneshot::Sender<RequestPlace>>,
}

/// A place of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct RequestPlace {
    places: Arc<RequestPlaces>,
    namespace: Arc<str>,
}

/// One that waits for a place; it is in the table until it is dropped, or has got one.
struct Waiting<'a> {
    places: &'a RequestPlaces,
    namespace: &'a Arc<str>,
    number: u64,
}

impl RequestPlaces {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::new(Table {
                free: most,
                next: 0,
                namespaces: HashMap::new(),
            }),
        })
    }

    /// Waits for a place of a namespace, and takes up to `most` if there are more.
    pub(super) async fn take_some(
        self: &Arc<Self>,
        namespace: &Arc<str>,
        most: usize,
    ) -> Vec<RequestPlace> {
        let mut taken = vec![self.take(namespace).await];
        taken.extend(self.take_free(namespace, most.saturating_sub(1)));
        taken
    }

    /// Takes up to `most` places that a namespace gets now.
    pub(super) fn take_free(
        self: &Arc<Self>,
        namespace: &Arc<str>,
        most: usize,
    ) -> impl Iterator<Item = RequestPlace> {
        let taken = self.table.lock().take_free(namespace, most);
        let (places, namespace) = (Arc::clone(self), Arc::clone(namespace));
        (0..taken).map(move |_| RequestPlace {
            places: Arc::clone(&places),
            namespace: Arc::clone(&namespace),
        })
    }

    /// Waits for a place of a namespace.
    pub(super) async fn take(self: &Arc<Self>, namespace: &Arc<str>) -> RequestPlace {
        let (sender, place) = oneshot::channel();
        let number = self.table.lock().add(namespace, sender);
        let _waiting = Waiting {
            places: self,
            namespace,
            number,
        };
        self.hand_out();
        match place.await {
            Ok(place) => place,
            Err(_) => pending().await, // never: the sender stays until it has sent
        }
    }

    /// Hands out a place, if there is one for somebody who waits. There is never a second one: each
    /// that is taken or given back changes the bound of a namespace by one place.
    fn hand_out(self: &Arc<Self>) {
        let next = self.table.lock().take_next();
        if let Some((namespace, waiting)) = next {
            let places = Arc::clone(self);
            // If it does not wait any more, the place is dropped, and goes to the next.
            drop(waiting.send(RequestPlace { places, namespace }));
        }
    }
}

impl Table {
    fn add(&mut self, namespace: &Arc<str>, waiting: oneshot::Sender<RequestPlace>) -> u64 {
        let number = self.next;
        self.next += 1;
        let namespace = self.namespaces.entry(Arc::clone(namespace)).or_default();
        namespace.waiting.insert(number, waiting);
        number
    }

    /// Takes a place for the namespace that has the fewest of those that wait and may have another.
    fn take_next(&mut self) -> Option<(Arc<str>, oneshot::Sender<RequestPlace>)> {
        let free = self.free;
        let all = self.namespaces.iter_mut();
        let may = all.filter(|(_, it)| !it.waiting.is_empty() && it.taken < free);
        let (name, namespace) = may.min_by_key(|(_, it)| it.taken)?;
        let (_, waiting) = namespace.waiting.pop_first()?;
        namespace.taken += 1;
        self.free -= 1;
        Some((Arc::clone(name), waiting))
    }

    /// Takes up to `most` places that a namespace gets now; returns how many. It gets none while it has
    /// one that waits.
    fn take_free(&mut self, name: &Arc<str>, most: usize) -> usize {
        let taken = self.namespaces.get(name).map_or(0, |it| it.taken);
        let more = ((self.free + 1).saturating_sub(taken) / 2).min(most);
        if more > 0 {
            let namespace = self.namespaces.entry(Arc::clone(name)).or_default();
            namespace.taken += more;
            self.free -= more;
        }
        more
    }

    /// Changes a namespace, and forgets it if it has nothing left.
    fn change(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Namespace)) {
        if let Some(namespace) = self.namespaces.get_mut(name) {
            change(namespace);
            if namespace.taken == 0 && namespace.waiting.is_empty() {
                self.namespaces.remove(name);
            }
        }
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        {
            let mut table = self.places.table.lock();
            table.free += 1;
            table.change(&self.namespace, |namespace| namespace.taken -= 1);
        }
        self.places.hand_out();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self {
            places,
            namespace,
            number,
        } = self;
        let mut table = places.table.lock();
        table.change(namespace, |it| {
            it.waiting.remove(number);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn name(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    /// Takes as many places as there are for a namespace at once.
    fn fill(places: &Arc<RequestPlaces>, namespace: &str) -> Vec<RequestPlace> {
        let take = || places.take(&name(namespace)).now_or_never();
        let taken: Vec<_> = std::iter::from_fn(take).collect();
        let many = taken.len();
        drop(taken);
        let some = |most| places.take_some(&name(namespace), most).now_or_never();
        let taken = some(usize::MAX).unwrap_or_default();
        assert_eq!(taken.len(), many, "{namespace}");
        drop(taken);
        some(many).unwrap_or_default()
    }

    #[test]
    fn a_namespace_has_no_more_places_than_it_leaves() {
        for (most, parts) in [
            (1, [1, 0, 0]),
            (2, [1, 1, 0]),
            (4, [2, 1, 1]),
            (512, [256, 128, 64]),
        ] {
            let places = RequestPlaces::new(most);
            let taken = ["a", "b", "c"].map(|namespace| fill(&places, namespace));
            assert_eq!(taken.each_ref().map(Vec::len), parts, "{most}");
            drop(taken);
            let table = places.table.lock();
            assert_eq!((table.free, table.namespaces.len()), (most, 0));
        }
    }

    #[test]
    fn a_place_goes_to_the_namespace_that_has_the_fewest() {
        let places = RequestPlaces::new(6);
        let (mut of_a, mut of_b) = (fill(&places, "a"), fill(&places, "b"));
        assert_eq!((of_a.len(), of_b.len()), (3, 2));
        let (a, b) = (name("a"), name("b"));
        let mut gone = Box::pin(places.take(&b));
        let mut first = Box::pin(places.take(&a));
        let mut second = Box::pin(places.take(&b));
        let mut have = || {
            let first = (&mut first).now_or_never();
            (first.is_some(), (&mut second).now_or_never().is_some())
        };
        assert!((&mut gone).now_or_never().is_none());
        assert_eq!(have(), (false, false));
        drop(gone);
        drop(of_a.pop());
        assert_eq!(have(), (false, false), "each has two, and two are free");
        drop(of_b.pop());
        assert_eq!(have(), (false, true));
    }
}
