use super::{edit, test};
use crate::mutant::{Mutant, Promise::Ids};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "foreign-id-chooses-its-bucket",
        breaks: Ids,
        bug: "an id that its caller made names a bucket that its queue does not have",
        edits: &[edit(
            "src/event/place.rs",
            "match self.tells_time() && named.0 < buckets {",
            "match self.tells_time() {",
        )],
        caught_by: test(
            "names",
            "ids_of_another_library_and_names_lie_in_the_buckets_of_their_queue",
        ),
        masked_by: None,
    },
    Mutant {
        name: "earlier-push-not-followed",
        breaks: Ids,
        bug: "a repeat after a change of the number of buckets goes to another bucket",
        edits: &[edit(
            "src/bus/prepared.rs",
            "Arc::make_mut(envelope).put_in(bucket);",
            "let _ = bucket;",
        )],
        caught_by: test(
            "names",
            "a_repeat_is_a_duplicate_whatever_number_of_buckets_its_queue_has_had",
        ),
        masked_by: None,
    },
    Mutant {
        name: "living-watcher-dropped",
        breaks: Ids,
        bug: "one watcher more than the limit drops the oldest, which is alive",
        edits: &[edit(
            "src/store/watchers.rs",
            "        if watchers.len() >= WATCHERS_MAX {\n",
            "        if watchers.len() >= WATCHERS_MAX {\n            watchers.remove(0);\n        }\n        if false {\n",
        )],
        caught_by: test(
            "names",
            "more_living_buses_than_a_store_takes_are_refused_and_none_is_dropped",
        ),
        masked_by: None,
    },
    Mutant {
        name: "store-keeps-its-puller",
        breaks: Ids,
        bug: "a store and its puller keep each other alive",
        edits: &[edit(
            "src/flow/pull/mod.rs",
            "        let watcher: Weak<Self> = Arc::downgrade(self);\n",
            "        std::mem::forget(Arc::clone(self));\n        let watcher: Weak<Self> = Arc::downgrade(self);\n",
        )],
        caught_by: test("names", "a_store_goes_away_with_its_last_bus"),
        masked_by: None,
    },
    Mutant {
        name: "look-makes-a-bucket",
        breaks: Ids,
        bug: "what only looks makes a bucket exist",
        edits: &[edit(
            "src/store/shards.rs",
            "        change(&mut Bucket::new(key.clone()).with_window(self.window))\n",
            "        self.change(key, news, change)\n",
        )],
        caught_by: test("names", "what_only_looks_makes_no_bucket"),
        masked_by: None,
    },
    Mutant {
        name: "idle-bucket-stays",
        breaks: Ids,
        bug: "a bucket without anything in it stays for ever",
        edits: &[edit(
            "src/store/shards/sweep.rs",
            "true => idle.push(key.clone()),",
            "true => {}",
        )],
        caught_by: test("names", "names_leave_nothing_behind_in_memory"),
        masked_by: None,
    },
    Mutant {
        name: "redis-look-writes-counts",
        breaks: Ids,
        bug: "Redis: a look at a bucket that does not exist writes its counts",
        edits: &[edit(
            "src/store/redis/lua/bucket.lua",
            "  if meta[1] or adds or leased > 0 then\n",
            "  if true then\n",
        )],
        caught_by: test("names", "what_only_looks_writes_no_key"),
        masked_by: None,
    },
    Mutant {
        name: "tombstone-rows-of-names-stay",
        breaks: Ids,
        bug: "embedded: what was dropped of the ids of each name stays in the file for ever",
        edits: &[edit(
            "src/store/embedded/tombstones/mod.rs",
            "if self.empty.len() <= EMPTY_MAX {",
            "if self.empty.len() <= usize::MAX {",
        )],
        caught_by: test("names", "names_leave_nothing_behind_in_the_embedded_store"),
        masked_by: None,
    },
];
