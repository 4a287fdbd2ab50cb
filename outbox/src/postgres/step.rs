//! The state of the relays in the database, and what follows from it: a pure function.

use std::time::Duration;

use crate::postgres::snapshot::{Snapshot, ended_since};
use crate::session::TextRow;

/// How many steps lie in one of the two partitions before the next are written into the other.
pub(crate) const STEPS_IN_PART: u64 = 10_000;

/// Beside its number in the reply, a step that was inserted has this: if another relay was faster, the
/// reply begins with a row of its page, which may begin with the same number.
pub(crate) const OWN: &str = "step";

/// A row of `duly_outbox_step`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) n: u64,
    /// Which database this was.
    pub(crate) cluster: String,
    /// What is visible in it is settled.
    pub(crate) done: Snapshot,
    /// What is visible in it is being pushed.
    pub(crate) reading: Option<Snapshot>,
    /// The transaction and the number of the last row that is settled of those being pushed.
    pub(crate) passed: (u64, u64),
    /// Whether the next rows may have been pushed already.
    pub(crate) is_repeated: bool,
    /// The relay at work, if its time is not over.
    pub(crate) holder: Option<String>,
}

/// What a look at the database returns.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// The newest step.
    pub(crate) step: Option<Step>,
    /// What is visible now.
    pub(crate) now: Snapshot,
    /// Which database this is.
    pub(crate) cluster: String,
    /// Whether rows are visible that were not when the last step was done; not looked for while rows are
    /// being read.
    pub(crate) has_new: bool,
}

/// What a relay does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Nothing: there is nothing to push.
    Idle,
    /// Nothing: another relay is at work.
    Held,
    /// Starts from nothing: the database is new, or a copy with other transaction ids.
    Reset,
    /// Writes this step, and pushes the rows that are then being read; some may have been pushed
    /// already.
    Push { claim: Step, is_repeated: bool },
}

/// Returns the statement of a [`Look`]. It reads few rows, whatever has been written and passed before.
pub(crate) fn look() -> String {
    // A server that was restored, or promoted, has another timeline; its last checkpoint may be of
    // before. Tables that were restored by SQL are others. What is new is not looked for while a page
    // is being read: then nobody needs it, and what was passed of it would be in the way.
    let late = "select from duly_outbox o where o.xid = late.xid limit 1";
    format!(
        "begin isolation level read committed; \
         select s.n, s.cluster, s.done, s.reading, s.passed_xid, s.passed_n, s.repeated, \
             case when s.until > clock_timestamp() and s.until < clock_timestamp() + interval '1 minute' \
                 then s.holder end, \
             pg_current_snapshot(), \
             (select system_identifier from pg_control_system()) || '/' || \
                 (select oid from pg_database where datname = current_database()) || '/' || \
                 'duly_outbox'::regclass::oid || '/' || \
                 (select greatest(last.timeline_id, recovered.min_recovery_end_timeline) \
                     from pg_control_checkpoint() as last, pg_control_recovery() as recovered), \
             case when s.reading is null then exists (select from duly_outbox o \
                     where o.xid >= coalesce(pg_snapshot_xmax(s.done), '1'::xid8)) \
                 or exists (select from {}) else false end, \
             current_setting('transaction_read_only') \
         from (select) as always left join \
             (select * from duly_outbox_step order by n desc limit 1) as s on true; commit",
        ended_since("s.done", late)
    )
}

impl Look {
    /// Reads the row of [`look`].
    pub(crate) fn read(row: &TextRow) -> Option<Self> {
        let text = |at: usize| row.get(at)?.as_deref();
        let step = match text(0) {
            None => None,
            Some(n) => Some(Step {
                n: n.parse().ok()?,
                cluster: text(1)?.to_owned(),
                done: text(2)?.parse().ok()?,
                reading: match text(3) {
                    Some(reading) => Some(reading.parse().ok()?),
                    None => None,
                },
                passed: (text(4)?.parse().ok()?, text(5)?.parse().ok()?),
                is_repeated: text(6)? == "t",
                holder: text(7).map(str::to_owned),
            }),
        };
        Some(Self {
            step,
            now: text(8)?.parse().ok()?,
            cluster: text(9)?.to_owned(),
            has_new: text(10)? == "t",
        })
    }

    /// Decides what the relay `own` does next.
    pub(crate) fn next(&self, own: &str) -> NextStep {
        let Some(step) = &self.step else {
            return NextStep::Reset;
        };
        // A copy has other transaction ids, and a number that was passed may come again.
        if step.cluster != self.cluster || step.done.xmax() > self.now.xmax() {
            return NextStep::Reset;
        }
        let is_idle = step.reading.is_none() && !self.has_new;
        if is_idle {
            return NextStep::Idle;
        }
        if step.holder.as_deref().is_some_and(|holder| holder != own) {
            return NextStep::Held;
        }
        let (reading, passed) = match &step.reading {
            Some(reading) => (reading.clone(), step.passed),
            None => (self.now.clone(), (0, 0)),
        };
        NextStep::Push {
            claim: Step {
                n: step.n + 1,
                cluster: step.cluster.clone(),
                done: step.done.clone(),
                reading: Some(reading),
                passed,
                is_repeated: true,
                holder: Some(own.to_owned()),
            },
            is_repeated: step.reading.is_some() && step.is_repeated,
        }
    }
}

