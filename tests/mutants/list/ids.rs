use super::{delivery, drop, embedded, lib, never, put, redis_store, store_contract};
use crate::mutant::{Mutant, Promise::Ids};

pub(crate) const MUTANTS: &[Mutant] = &[
    Ids.bug(
        "held-unique-key-free-at-the-end",
        "embedded: a unique key that stays taken is not written down",
        &[put(
            "uniques::write",
            "sums::of_unique($bucket, $key, $id, ms($until))",
            "0",
        )],
        store_contract("a_unique_key_stays_taken_over_a_new_opening"),
    ),
    Ids.bug(
        "redis-held-unique-key-taken-for-ever",
        "Redis: a unique key that stays taken for a time is never free again",
        &[put("lua::taken", "or number_at($other, 17) <= now_ms", "")],
        store_contract("a_unique_key_stays_taken_for_as_long_as_asked_after_its_event_is_done"),
    ),
    Ids.bug(
        "redis-unique-key-by-the-order-of-texts",
        "Redis: whether an event with a unique key has ended follows the locale of the server",
        &[put(
            "replace_one",
            "has_ended($it.kind)",
            r#"$it.kind >= "a""#,
        )],
        store_contract("a_unique_key_stays_taken_while_its_event_runs_or_waits_again"),
    ),
    Ids.bug(
        "key-outlives-its-event",
        "an event that is over is still in the index of keys",
        &[put(
            "Bucket::free_key",
            "self.keys.remove(&(Arc::clone($key), $id))",
            "let _ = $key",
        )],
        store_contract("an_event_is_found_by_its_key_until_it_is_over"),
    ),
    Ids.bug(
        "redis-key-not-found",
        "Redis: a push does not write the key of its event into the index",
        &[drop("lua::write", "BY_KEY")],
        store_contract("an_event_is_found_by_its_key_until_it_is_over"),
    ),
    Ids.bug(
        "conflict-is-a-duplicate",
        "another payload under a known id is answered as a repeat",
        &[put(
            "Bucket::known",
            "$id: EventId $... «PushOutcome::Conflict»",
            "PushOutcome::Duplicate($id)",
        )],
        store_contract("another_payload_under_the_same_id_is_a_conflict_in_any_state"),
    ),
    Ids.bug(
        "redis-conflict-overwritten",
        "Redis: another payload under a known id takes the first one's place",
        &[put(
            "lua::push",
            "$body = $ids[ $... if «$known or $it» then",
            "($known or $it) and not ($known and sub($known, 5, 12) ~= sub($body, 5, 12))",
        )],
        store_contract("another_payload_under_the_same_id_is_a_conflict_in_any_state"),
    ),
    Ids.bug(
        "settled-id-forgotten",
        "an id is forgotten as soon as its event is over",
        &[never("Bucket::finish", "dedup.remember")],
        store_contract("the_same_id_again_changes_nothing_in_any_state"),
    ),
    Ids.bug(
        "redis-settled-id-forgotten",
        "Redis: an id is forgotten as soon as its event is over",
        &[put(
            "settle.lua",
            "remember($over)",
            r#"write_all("HDEL", STATE,$over)"#,
        )],
        store_contract("the_same_id_again_changes_nothing_in_any_state"),
    ),
    Ids.bug(
        "redis-tombstone-of-several-loses-one",
        "Redis: of events that were acked together, one more is forgotten than the limit says",
        &[put("lua::forget", "$batch, «9» + 16 * $seen_of_it", "25")],
        redis_store("events_that_were_acked_together_are_forgotten_one_by_one"),
    ),
    Ids.bug(
        "redis-page-keeps-what-is-leased",
        "Redis: events that were leased are still in their page",
        &[put("commit", "ipairs(«$given»)", "{}")],
        redis_store("an_ack_that_is_repeated_ends_nothing_else"),
    ),
    Ids.bug(
        "redis-page-pushed-twice",
        "Redis: events that are pushed again in a page are taken for new ones",
        &[never("lua::are_new", "$it.first")],
        redis_store("an_id_is_known_after_all_events_of_its_page_have_ended"),
    ),
    Ids.bug(
        "redis-page-knows-nothing-of-what-is-alone",
        "Redis: an event that was pushed alone is taken for a new one in the push of its whole \
         page",
        &[put("lua::are_new", "«$states[$i] or» $bodies", "")],
        redis_store("an_event_that_was_pushed_alone_is_known_when_its_whole_page_is_pushed"),
    ),
    Ids.bug(
        "too-old-accepted",
        "an id that may have been forgotten is taken for a new one",
        &[put("Bucket::known", "$id.tells_time()", "false")],
        store_contract("an_id_that_may_have_been_forgotten_is_too_old"),
    ),
    Ids.bug(
        "redis-too-old-accepted",
        "Redis: the push script takes an id that may have been forgotten for a new one",
        &[put("lua::push", "«$some_old» and may_be_over", "false")],
        store_contract("an_id_that_may_have_been_forgotten_is_too_old"),
    ),
    Ids.bug(
        "past-not-read",
        "embedded: an open forgets the ids that are over",
        &[put("TombstoneRows::restore", "skip($gone)«»", ".take(0)")],
        store_contract("finished_ids_are_remembered"),
    ),
    Ids.bug(
        "pushed-again-under-a-new-id",
        "a push whose answer was lost is repeated under another id",
        &[put(
            "QueueHandle::push_made",
            "let $first = «self.apply_push($bucket, $events.clone(), $wanted).await?»",
            "match self.apply_push($bucket, $events.clone(), $wanted).await { Err(error) \
             if error.kind() == crate::error::ErrorKind::Unknown => { for event in &mut \
             $events { let now = self.inner.now(); Arc::make_mut(&mut event.envelope).id \
             = EventId::from_parts(now, $bucket, fastrand::u64(..)); } \
             self.apply_push($bucket, $events.clone(), $wanted).await? } first => \
             first?, }",
        )],
        delivery("a_push_whose_answer_is_lost_is_not_repeated_under_another_id"),
    ),
    Ids.bug(
        "made-anew-after-unknown",
        "a push that may have happened is pushed under a new id",
        &[put("PushedId::next", "TooNew«»)", "| PushOutcome::Unknown")],
        delivery("a_push_of_which_an_attempt_may_have_happened_is_not_made_anew"),
    ),
    Ids.bug(
        "own-attempt-is-a-duplicate",
        "a push is called a duplicate of its own first attempt",
        &[put("PushedId::next", "«Generated | Self::»Renewed", "")],
        delivery("an_own_first_attempt_is_no_duplicate"),
    ),
    Ids.bug(
        "made-anew-by-another-chance",
        "an id that is made anew has another random part than the one by which its event is \
         spread",
        &[put(
            "QueueHandle::push_made",
            "$envelope.id.entropy()",
            "fastrand::u64(..)",
        )],
        delivery("a_renewed_push_keeps_its_part_of_a_spread"),
    ),
    Ids.bug(
        "id-from-the-future",
        "an id that was made far ahead of the store is accepted",
        &[never("Bucket::known", "is_ahead")],
        store_contract("an_id_from_the_future_is_too_new"),
    ),
    Ids.bug(
        "redis-id-from-the-future",
        "Redis: an id that was made far ahead of the server is accepted",
        &[put("lua::push", "«$some_new» and (unpack_from", "false")],
        store_contract("an_id_from_the_future_is_too_new"),
    ),
    Ids.bug(
        "remembered-by-number-alone",
        "an ended id is forgotten within its minute when many end after it",
        &[put(
            "DedupState::is_surplus",
            "($len > $max && $age_us >= self.window.keep_for.as_micros())",
            "$len > $max",
        )],
        store_contract("an_id_is_remembered_for_its_time_however_many_end_after_it"),
    ),
    Ids.bug(
        "redis-remembered-by-number-alone",
        "Redis: an ended id is forgotten within its minute when many end after it",
        &[put("lua::forget", "«$age >= $keep_us and» math", "")],
        store_contract("an_id_is_remembered_for_its_time_however_many_end_after_it"),
    ),
    Ids.bug(
        "redis-remembered-without-end",
        "Redis: more ended ids are remembered than the cap allows",
        &[put(
            "lua::forget",
            "math.min($max, $cap) or $cap",
            "$max or past",
        )],
        store_contract("no_more_ids_are_remembered_than_the_cap_allows"),
    ),
    Ids.bug(
        "ended-fingerprint-lost",
        "embedded: after a start any push of an ended id is a duplicate, whatever it carries",
        &[put(
            "Bytes::tombstone",
            "fingerprint: «($known & 1 != 0).then_some($fingerprint)»",
            "None",
        )],
        embedded("another_payload_under_an_ended_id_is_a_conflict_after_a_restart"),
    ),
    Ids.bug(
        "lowered-watermark-not-kept",
        "embedded: a watermark that is lowered, as a clock was ahead, is not written down",
        &[drop("DedupState::heal", "self.has_healed = true")],
        embedded("a_bucket_that_takes_pushes_again_does_so_after_a_restart"),
    ),
    Ids.bug(
        "highest-watermark-counts",
        "embedded: a restart takes the highest watermark of a bucket, and not the last one",
        &[put(
            "Shards::set_watermark_of",
            "lock().«set_watermark»",
            "raise_watermark",
        )],
        embedded("a_bucket_that_takes_pushes_again_does_so_after_a_restart"),
    ),
    Ids.bug(
        "lowered-watermark-refused",
        "embedded: a watermark that is lowered by a push that a full disk refuses is not written",
        &[put(
            "Shared::decide",
            "$window, «CommitPart::Rest»",
            "CommitPart::Pushes",
        )],
        embedded("a_push_that_lowers_a_watermark_is_refused_where_it_has_no_room"),
    ),
    Ids.bug(
        "watermark-of-all-not-raised",
        "embedded: what becomes the watermark of every bucket is so only after a restart",
        &[drop("Writer::commit", "raise_watermark")],
        embedded("an_id_is_as_old_before_a_restart_as_after_it"),
    ),
    Ids.bug(
        "dropped-tombstones-come-back",
        "embedded: a start remembers ids that the dedup window had dropped",
        &[put("TombstoneRows::restore", "skip($gone«»)", "* 0")],
        lib("of_a_row_that_was_dropped_in_part_the_rest_comes_back"),
    ),
];
