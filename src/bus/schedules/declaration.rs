//! The declarations of a schedule by the builds of a program, and the one that is in force.
//!
//! While builds replace one another, programs with different declarations of one schedule run side by
//! side. That of the later build is in force: of the higher number of the deploy, where programs say
//! one, else the one that was declared for the first time later. So a program of an older build that starts again
//! changes nothing. It takes over again when nobody has declared the newer one for some
//! minutes, which is what a deploy that was taken back looks like.
//!
//! A declaration has two parts: the options of the schedule, and those of its queue, which only a program
//! with the handler knows. One without it declares the first part alone, and leaves the other as it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A declaration that no program has made in so many rounds is gone.
pub(super) const GONE_AFTER: u32 = 10;
/// After so many rounds, it is noted that a declaration was made again.
const SEEN_AFTER: u32 = 2;
/// The most declarations of a schedule that are remembered.
const REMEMBERED_MAX: usize = 8;

/// The declarations of a schedule, those in force last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Declarations(Vec<Declaration>);

/// A declaration of a schedule by a build of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Declaration {
    /// The fingerprint of its options.
    pub(super) options: u64,
    /// `None`: no program with the handler has made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<QueuePart>,
    /// The number of the deploy.
    #[serde(default)]
    pub(super) deploy: u64,
    /// When a program said it last.
    pub(super) seen: Timestamp,
}

/// The part of a declaration that a program with the handler adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QueuePart {
    /// The fingerprint of the queue's options.
    pub(super) options: u64,
    /// When a program with the handler said it last.
    pub(super) seen: Timestamp,
}

impl Declaration {
    /// One that a program makes at `now`. `queue`: the fingerprint of the queue's options, if its handler
    /// is in the program.
    pub(super) fn new((options, queue): (u64, Option<u64>), deploy: u64, now: Timestamp) -> Self {
        let queue = queue.map(|options| QueuePart { options, seen: now });
        Self {
            options,
            queue,
            deploy,
            seen: now,
        }
    }

    /// Whether both may be of one build: a part that one of them lacks differs from none.
    fn agrees_with(&self, other: &Self) -> bool {
        let queues = self.queue.zip(other.queue);
        self.options == other.options && queues.is_none_or(|(a, b)| a.options == b.options)
    }
}

/// What becomes of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeclareResult {
    /// It is in force, and was seen a moment ago.
    Stands,
    /// Its schedule is in force; that it was seen, or the part of its queue, is to be noted.
    Renews,
    /// Its schedule replaces the one in force.
    TakesOver,
    /// Another build's is in force.
    Older,
}

impl Declarations {
    /// Decides about a declaration, and notes it. `every`: how often programs make theirs.
    pub(super) fn declare(&mut self, declared: Declaration, every: Duration) -> DeclareResult {
        let age = |seen| declared.seen.since(seen);
        let Some(current) = self.0.last_mut() else {
            self.0.push(declared);
            return DeclareResult::TakesOver;
        };
        let is_same = current.options == declared.options;
        if current.agrees_with(&declared) {
            let is_fresh = |seen| age(seen) < every * SEEN_AFTER;
            let is_noted = current.deploy >= declared.deploy
                && is_fresh(current.seen)
                && (declared.queue.is_none() || current.queue.is_some_and(|it| is_fresh(it.seen)));
            *current = Declaration {
                queue: declared.queue.or(current.queue),
                deploy: current.deploy.max(declared.deploy),
                ..declared
            };
            return if is_noted {
                DeclareResult::Stands
            } else {
                DeclareResult::Renews
            };
        }
        let current = *current;
        // A program without the handler says nothing of the part that differs.
        let seen = current.queue.filter(|_| is_same);
        let is_gone = age(seen.map_or(current.seen, |it| it.seen)) >= every * GONE_AFTER;
        let is_known = self.0.iter().any(|known| known.agrees_with(&declared));
        let is_later =
            declared.deploy > current.deploy || (declared.deploy == current.deploy && !is_known);
        if !is_later && !is_gone {
            return DeclareResult::Older;
        }
        let of = |it: &Declaration| (it.options, it.queue.map(|queue| queue.options));
        self.0.retain(|known| of(known) != of(&declared));
        self.0.push(declared);
        if self.0.len() > REMEMBERED_MAX {
            self.0.remove(0);
        }
        if is_same {
            DeclareResult::Renews
        } else {
            DeclareResult::TakesOver
        }
    }