impl Step {
    /// Returns the step that passes the rows up to `last`; the whole of what is being read if there
    /// are no more.
    pub(crate) fn passing(
        &self,
        last: Option<(u64, u64)>,
        is_last: bool,
        is_repeated: bool,
    ) -> Self {
        let mut next = self.clone();
        next.n += 1;
        next.is_repeated = is_repeated;
        if let Some(last) = last {
            next.passed = last;
        }
        if is_last && let Some(reading) = next.reading.take() {
            (next.done, next.passed) = (reading, (0, 0));
        }
        if is_last || is_repeated {
            next.holder = None; // any relay may go on
        }
        next
    }

    /// Returns whether a reply to [`insert`](Self::insert) that begins with this row says that it was
    /// inserted.
    pub(crate) fn is_own(&self, row: &TextRow) -> bool {
        let text = |at: usize| row.get(at).and_then(Option::as_deref);
        row.len() == 2 && text(0) == Some(&self.n.to_string()) && text(1) == Some(OWN)
    }

    /// Returns a statement that inserts it, unless there is a newer one, and by which others leave its
    /// holder alone for this long; it returns the number and [`OWN`].
    pub(crate) fn insert(&self, hold: Duration) -> String {
        let Self {
            n,
            cluster,
            done,
            passed: (xid, row),
            is_repeated,
            ..
        } = self;
        let reading = match &self.reading {
            Some(reading) => format!("'{reading}'"),
            None => "null".to_owned(),
        };
        let (holder, hold_ms) = match &self.holder {
            Some(holder) => (holder.as_str(), hold.as_millis()),
            None => ("", 0),
        };
        format!(
            "insert into duly_outbox_step (n, part, cluster, done, reading, passed_xid, passed_n, \
             repeated, holder, until) select {n}, {part}, '{cluster}', '{done}'::pg_snapshot, \
             {reading}::pg_snapshot, '{xid}'::xid8, {row}, {is_repeated}, '{holder}', \
             clock_timestamp() + interval '{hold_ms} ms' \
             where coalesce((select n from duly_outbox_step order by n desc limit 1), 0) < {n} \
             returning n, '{OWN}' as mark",
            part = n / STEPS_IN_PART % 2,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(done: &str, reading: Option<&str>) -> Step {
        Step {
            n: 7,
            cluster: "1/5/1".to_owned(),
            done: done.parse().unwrap(),
            reading: reading.map(|it| it.parse().unwrap()),
            passed: (12, 90),
            is_repeated: true,
            holder: None,
        }
    }

    fn look_at(step: Option<Step>, has_new: bool) -> Look {
        Look {
            step,
            now: "20:30:20".parse().unwrap(),
            cluster: "1/5/1".to_owned(),
            has_new,
        }
    }

    #[test]
    fn what_is_new_is_claimed_and_was_not_pushed_before() {
        let look = look_at(Some(step("10:10:", None)), true);
        let NextStep::Push { claim, is_repeated } = look.next("me") else {
            panic!("not pushed");
        };
        assert!(!is_repeated && claim.is_repeated);
        assert_eq!((claim.n, claim.passed), (8, (0, 0)));
        assert_eq!(claim.reading, Some(look.now));
        assert_eq!(claim.done.to_string(), "10:10:");
    }

    #[test]
    fn what_another_has_left_goes_on_where_it_was_and_may_have_been_pushed() {
        let look = look_at(Some(step("10:10:", Some("10:15:"))), true);
        let NextStep::Push { claim, is_repeated } = look.next("me") else {
            panic!("not pushed");
        };
        assert!(is_repeated);
        assert_eq!(claim.reading, Some("10:15:".parse().unwrap()));
        assert_eq!(claim.passed, (12, 90));
        let closed = claim.passing(Some((13, 95)), false, false);
        assert_eq!((closed.n, closed.passed), (9, (13, 95)));
        let closed = claim.passing(Some((13, 95)), true, false);
        assert_eq!(closed.done, "10:15:".parse().unwrap());
        assert_eq!((closed.reading, closed.passed), (None, (0, 0)));
    }

    #[test]
    fn another_is_left_alone_while_its_time_lasts() {
        let mut held = step("10:10:", Some("10:15:"));
        held.holder = Some("other".to_owned());
        assert_eq!(look_at(Some(held.clone()), true).next("me"), NextStep::Held);
        assert!(matches!(
            look_at(Some(held), true).next("other"),
            NextStep::Push { .. }
        ));
        let idle = look_at(Some(step("10:10:", None)), false);
        assert_eq!(idle.next("me"), NextStep::Idle);
    }

    #[test]
    fn a_copy_of_the_database_starts_anew() {
        assert_eq!(look_at(None, true).next("me"), NextStep::Reset);
        let mut copied = look_at(Some(step("10:10:", None)), false);
        copied.cluster = "1/5/2".to_owned();
        assert_eq!(copied.next("me"), NextStep::Reset);
        let back = look_at(Some(step("10:31:", None)), false);
        assert_eq!(back.next("me"), NextStep::Reset);
    }
}
