//! A history that fits, entry by entry.

use duly::EventId;
use duly::event::{BucketId, State as EventState};
use duly::records::{NodeId, Outcome};
use duly::time::Timestamp;
use duly_conformance::history::{
    ChangeResult, ClientChecker, Entry, EntryKind, Lease, PushResult, Report,
};

pub(crate) const NODE: NodeId = NodeId(7);
pub(crate) const DUE: Timestamp = Timestamp::from_millis(10);

pub(crate) fn id() -> EventId {
    EventId::from_parts(Timestamp::EPOCH, BucketId(0), 1)
}

pub(crate) fn lease(request: u64) -> Lease {
    Lease {
        node: NODE,
        request,
    }
}

pub(crate) fn entry(at_ms: u64, what: EntryKind) -> Entry {
    Entry {
        at_us: at_ms * 1_000,
        store_us: at_ms * 1_000,
        id: Some(id()),
        what,
    }
}

pub(crate) fn asked() -> Entry {
    let (payload, attempts) = (5, 2);
    entry(1, EntryKind::PushAsked { payload, attempts })
}

pub(crate) fn answered(verdict: PushResult) -> Entry {
    let due = Some(DUE);
    let payload = 5;
    entry(
        2,
        EntryKind::PushAnswered {
            verdict,
            payload,
            due,
        },
    )
}

pub(crate) fn started(at_ms: u64, attempt: u16) -> Entry {
    entry(
        at_ms,
        EntryKind::Started {
            lease: lease(attempt.into()),
            attempt,
            due: DUE,
            payload: 5,
        },
    )
}

pub(crate) fn recorded(attempt: u16, outcome: Outcome) -> Entry {
    entry(
        100,
        EntryKind::Recorded {
            node: NODE,
            attempt,
            outcome,
            due: DUE,
        },
    )
}

pub(crate) fn found(state: EventState) -> Entry {
    let state = Some(state);
    entry(101, EntryKind::LastState { state })
}

pub(crate) fn cancel_told() -> Entry {
    entry(
        3,
        EntryKind::CancelAnswered {
            truth: ChangeResult::Done,
        },
    )
}

pub(crate) fn report(entries: &[Entry]) -> Report {
    let mut account = ClientChecker::new();
    entries.iter().for_each(|entry| account.read(entry));
    account.close()
}

/// Tried twice, and done.
pub(crate) fn good() -> Vec<Entry> {
    vec![
        asked(),
        answered(PushResult::Accepted),
        started(10, 1),
        started(30, 2),
        recorded(1, Outcome::Retried),
        recorded(2, Outcome::Acked),
        found(EventState::Done),
    ]
}
