//! What a script that failed, and was repeated, may leave until a check: nothing that counts.

use std::collections::{BTreeMap, BTreeSet};

use duly::EventId;
use duly::admin::DamageKind;
use duly::event::State;
use duly::records::NodeId;
use duly::store::operation::{StartMark, StoreOp};
use duly::store::{CheckTask, Store};

use super::acts::Act;
use super::{AHEAD, Case, fetch};
use crate::redis_store::kit::NODE;

/// What may be left: entries that lead to nothing and bodies that nothing needs, each with the way that it
/// goes otherwise; and tombstones that are missing or counted wrongly, so that an id is remembered for
/// longer.
const MAY_BE_LEFT: [(DamageKind, &str); 17] = [
    (DamageKind::Leftover, "has ended and has a body"),
    (DamageKind::Leftover, "the body of a part that is gone"),
    (
        DamageKind::Leftover,
        "has a body of its own and is in a page",
    ),
    (DamageKind::Leftover, "is a page without events"),
    (
        DamageKind::Stray,
        "is in the delay set and not scheduled alone",
    ), // passed over when it is due
    (DamageKind::Stray, "a member of the delay set is no part"), // the same
    (
        DamageKind::Counts,
        "events are counted that are not scheduled in a page",
    ), // goes with it
    (DamageKind::Stray, "has an entry to expire and is over"),   // looked at when it is over
    (
        DamageKind::Stray,
        "is indexed under a key that it does not have",
    ), // a look skips it
    (DamageKind::Stray, "holds a unique key that is not its own"), // a push takes it
    (DamageKind::Stray, "is in the dead set and not dead"), // a drop and a revival of it end that
    (DamageKind::Stray, "has a deadline and no such lease"), // goes when that is over
    (DamageKind::Stray, "a request holds nothing any more"),
    (DamageKind::Stray, "a request is known that holds nothing"),
    (DamageKind::Stray, "has two tombstones"),
    (DamageKind::Misplaced, "has ended and has no tombstone"),
    (DamageKind::Counts, "tombstones: "),
];

/// Those that count as scheduled until they are due.
const DELAYED: [&str; 2] = [MAY_BE_LEFT[4].1, MAY_BE_LEFT[5].1];
/// Those that count as dead.
const DEAD: &str = MAY_BE_LEFT[10].1;

impl Case {
    /// Does what nodes do all the time: they take back what is over, and `NODE` what it does not hold.
    async fn settles_down(&self, held: &BTreeSet<EventId>) {
        let reap = async || {
            let reap = async || self.bare.typed(StoreOp::reap(Vec::new(), 1_000)).await;
            while reap().await.expect("a reap").more {}
        };
        reap().await;
        let reconcile = StoreOp::Reconcile {
            node: NODE,
            from: 0,
            through: 9,
            held: vec![(1, held.iter().copied().collect())],
            started: StartMark::default(),
            limit: 1_000,
        };
        self.bare.apply(reconcile).await.expect("a reconcile");
        reap().await;
    }

    /// Returns what is wrong before anything is repaired.
    pub(super) async fn wrong(&self, act: Act, held: &BTreeSet<EventId>) -> BTreeSet<String> {
        self.settles_down(held).await;
        let mut wrong = BTreeSet::new();
        let (bare, what) = (&self.bare, act.name());
        let check = bare.store.check_bucket(&bare.bucket, CheckTask::new(false));
        let found = check.await.expect("a check");
        let is_left = |words: &[&str]| {
            found
                .iter()
                .any(|it| words.iter().any(|some| it.words.contains(some)))
        };
        let (are_delayed, are_dead) = (is_left(&DELAYED), is_left(&[DEAD]));
        for damage in &found {
            let may_be = |(kind, words): &(DamageKind, &str)| {
                *kind == damage.kind && damage.words.contains(words)
            };
            if !MAY_BE_LEFT.iter().any(may_be) {
                wrong.insert(format!(
                    "{what}: {}: {}",
                    damage.kind.as_str(),
                    damage.words
                ));
            }
        }
        let stats = match bare.typed(StoreOp::stats()).await {
            Ok(stats) => stats,
            Err(error) => {
                wrong.insert(format!("{what}: {error}"));
                return wrong;
            }
        };
        let mut seen = BTreeMap::<_, usize>::new();
        for id in self.ids().into_iter().chain(self.others.iter().copied()) {
            let found = bare.typed(StoreOp::get(id)).await.expect("a look");
            let of = match found.map(|it| it.state) {
                Some(State::Ready | State::Scheduled) => "waiting",
                Some(State::Leased) => "leased",
                Some(State::Dead) => "dead",
                _ => continue,
            };
            *seen.entry(of).or_default() += 1;
        }
        let counted = [
            ("waiting", stats.scheduled + stats.ready, are_delayed),
            ("leased", stats.leased, false),
            ("dead", stats.dead, are_dead),
        ];
        for (of, count, may_be_more) in counted {
            let are = seen.get(of).copied().unwrap_or_default();
            if count < are || (count > are && !may_be_more) {
                wrong.insert(format!(
                    "{what}: {count} are counted as {of}, and {are} are"
                ));
            }
        }
        wrong
    }

    /// Repairs what is left, and asserts that nothing is lost, and nothing is given twice; nothing is
    /// lost before the repair where the act `moves` events.
    pub(super) async fn is_whole(&self, leased: &BTreeSet<EventId>, moves: bool, what: &str) {
        let bare = &self.bare;
        let check = async |repairs| {
            let found = bare
                .store
                .check_bucket(&bare.bucket, CheckTask::new(repairs));
            found.await.expect("a check")
        };
        let found = check(true).await;
        let losses = [DamageKind::NoPlace, DamageKind::Misplaced];
        let is_any_lost = found.iter().any(|it| losses.contains(&it.kind));
        assert!(!(moves && is_any_lost), "{what}: {found:#?}");
        assert_eq!(check(false).await, [], "{what}: not repaired");
        assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0], "{what}");
        // Where leases that are over could not be ended, calls go on beside them until a reap.
        while bare
            .typed(StoreOp::reap(Vec::new(), 1_000))
            .await
            .expect("a reap")
            .more
        {}
        let mut seen = BTreeMap::new();
        for request in 1.. {
            let op = StoreOp::fetch(fetch(NodeId(99), request, 1_000, AHEAD));
            let got = bare.typed(op).await.expect("a fetch").deliveries;
            if got.is_empty() {
                break;
            }
            for delivery in got {
                *seen.entry(delivery.id).or_insert(0) += 1;
            }
        }
        for id in self.ids() {
            let found = bare.typed(StoreOp::get(id)).await.expect("a look");
            let state = found
                .unwrap_or_else(|| panic!("{what}: {id} is lost"))
                .state;
            let times = seen.get(&id).copied().unwrap_or_default();
            assert!(times <= 1, "{what}: {id} was leased {times} times");
            assert!(times == 0 || !leased.contains(&id), "{what}: {id} twice");
            match state {
                State::Leased => assert!(times == 1 || leased.contains(&id), "{what}: {id}"),
                State::Ready | State::Scheduled => panic!("{what}: {id} is {state:?} for ever"),
                _ => assert_eq!(times, 0, "{what}: {id} is {state:?}"),
            }
        }
    }
}
