//! When a bucket must be looked at earlier than before.

use duly::__internal::Head;
use duly::time::Timestamp;

#[test]
fn a_head_is_earlier_when_something_is_ready_or_due_sooner() {
    let head = |ready, due: Option<u64>| Head {
        ready,
        next_due: due.map(Timestamp::from_millis),
    };
    let none = head(false, None);
    assert!(head(true, None).is_earlier_than(none));
    assert!(head(false, Some(5)).is_earlier_than(none));
    assert!(head(false, Some(5)).is_earlier_than(head(false, Some(6))));
    for (this, that) in [
        (none, none),
        (none, head(false, Some(5))),
        (head(true, Some(5)), head(true, Some(5))),
        (head(false, Some(6)), head(false, Some(5))),
        (head(false, None), head(true, None)),
    ] {
        assert!(!this.is_earlier_than(that), "{this:?} {that:?}");
    }
}
