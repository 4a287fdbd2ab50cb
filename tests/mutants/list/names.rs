use super::{always, names, put};
use crate::mutant::{Mutant, Promise::Ids};

pub(crate) const MUTANTS: &[Mutant] = &[
    Ids.bug(
        "foreign-id-chooses-its-bucket",
        "an id that its caller made names a bucket that its queue does not have",
        &[put(
            "EventId::place",
            "tells_time() «&& $named.0 < $buckets»",
            "",
        )],
        names("ids_of_another_library_and_names_lie_in_the_buckets_of_their_queue"),
    ),
    Ids.bug(
        "earlier-push-not-followed",
        "a repeat after a change of the number of buckets goes to another bucket",
        &[put(
            "QueueHandle::follow_earlier_push",
            "Arc::make_mut($envelope).put_in($bucket)",
            "let _ = $bucket",
        )],
        names("a_repeat_is_a_duplicate_whatever_number_of_buckets_its_queue_has_had"),
    ),
    Ids.bug(
        "living-watcher-dropped",
        "one watcher more than the limit drops the oldest, which is alive",
        &[put(
            "Watchers::add",
            "$watchers = $... «WATCHERS_MAX { return Err»",
            "WATCHERS_MAX { $watchers.remove(0); } if false { return Err",
        )],
        names("more_living_buses_than_a_store_takes_are_refused_and_none_is_dropped"),
    ),
    Ids.bug(
        "redis-name-listened-to-for-ever",
        "Redis: a bucket that nobody polls any more stays subscribed",
        &[put(
            "Channels::remove_idle",
            "|_, $subject| «self.receiver.removes_idle($subject)»",
            "false",
        )],
        names("names_that_nobody_polls_any_more_are_not_listened_to"),
    ),
    Ids.bug(
        "store-keeps-its-puller",
        "a store and its puller keep each other alive",
        &[put(
            "Pulls::start",
            "«» let $watcher: Weak",
            "std::mem::forget(Arc::clone(self));",
        )],
        names("a_store_goes_away_with_its_last_bus"),
    ),
    Ids.bug(
        "look-makes-a-bucket",
        "what only looks makes a bucket exist",
        &[put(
            "Shards::change_known",
            "$news: WakeRule $... «$change); } } change(&mut \
             Bucket::new($key.clone()).with_window(self.window))»",
            "$change); } } self.change($key, $news, $change)",
        )],
        names("what_only_looks_makes_no_bucket"),
    ),
    Ids.bug(
        "idle-bucket-stays",
        "a bucket without anything in it stays for ever",
        &[put(
            "Shards::sweep_some",
            "«$idle.push($key.clone()),» false",
            "{}",
        )],
        names("names_leave_nothing_behind_in_memory"),
    ),
    Ids.bug(
        "redis-look-writes-counts",
        "Redis: a look at a bucket that does not exist writes its counts",
        &[always("keep_counts", "$meta[1] or $adds")],
        names("what_only_looks_writes_no_key"),
    ),
    Ids.bug(
        "tombstone-rows-of-names-stay",
        "embedded: what was dropped of the ids of each name stays in the file for ever",
        &[put("TombstoneRows::unused", "<= «EMPTY_MAX»", "usize::MAX")],
        names("names_leave_nothing_behind_in_the_embedded_store"),
    ),
];
