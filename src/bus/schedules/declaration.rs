//! The declarations of a schedule by the builds of a program, and the one that is in force.
//!
//! While builds replace one another, programs with different declarations of one schedule run side by
//! side. That of the later build is in force: of the higher number of the deploy, where programs say
//! one, else the one that was declared for the first time later. So a program of an older build that
//! starts again changes nothing. It takes over again when nobody has declared the newer one for some
//! minutes, which is what a deploy that was taken back looks like.
//!
//! Some declarations are remembered: those that are made, as long as they are, however many came
//! after them. Beyond as many, a new one waits, since whichever were forgotten would come for a new one.
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
/// A program that has not made its declaration in so many rounds has ended, or is about to be noted.
const ENDED_AFTER: u32 = SEEN_AFTER + 2;
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
    /// As many other ones as are remembered are made all the time: it waits until one is not.
    Crowded,
}

impl DeclareResult {
    /// Whether the declaration is in force.
    pub(super) fn holds(self) -> bool {
        !matches!(self, Self::Older | Self::Crowded)
    }
}

impl Declarations {
    /// Decides about a declaration, and notes it. `every`: how often programs make theirs.
    pub(super) fn declare(&mut self, declared: Declaration, every: Duration) -> DeclareResult {
        let was_ahead = self.set_back(declared.seen, every);
        let age = |seen| declared.seen.since(seen);
        let Some(current) = self.0.last_mut() else {
            self.0.push(declared);
            return DeclareResult::TakesOver;
        };
        let is_same = current.options == declared.options;
        if current.agrees_with(&declared) {
            let is_fresh = |seen| age(seen) < every * SEEN_AFTER;
            let is_noted = !was_ahead
                && current.deploy >= declared.deploy
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
        let mut known = self.0.iter_mut();
        let known = known.rfind(|known| known.agrees_with(&declared));
        let is_higher = declared.deploy > current.deploy;
        let is_later = is_higher || (declared.deploy == current.deploy && known.is_none());
        if !is_later && !is_gone {
            if let Some(known) = known.filter(|it| age(it.seen) >= every * SEEN_AFTER) {
                known.seen = declared.seen;
            }
            return DeclareResult::Older;
        }
        let runs = |known: &Declaration| age(known.seen) < every * ENDED_AFTER;
        let is_full = self.0.len() == REMEMBERED_MAX && self.0.iter().all(runs);
        if is_full && !(is_higher || is_gone) {
            return DeclareResult::Crowded;
        }
        let of = |it: &Declaration| (it.options, it.queue.map(|queue| queue.options));
        self.0.retain(|known| of(known) != of(&declared));
        if self.0.len() == REMEMBERED_MAX {
            let all = self.0.iter().enumerate();
            let ended = all.min_by_key(|(_, known)| known.seen);
            self.0.remove(ended.map_or(0, |(place, _)| place));
        }
        self.0.push(declared);
        if is_same {
            DeclareResult::Renews
        } else {
            DeclareResult::TakesOver
        }
    }

    /// Takes what was seen at a time that is to come for seen now: a clock was ahead. Returns whether
    /// there is such. Clocks of programs may differ by less than a round.
    fn set_back(&mut self, now: Timestamp, every: Duration) -> bool {
        let mut was_ahead = false;
        for known in &mut self.0 {
            let of_queue = known.queue.iter_mut().map(|queue| &mut queue.seen);
            for seen in of_queue.chain([&mut known.seen]) {
                if seen.since(now) > every {
                    *seen = now;
                    was_ahead = true;
                }
            }
        }
        was_ahead
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
            let now = at(options * 180);
            let verdict = all.declare(of(options, 0, now), MINUTE);
            assert_eq!(verdict, DeclareResult::TakesOver);
        }
        assert_eq!(all.0.len(), REMEMBERED_MAX);
    }

    /// Programs with a declaration each, which make it each minute: as many as are remembered and some
    /// more, all at once, or one that stays beside others that follow one another.
    #[test]
    fn who_declares_each_minute_is_remembered_however_many_come_later() {
        for many in 2..20 {
            for is_at_once in [true, false] {
                let mut all = Declarations::default();
                for second in 0..many * 300 {
                    let newest = second / 300 + 1;
                    for program in 1..=newest {
                        let runs = program == 1 || program == newest || is_at_once;
                        if !runs || second % 60 != program {
                            continue;
                        }
                        let verdict = all.declare(of(program, 0, at(second)), MINUTE);
                        let what = format!("{program} of {newest}, {is_at_once}, {second}");
                        let is_first = second % 300 == program;
                        let has_room = !is_at_once || program <= REMEMBERED_MAX as u64;
                        if program == newest && is_first && has_room {
                            assert_eq!(verdict, DeclareResult::TakesOver, "{what}");
                        } else {
                            assert_ne!(verdict, DeclareResult::TakesOver, "{what}");
                        }
                        // The higher number of a deploy takes over all the same.
                        let mut others = all.clone();
                        let later = others.declare(of(99, 1, at(second)), MINUTE);
                        assert_eq!(later, DeclareResult::TakesOver, "{what}");
                        assert!(others.0.len() <= REMEMBERED_MAX);
                    }
                }
            }
        }
    }

    /// The clock of a store was ahead when a declaration was seen last, and is right again.
    #[test]
    fn a_time_that_is_to_come_holds_nothing_up() {
        for ahead in [120, 3_600, 86_400] {
            let mut all = Declarations::default();
            let _ = all.declare(of(1, 0, at(ahead)), MINUTE);
            let _ = all.declare(of(2, 0, at(ahead + 1)), MINUTE);
            let mut goes_on = all.clone();
            assert_eq!(
                goes_on.declare(of(2, 0, at(0)), MINUTE),
                DeclareResult::Renews
            );
            assert_eq!(
                goes_on.declare(of(2, 0, at(60)), MINUTE),
                DeclareResult::Stands
            );
            // The newer one is taken back.
            assert_eq!(all.declare(of(1, 0, at(0)), MINUTE), DeclareResult::Older);
            assert_eq!(all.declare(of(1, 0, at(599)), MINUTE), DeclareResult::Older);
            let verdict = all.declare(of(1, 0, at(601)), MINUTE);
            assert_eq!(verdict, DeclareResult::TakesOver, "{ahead}");
        }
    }
}
