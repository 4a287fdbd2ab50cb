//! Groups by themselves.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::*;

#[test]
fn each_of_many_groups_is_listed_now_and_then() {
    for count in [
        0,
        1,
        GROUPS_MAX - 1,
        GROUPS_MAX,
        GROUPS_MAX + 1,
        3 * GROUPS_MAX + 7,
    ] {
        let all: BTreeSet<_> = (0..count).map(|n| format!("orders/{n}")).collect();
        let behind = |name: &str| {
            let behind = (Bound::Excluded(name.to_owned()), Bound::Unbounded);
            all.range(behind).take(GROUPS_MAX).cloned()
        };
        let (mut list, mut seen) = (GroupList::default(), BTreeSet::new());
        for _ in 0..4 {
            let mut names: Vec<_> = behind(&list.behind).collect();
            if list.goes_round(&names) {
                names.extend(behind(""));
            }
            list.listed(&mut names);
            assert_eq!(names.len(), count.min(GROUPS_MAX), "forgotten for nothing");
            seen.extend(names);
        }
        assert_eq!(seen, all, "{count}");
    }
}

#[test]
fn a_group_that_has_failed_waits_and_no_other_does() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    groups.begin("orders/1", now);
    assert!(groups.is_blocked("orders/1") && !groups.is_blocked("orders/2"));
    groups.end("orders/1", false, now);
    assert!(groups.is_blocked("orders/1") && groups.may_store_be_away(now));
    assert!(groups.due(now, 9).is_empty() && groups.next_retry(now).is_none());
    groups.deferred("orders/1", now);
    assert!(groups.due(now, 9).is_empty());
    let retry_at = groups.next_retry(now).unwrap();
    assert!(retry_at > now && retry_at <= now + Duration::from_millis(100));
    assert_eq!(
        groups.due(retry_at, 9),
        [("orders/1".to_owned(), true)],
        "one row, to see"
    );
    let later = retry_at + Duration::from_secs(1);
    assert_eq!(groups.next_retry(later), Some(later), "probes have a pace");
    groups.end("orders/2", true, now);
    assert!(!groups.may_store_be_away(now + AWAY_AFTER) && !groups.is_well());
    assert!(groups.may_store_be_away(now + 2 * AWAY_AFTER));
    groups.end("orders/1", true, now);
    assert!(groups.is_well() && !groups.is_blocked("orders/1"));
    assert_eq!(groups.due(now, 9), [("orders/1".to_owned(), false)]);
}

#[test]
fn rows_that_are_not_accepted_are_passed_until_the_next_scan() {
    let (mut groups, now, name) = (Groups::default(), Instant::now(), "orders/1");
    groups.end(name, false, now);
    groups.deferred(name, now);
    let next = |behind, limit| NextRows { behind, limit };
    assert_eq!(groups.next_rows(name, now), next(0, 1));
    let failed = vec!["unique job:9".to_owned()];
    groups.tried(name, ScanStep { last: 7, failed }, now);
    assert_eq!(groups.next_rows(name, now), next(7, 1));
    assert!(groups.follows_passed(name, "unique job:9"));
    groups.skipped(name, 8, now);
    assert_eq!(groups.next_rows(name, now), next(8, PAGE_MAX));
    groups.emptied(name, now);
    assert!(groups.has_rows(name) && !groups.follows_passed(name, "unique job:9"));
    assert_eq!(groups.next_rows(name, now), next(0, 1));
    groups.emptied(name, now);
    assert!(!groups.has_rows(name));
}

/// More are deferred all the time, so that it comes to no end.
#[test]
fn rows_that_were_passed_while_the_store_was_away_wait_for_no_end_of_the_others() {
    let (mut groups, now, name) = (Groups::default(), Instant::now(), "orders/1");
    groups.end(name, false, now);
    groups.deferred(name, now);
    let failed = vec!["unique job:9".to_owned()];
    groups.tried(name, ScanStep { last: 7, failed }, now);
    let later = now + SCAN_MAX;
    assert_eq!(groups.next_rows(name, later).behind, 7, "it is away");
    groups.end(name, true, later);
    let next = groups.next_rows(name, later);
    assert_eq!((next.behind, next.limit), (0, PAGE_MAX));
    assert!(!groups.follows_passed(name, "unique job:9"));
    for (after, behind) in [(1, 500), (4, 500), (5, 0)] {
        let failed = Vec::new();
        groups.tried(name, ScanStep { last: 500, failed }, later);
        let at = later + Duration::from_secs(after);
        assert_eq!(groups.next_rows(name, at).behind, behind, "{after} s");
    }
}

#[test]
fn a_scan_that_takes_long_to_begin_begins_anew_less_often() {
    let (mut groups, now, name) = (Groups::default(), Instant::now(), "orders/1");
    groups.deferred(name, now);
    groups.looked(name, Duration::from_secs(1));
    let step = |last| ScanStep {
        last,
        failed: Vec::new(),
    };
    groups.tried(name, step(500), now);
    groups.looked(name, Duration::from_secs(9)); // of what comes behind
    for (after, behind) in [(6, 500), (19, 500), (20, 0)] {
        let at = now + Duration::from_secs(after);
        assert_eq!(groups.next_rows(name, at).behind, behind, "{after} s");
    }
}

#[test]
fn of_a_push_that_is_under_way_the_result_is_soon_known() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    let second = Duration::from_secs(1);
    assert!(!groups.is_soon_known("orders/1", now, second));
    groups.begin("orders/1", now);
    assert!(groups.is_soon_known("orders/1", now, second));
    assert!(!groups.is_soon_known("orders/1", now + second, second));
    groups.end("orders/1", false, now);
    groups.begin("orders/1", now);
    assert!(!groups.is_soon_known("orders/1", now, second), "a probe");
}

/// As those whose rows another relay has taken, which are found again and again.
#[test]
fn groups_without_rows_to_take_keep_no_other_from_being_tried() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    let names: BTreeSet<_> = (0..90).map(|n| format!("orders/{n}")).collect();
    let mut tried = BTreeSet::new();
    for second in 0..9 {
        let now = now + Duration::from_secs(second);
        groups.found(names.iter().cloned().collect(), now);
        for (name, _) in groups.due(now, 10) {
            groups.emptied(&name, now + Duration::from_millis(1));
            tried.insert(name);
        }
    }
    assert_eq!(tried, names);
}

#[test]
fn a_retry_time_is_bounded() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    groups.deferred("orders/1", now);
    for _ in 0..200 {
        groups.end("orders/1", false, now);
    }
    assert!(groups.next_retry(now).unwrap() <= now + Duration::from_secs(10));
}

#[test]
fn a_group_without_rows_is_forgotten_and_one_that_is_found_is_tried() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    groups.end("orders/1", false, now);
    groups.deferred("orders/1", now);
    groups.found(vec!["mails/2".to_owned()], now);
    assert!(!groups.is_blocked("orders/1") && groups.is_blocked("mails/2"));
    assert_eq!(groups.due(now, 9), [("mails/2".to_owned(), true)]);
    groups.begin("mails/2", now);
    groups.found(Vec::new(), now);
    assert!(groups.is_blocked("mails/2"), "it is being pushed");
    groups.end("mails/2", true, now);
    groups.found(Vec::new(), now);
    assert!(groups.known.is_empty());
}
