//! Shares where there is no room: which of them goes.

use super::*;

fn shares(of_all: usize, of_each: usize, idle_min: Duration) -> Arc<Shares> {
    Shares::new(Bounds {
        of_all,
        of_namespace: of_each.max(of_all / 2 - 1),
        of_each,
        idle_min,
    })
}

/// Returns a token, of a namespace of the same name where none is said.
fn owner_of(text: &str) -> Owner {
    let (namespace, token) = text.split_once('/').unwrap_or((text, text));
    Owner::new("pool", namespace, token)
}

async fn take(shares: &Arc<Shares>, owner: &str, room: usize) -> Share {
    shares.take(&owner_of(owner), room).await
}

#[tokio::test]
async fn the_idlest_of_the_same_token_goes() {
    let shares = shares(100, 10, Duration::ZERO);
    let other = take(&shares, "b", 10).await;
    let first = take(&shares, "a", 5).await;
    let second = take(&shares, "a", 5).await;
    first.used();
    let third = take(&shares, "a", 1).await;
    assert_eq!(second.is_evicted(), Some(Evicted::Token));
    assert_eq!(second.evicted().await, Evicted::Token);
    let all = [&first, &third, &other].map(Share::is_evicted);
    assert_eq!(all, [None; 3]);
    drop(second); // it is gone already, and counts no second time
    assert_eq!(shares.lock().used, 16);
    let whole = take(&shares, "a", 999).await;
    assert!(first.is_evicted().is_some() && third.is_evicted().is_some());
    drop((first, third, other, whole));
    let table = shares.lock();
    assert_eq!((table.used, table.places.len()), (0, 0));
}

#[tokio::test]
async fn the_idlest_of_the_largest_token_goes_for_another() {
    let shares = shares(10, 8, Duration::ZERO);
    let large = [take(&shares, "a", 4).await, take(&shares, "a", 4).await];
    let small = take(&shares, "b", 2).await;
    let new = take(&shares, "c", 1).await;
    assert_eq!(large[0].is_evicted(), Some(Evicted::All));
    let all = [&large[1], &small, &new].map(Share::is_evicted);
    assert_eq!(all, [None; 3]);
}

/// However many tokens a namespace has, it goes before one that has less.
#[tokio::test]
async fn the_tokens_of_a_namespace_add_up() {
    let shares = shares(20, 4, Duration::ZERO);
    let mut all = Vec::new();
    for token in 0..9 {
        all.push(take(&shares, &format!("worst/{token}"), 1).await);
    }
    let other = take(&shares, "other/0", 3).await;
    // It is over what a namespace has.
    all.push(take(&shares, "worst/0", 1).await);
    let third = take(&shares, "third/0", 4).await;
    let fourth = take(&shares, "third/1", 4).await;
    // No token has more than the other one, but the namespace has.
    let evicted = all.iter().filter_map(Share::is_evicted);
    assert!(evicted.eq([Evicted::Namespace]), "there was room");
    let last = take(&shares, "fourth/0", 1).await;
    let evicted: Vec<_> = all.iter().filter_map(Share::is_evicted).collect();
    assert_eq!(evicted.len(), 2, "{evicted:?}");
    assert!(evicted.contains(&Evicted::All));
    let left = [&other, &third, &fourth, &last].map(Share::is_evicted);
    assert_eq!(left, [None; 4]);
}

/// What all tokens of a namespace keep busy is no more than leaves room for another namespace.
#[tokio::test(start_paused = true)]
async fn a_busy_namespace_is_waited_for_by_itself_alone() {
    let shares = shares(10, 4, Duration::from_secs(1));
    let _busy = take(&shares, "worst/0", 4).await;
    let second = shares.try_take(&owner_of("worst/1"), 4);
    assert!(second.is_err(), "its namespace has too much");
    let begun = Instant::now();
    let _other = take(&shares, "other/0", 4).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_share_that_grows_ends_others_and_at_last_itself() {
    let shares = shares(100, 10, Duration::ZERO);
    let (other, grown) = (take(&shares, "a", 5).await, take(&shares, "a", 1).await);
    grown.grow(4);
    assert_eq!(other.is_evicted(), None);
    grown.grow(1);
    assert_eq!(other.is_evicted(), Some(Evicted::Token));
    grown.grow(4);
    assert_eq!(grown.is_evicted(), None);
    grown.grow(1);
    assert_eq!(grown.is_evicted(), Some(Evicted::Token));
    grown.shrink(1);
    assert_eq!(shares.lock().used, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_busy_is_waited_for_and_what_is_idle_is_not() {
    let shares = shares(10, 10, Duration::from_secs(1));
    let busy = take(&shares, "a", 10).await;
    let begun = Instant::now();
    let waits = tokio::spawn({
        let shares = Arc::clone(&shares);
        async move { take(&shares, "b", 10).await }
    });
    tokio::time::sleep(Duration::from_millis(900)).await;
    busy.used();
    let share = waits.await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(1_900));
    assert_eq!(busy.is_evicted(), Some(Evicted::All));
    let waits = tokio::spawn({
        let shares = Arc::clone(&shares);
        async move { take(&shares, "b", 10).await }
    });
    tokio::task::yield_now().await;
    drop(share);
    assert_eq!(waits.await.unwrap().is_evicted(), None);
    assert_eq!(begun.elapsed(), Duration::from_millis(1_900), "at once");
}
