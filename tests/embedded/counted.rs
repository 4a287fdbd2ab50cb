//! Damage is counted, though the others go on.

use duly::store::EmbeddedStore;

use crate::embedded::damage::{damaged, meddle};
use crate::embedded::harness::*;
use crate::seen::Seen;

/// Damage is no failed call: the others are delivered. It counts as one, so that somebody looks.
#[test]
fn damage_that_a_fetch_or_a_start_meets_is_counted() {
    let told = Seen::default();
    let place = Place::new();
    let options = place.options().cache_bytes(0);
    let rot = |row: u64| {
        let sql = format!("UPDATE events SET body = zeroblob(100) WHERE row = {row}");
        meddle(&place, &sql);
    };
    metrics::with_local_recorder(&told, || {
        let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
        (1..=4).for_each(|n| push_now(&store, n));
        rot(2);
        assert_eq!(fetch(&store, 1).len(), 3);
        assert_eq!(fetch(&store, 2).len(), 0);
    });
    let errors = |op| told.value(&format!("duly_store_errors_total{{kind=corrupt,op={op}}}"));
    assert_eq!(errors("fetch"), 1.0);
    rot(3);
    metrics::with_local_recorder(&told, || {
        let store = place.open();
        assert_eq!(damaged(&store).len(), 2);
    });
    assert_eq!((errors("fetch"), errors("open")), (1.0, 1.0));
}
