use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::*;

/// A name server that says nothing of names that begin so, until the other end is dropped.
fn silent_for(begin: &'static str) -> (Lookups, std::sync::mpsc::Sender<()>, Arc<AtomicUsize>) {
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let (ends, count) = (Mutex::new(ends), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    let lookups = Lookups::new(move |name| {
        counted.fetch_add(1, Ordering::SeqCst);
        if name.starts_with(begin) {
            ends.lock().recv().ok();
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))])
    });
    (lookups, end, count)
}

/// Looks a name up as a request does; `None` if that takes too long.
async fn look_up(
    lookups: &Lookups,
    namespace: &str,
    name: &str,
    most: Duration,
) -> Option<Result<Vec<SocketAddr>, LookupError>> {
    let found = async {
        let ready = lookups.ready(namespace, name).await;
        ready.map_err(LookupError::NoPlace)?;
        lookups.find(namespace, name).await
    };
    timeout(most, found).await.ok()
}

async fn is_late(lookups: &Lookups, namespace: &str, name: &str) -> bool {
    let most = Duration::from_millis(2);
    look_up(lookups, namespace, name, most).await.is_none()
}

async fn found(lookups: &Lookups, namespace: &str, name: &str) -> usize {
    let found = look_up(lookups, namespace, name, Duration::from_secs(10)).await;
    found.expect("a place is free").unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_name_server_of_one_namespace_stalls_no_other_one() {
    let (lookups, end, count) = silent_for("silent");
    // Each is given up soon, as by a webhook with a short timeout, and comes again.
    for round in 0..3 {
        for number in 0..50 {
            let name = format!("silent{number}.test");
            assert!(is_late(&lookups, "worst", &name).await, "{round} {name}");
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), LOOKUPS_OF_NAMESPACE_MAX);
    assert_eq!(found(&lookups, "other", "shop.test").await, 1);
    // Of all namespaces some are under way as well.
    for namespace in 0..20 {
        for number in 0..16 {
            let name = format!("silent{number}.n{namespace}.test");
            assert!(is_late(&lookups, &format!("n{namespace}"), &name).await);
        }
    }
    assert!(count.load(Ordering::SeqCst) <= LOOKUPS_MAX + 1);
    drop(end);
    // They end by themselves, and leave their places.
    assert_eq!(found(&lookups, "worst", "shop.test").await, 1);
    let all = u32::try_from(LOOKUPS_MAX).unwrap();
    let all = Arc::clone(&lookups.0.all).acquire_many_owned(all);
    let all = timeout(Duration::from_secs(10), all).await.unwrap();
    assert!(lookups.0.names.lock().running.is_empty());
    drop(all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_waits_for_no_place_of_a_lookup_and_uses_what_was_found() {
    let (lookups, end, count) = silent_for("silent");
    assert_eq!(found(&lookups, "worst", "shop.test").await, 1);
    for number in 0..LOOKUPS_OF_NAMESPACE_MAX {
        assert!(is_late(&lookups, "worst", &format!("silent{number}.test")).await);
    }
    let age = |name: &str| {
        let mut names = lookups.0.names.lock();
        let known = names.known.get_mut(name).unwrap();
        known.ended -= FRESH;
    };
    age("shop.test");
    assert!(lookups.is_ready("shop.test") && !lookups.is_ready("new.test"));
    assert_eq!(lookups.find("worst", "shop.test").await.unwrap().len(), 1);
    let refused = lookups.find("worst", "new.test").await;
    assert!(matches!(refused, Err(LookupError::NoPlace(_))));
    assert_eq!(count.load(Ordering::SeqCst), LOOKUPS_OF_NAMESPACE_MAX + 1);
    drop(end);
    assert_eq!(found(&lookups, "worst", "new.test").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_were_slow_leave_places_to_others_of_their_namespace() {
    let (lookups, _end, count) = silent_for("silent");
    let before = Instant::now() - FRESH;
    for number in 0..50 {
        let late = Err((io::ErrorKind::TimedOut, "late".to_owned()));
        let known = Known {
            ended: before,
            ..Known::new(late, true)
        };
        let name = format!("silent{number}.test");
        lookups.0.names.lock().known.insert(name.clone(), known);
        assert!(is_late(&lookups, "worst", &name).await);
    }
    assert_eq!(count.load(Ordering::SeqCst), SLOW_OF_NAMESPACE_MAX);
    assert_eq!(found(&lookups, "worst", "shop.test").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_the_same_name_waits_for_one_lookup() {
    let (lookups, end, count) = silent_for("silent");
    for number in 0..20 {
        let namespace = format!("n{number}");
        assert!(is_late(&lookups, &namespace, "silent.test").await);
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let [one, other] = ["a", "b"].map(|namespace| {
        let lookups = lookups.clone();
        tokio::spawn(async move { lookups.find(namespace, "silent.test").await })
    });
    drop(end);
    for found in [one, other] {
        let found = timeout(Duration::from_secs(10), found).await.unwrap();
        let Err(LookupError::Failed(error)) = found.unwrap() else {
            panic!("it was looked up")
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

fn age(lookups: &Lookups, name: &str, by: Duration) {
    let mut names = lookups.0.names.lock();
    names.known.get_mut(name).unwrap().ended -= by;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_lookup_is_believed_for_a_moment_and_erases_no_addresses() {
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let lookups = Lookups::new(move |_| {
        if failing.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))])
    });
    assert_eq!(found(&lookups, "ns", "shop.test").await, 1);
    age(&lookups, "shop.test", FRESH);
    fails.store(true, Ordering::SeqCst);
    let failed = lookups.find("ns", "shop.test").await;
    assert!(matches!(failed, Err(LookupError::Failed(_))));
    let new = lookups.find("ns", "new.test").await;
    assert!(matches!(new, Err(LookupError::Failed(_))));
    for name in ["shop.test", "new.test"] {
        age(&lookups, name, FAILED_FRESH);
    }
    // While there is no place, what was found last serves: addresses, and else the failure.
    let all = u32::try_from(LOOKUPS_MAX).unwrap();
    let all = Arc::clone(&lookups.0.all).acquire_many_owned(all).await;
    assert!(lookups.is_ready("shop.test") && !lookups.is_ready("new.test"));
    assert_eq!(lookups.find("ns", "shop.test").await.unwrap().len(), 1);
    let new = lookups.find("ns", "new.test").await;
    assert!(matches!(new, Err(LookupError::Failed(_))), "{new:?}");
    drop(all);
    fails.store(false, Ordering::SeqCst);
    assert_eq!(lookups.find("ns", "new.test").await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lookup_that_is_silent_keeps_no_request_from_the_addresses_that_are_known() {
    let (lookups, end, _) = silent_for("silent");
    let addresses = vec![SocketAddr::from(([192, 0, 2, 1], 0))];
    let known = Known::new(Ok(addresses), false);
    let name = "silent.test".to_owned();
    lookups.0.names.lock().known.insert(name, known);
    age(&lookups, "silent.test", FRESH);
    assert_eq!(found(&lookups, "ns", "silent.test").await, 1);
    drop(end);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_place_goes_on_when_another_one_has_found_the_name() {
    let (lookups, end, _) = silent_for("silent");
    for number in 0..LOOKUPS_OF_NAMESPACE_MAX {
        assert!(is_late(&lookups, "worst", &format!("silent{number}.test")).await);
    }
    let mut waits = pin!(look_up(
        &lookups,
        "worst",
        "shop.test",
        Duration::from_secs(10)
    ));
    let early = timeout(Duration::from_millis(50), &mut waits).await;
    assert!(early.is_err(), "there is no place");
    assert_eq!(found(&lookups, "other", "shop.test").await, 1);
    let waits = waits.await.expect("the name is known");
    assert_eq!(waits.unwrap().len(), 1);
    drop(end);
}