    /// The declaration in force; `None` for a schedule that no program declares.
    pub(super) fn current(&self) -> Option<&Declaration> {
        self.0.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1_000)
    }

    /// By a program without the handler.
    fn of(options: u64, deploy: u64, now: Timestamp) -> Declaration {
        Declaration::new((options, None), deploy, now)
    }

    /// By one with it.
    fn with(options: u64, queue: u64, now: Timestamp) -> Declaration {
        Declaration::new((options, Some(queue)), 0, now)
    }

    #[test]
    fn who_lacks_the_handler_declares_the_schedule_alone() {
        let mut all = Declarations::default();
        let mut declare = |one| all.declare(one, MINUTE);
        assert_eq!(declare(of(1, 0, at(0))), DeclareResult::TakesOver);
        assert_eq!(
            declare(with(1, 1, at(1))),
            DeclareResult::Renews,
            "what it adds"
        );
        assert_eq!(declare(of(1, 0, at(2))), DeclareResult::Stands);
        assert_eq!(declare(with(1, 1, at(3))), DeclareResult::Stands);
        // A newer build, of which the process without the handler comes first.
        assert_eq!(declare(of(2, 0, at(4))), DeclareResult::TakesOver);
        assert_eq!(declare(with(1, 1, at(5))), DeclareResult::Older);
        assert_eq!(declare(with(2, 2, at(6))), DeclareResult::Renews);
        // And one with other options of the queue alone.
        assert_eq!(declare(with(2, 3, at(7))), DeclareResult::Renews);
        for second in 8..900 {
            for one in [
                of(1, 0, at(second)),
                with(1, 1, at(second)),
                with(2, 2, at(second)),
            ] {
                assert_eq!(declare(one), DeclareResult::Older, "{one:?}");
            }
            assert_ne!(declare(of(2, 0, at(second))), DeclareResult::Older);
            assert_ne!(declare(with(2, 3, at(second))), DeclareResult::Older);
        }
        // It is taken back, and that nobody but the process without the handler goes on counts as well.
        for second in 900..1_498 {
            let _ = declare(of(2, 0, at(second)));
            assert_eq!(declare(with(2, 2, at(second))), DeclareResult::Older);
        }
        assert_eq!(declare(with(2, 2, at(1_500))), DeclareResult::Renews);
        assert_eq!(declare(with(2, 3, at(1_501))), DeclareResult::Older);
    }

    #[test]
    fn an_older_build_that_starts_again_changes_nothing() {
        let mut all = Declarations::default();
        assert_eq!(
            all.declare(of(1, 0, at(0)), MINUTE),
            DeclareResult::TakesOver
        );
        assert_eq!(all.declare(of(1, 0, at(1)), MINUTE), DeclareResult::Stands);
        assert_eq!(
            all.declare(of(2, 0, at(2)), MINUTE),
            DeclareResult::TakesOver
        );
        for second in 3..300 {
            assert_eq!(
                all.declare(of(1, 0, at(second)), MINUTE),
                DeclareResult::Older,
                "{second}"
            );
            assert_ne!(
                all.declare(of(2, 0, at(second)), MINUTE),
                DeclareResult::TakesOver
            );
        }
        assert_eq!(
            all.declare(of(3, 0, at(300)), MINUTE),
            DeclareResult::TakesOver
        );
        assert_eq!(all.declare(of(2, 0, at(301)), MINUTE), DeclareResult::Older);
    }

    #[test]
    fn a_deploy_that_was_taken_back_is_in_force_when_the_newer_one_is_gone() {
        let mut all = Declarations::default();
        let _ = all.declare(of(1, 0, at(0)), MINUTE);
        let _ = all.declare(of(2, 0, at(1)), MINUTE);
        assert_eq!(all.declare(of(1, 0, at(599)), MINUTE), DeclareResult::Older);
        assert_eq!(
            all.declare(of(1, 0, at(601)), MINUTE),
            DeclareResult::TakesOver
        );
        assert_eq!(
            all.declare(of(2, 0, at(602)), MINUTE),
            DeclareResult::Older,
            "it does not flap"
        );
    }

    #[test]
    fn the_number_of_a_deploy_decides_where_there_is_one() {
        let mut all = Declarations::default();
        let _ = all.declare(of(2, 7, at(0)), MINUTE);
        assert_eq!(
            all.declare(of(1, 6, at(1)), MINUTE),
            DeclareResult::Older,
            "new, and of an older deploy"
        );
        assert_eq!(
            all.declare(of(1, 8, at(2)), MINUTE),
            DeclareResult::TakesOver
        );
        assert_eq!(all.declare(of(2, 7, at(3)), MINUTE), DeclareResult::Older);
        assert_eq!(
            all.declare(of(2, 9, at(4)), MINUTE),
            DeclareResult::TakesOver,
            "taken back by a newer deploy"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut all = Declarations::default();
        for options in 0..100 {
            assert_eq!(
                all.declare(of(options, 0, at(options)), MINUTE),
                DeclareResult::TakesOver
            );
        }
        assert_eq!(all.0.len(), REMEMBERED_MAX);
    }
}
