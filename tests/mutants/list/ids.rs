use super::{contract, edit, test};
use crate::mutant::{Mutant, Promise::Ids};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "held-unique-key-free-at-the-end",
        breaks: Ids,
        bug: "embedded: a unique key that stays taken is not written down",
        edits: &[edit(
            "src/store/embedded/uniques.rs",
            "let sum = sums::of_unique(bucket, key, id, ms(until));",
            "let sum = 0;",
        )],
        caught_by: contract("a_unique_key_stays_taken_over_a_new_opening"),
        masked_by: None,
    },
    Mutant {
        name: "redis-held-unique-key-taken-for-ever",
        breaks: Ids,
        bug: "Redis: a unique key that stays taken for a time is never free again",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "if replaces or number_at(other, 17) <= now_ms then",
            "if replaces then",
        )],
        caught_by: contract(
            "a_unique_key_stays_taken_for_as_long_as_asked_after_its_event_is_done",
        ),
        masked_by: None,
    },
    Mutant {
        name: "key-outlives-its-event",
        breaks: Ids,
        bug: "an event that is over is still in the index of keys",
        edits: &[edit(
            "src/core/reference/unique.rs",
            "self.keys.remove(&(Arc::clone(key), id));",
            "let _ = key;",
        )],
        caught_by: contract("an_event_is_found_by_its_key_until_it_is_over"),
        masked_by: None,
    },
    Mutant {
        name: "redis-key-not-found",
        breaks: Ids,
        bug: "Redis: a push does not write the key of its event into the index",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "    write_all(\"ZADD\", BY_KEY, keyed)",
            "",
        )],
        caught_by: contract("an_event_is_found_by_its_key_until_it_is_over"),
        masked_by: None,
    },
    Mutant {
        name: "conflict-is-a-duplicate",
        breaks: Ids,
        bug: "another payload under a known id is answered as a repeat",
        edits: &[edit(
            "src/core/reference/push.rs",
            "Some(known) if known != fingerprint => PushOutcome::Conflict,",
            "Some(known) if known != fingerprint => PushOutcome::Duplicate(id),",
        )],
        caught_by: contract("another_payload_under_the_same_id_is_a_conflict_in_any_state"),
        masked_by: None,
    },
    Mutant {
        name: "redis-conflict-overwritten",
        breaks: Ids,
        bug: "Redis: another payload under a known id takes the first one's place",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "  if known or it then\n",
            "  if (known or it) and not (known and sub(known, 5, 12) ~= sub(body, 5, 12)) then\n",
        )],
        caught_by: contract("another_payload_under_the_same_id_is_a_conflict_in_any_state"),
        masked_by: None,
    },
    Mutant {
        name: "settled-id-forgotten",
        breaks: Ids,
        bug: "an id is forgotten as soon as its event is over",
        edits: &[edit(
            "src/core/reference/mod.rs",
            "if self.dedup.remember(finished) {",
            "if false && self.dedup.remember(finished) {",
        )],
        caught_by: contract("the_same_id_again_changes_nothing_in_any_state"),
        masked_by: None,
    },
    Mutant {
        name: "redis-settled-id-forgotten",
        breaks: Ids,
        bug: "Redis: an id is forgotten as soon as its event is over",
        edits: &[edit(
            "src/store/redis/lua/settle.lua",
            "    remember(over)\n",
            "    write_all(\"HDEL\", STATE, over)\n",
        )],
        caught_by: contract("the_same_id_again_changes_nothing_in_any_state"),
        masked_by: None,
    },
    Mutant {
        name: "redis-tombstone-of-several-loses-one",
        breaks: Ids,
        bug: "Redis: of events that were acked together, one more is forgotten than the limit says",
        edits: &[edit(
            "src/store/redis/lua/ending.lua",
            "sub(batch, 9 + 16 * seen_of_it)",
            "sub(batch, 25 + 16 * seen_of_it)",
        )],
        caught_by: test(
            "redis_store",
            "events_that_were_acked_together_are_forgotten_one_by_one",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-page-keeps-what-is-leased",
        breaks: Ids,
        bug: "Redis: events that were leased are still in their page",
        edits: &[edit(
            "src/store/redis/lua/fetch.lua",
            "for _, it in ipairs(given) do -- here",
            "for _, it in ipairs({}) do -- here",
        )],
        caught_by: test("redis_store", "an_ack_that_is_repeated_ends_nothing_else"),
        masked_by: None,
    },
    Mutant {
        name: "redis-page-pushed-twice",
        breaks: Ids,
        bug: "Redis: events that are pushed again in a page are taken for new ones",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "if from < it.first + it.count and it.base < from + part.count then",
            "if false then",
        )],
        caught_by: test(
            "redis_store",
            "an_id_is_known_after_all_events_of_its_page_have_ended",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-page-knows-nothing-of-what-is-alone",
        breaks: Ids,
        bug: "Redis: an event that was pushed alone is taken for a new one in the push of its whole page",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "if states[i] or bodies[i] then",
            "if bodies[i] then",
        )],
        caught_by: test(
            "redis_store",
            "an_event_that_was_pushed_alone_is_known_when_its_whole_page_is_pushed",
        ),
        masked_by: None,
    },
    Mutant {
        name: "too-old-accepted",
        breaks: Ids,
        bug: "an id that may have been forgotten is taken for a new one",
        edits: &[edit(
            "src/core/reference/push.rs",
            "(None, None) if id.tells_time() && self.dedup.may_have_forgotten(id) => {",
            "(None, None) if false && self.dedup.may_have_forgotten(id) => {",
        )],
        caught_by: contract("an_id_that_may_have_been_forgotten_is_too_old"),
        masked_by: None,
    },
    Mutant {
        name: "redis-too-old-accepted",
        breaks: Ids,
        bug: "Redis: the push script takes an id that may have been forgotten for a new one",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "elseif some_old and",
            "elseif false and",
        )],
        caught_by: contract("an_id_that_may_have_been_forgotten_is_too_old"),
        masked_by: None,
    },
    Mutant {
        name: "past-not-read",
        breaks: Ids,
        bug: "embedded: an open forgets the ids that are over",
        edits: &[edit(
            "src/store/embedded/tombstones/mod.rs",
            "found.tombstones.into_iter().skip(gone);",
            "found.tombstones.into_iter().skip(gone).take(0);",
        )],
        caught_by: contract("finished_ids_are_remembered"),
        masked_by: None,
    },
    Mutant {
        name: "pushed-again-under-a-new-id",
        breaks: Ids,
        bug: "a push whose answer was lost is repeated under another id",
        edits: &[edit(
            "src/bus/push_batch.rs",
            "let first = self.push_batch(bucket, events.clone(), wanted).await?;",
            "let first = match self.push_batch(bucket, events.clone(), wanted).await {
            Err(error) if error.kind() == crate::error::ErrorKind::Unknown => {
                for event in &mut events {
                    let now = self.inner.now();
                    Arc::make_mut(&mut event.envelope).id =
                        EventId::from_parts(now, bucket, fastrand::u64(..));
                }
                self.push_batch(bucket, events.clone(), wanted).await?
            }
            first => first?,
        };",
        )],
        caught_by: test(
            "delivery",
            "a_push_whose_answer_is_lost_is_not_repeated_under_another_id",
        ),
        masked_by: None,
    },
    Mutant {
        name: "made-anew-after-unknown",
        breaks: Ids,
        bug: "a push that may have happened is pushed under a new id",
        edits: &[edit(
            "src/core/push.rs",
            "(Self::Made, PushOutcome::TooOld | PushOutcome::TooNew) => NextPush::Renew,",
            "(Self::Made, PushOutcome::TooOld | PushOutcome::TooNew | PushOutcome::Unknown) => NextPush::Renew,",
        )],
        caught_by: test(
            "delivery",
            "a_push_of_which_an_attempt_may_have_happened_is_not_made_anew",
        ),
        masked_by: None,
    },
    Mutant {
        name: "own-attempt-is-a-duplicate",
        breaks: Ids,
        bug: "a push is called a duplicate of its own first attempt",
        edits: &[edit(
            "src/core/push.rs",
            "(Self::Made | Self::Renewed, PushOutcome::Duplicate(other)) if other == id => {",
            "(Self::Renewed, PushOutcome::Duplicate(other)) if other == id => {",
        )],
        caught_by: test("delivery", "an_own_first_attempt_is_no_duplicate"),
        masked_by: None,
    },
    Mutant {
        name: "made-anew-by-another-chance",
        breaks: Ids,
        bug: "an id that is made anew has another random part than the one by which its event is spread",
        edits: &[edit(
            "src/bus/push_batch.rs",
            "EventId::from_parts(now, bucket, envelope.id.entropy()),",
            "EventId::from_parts(now, bucket, fastrand::u64(..)),",
        )],
        caught_by: test("delivery", "a_renewed_push_keeps_its_part_of_a_spread"),
        masked_by: None,
    },
    Mutant {
        name: "id-from-the-future",
        breaks: Ids,
        bug: "an id that was made far ahead of the store is accepted",
        edits: &[edit(
            "src/core/reference/push.rs",
            "(None, None) if is_ahead(id.created(), self.now_us) => {",
            "(None, None) if false && is_ahead(id.created(), self.now_us) => {",
        )],
        caught_by: contract("an_id_from_the_future_is_too_new"),
        masked_by: None,
    },
    Mutant {
        name: "redis-id-from-the-future",
        breaks: Ids,
        bug: "Redis: an id that was made far ahead of the server is accepted",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "elseif some_new and",
            "elseif false and",
        )],
        caught_by: contract("an_id_from_the_future_is_too_new"),
        masked_by: None,
    },
    Mutant {
        name: "remembered-by-number-alone",
        breaks: Ids,
        bug: "an ended id is forgotten within its minute when many end after it",
        edits: &[edit(
            "src/core/reference/dedup.rs",
            "(len > max && age_us >= self.window.keep_for.as_micros())",
            "len > max",
        )],
        caught_by: contract("an_id_is_remembered_for_its_time_however_many_end_after_it"),
        masked_by: None,
    },
    Mutant {
        name: "redis-remembered-by-number-alone",
        breaks: Ids,
        bug: "Redis: an ended id is forgotten within its minute when many end after it",
        edits: &[edit(
            "src/store/redis/lua/ending.lua",
            "has_ended and age >= keep_us and",
            "has_ended and",
        )],
        caught_by: contract("an_id_is_remembered_for_its_time_however_many_end_after_it"),
        masked_by: None,
    },
    Mutant {
        name: "redis-remembered-without-end",
        breaks: Ids,
        bug: "Redis: more ended ids are remembered than the cap allows",
        edits: &[edit(
            "src/store/redis/lua/ending.lua",
            "math.min(max, cap) or cap",
            "max or past",
        )],
        caught_by: contract("no_more_ids_are_remembered_than_the_cap_allows"),
        masked_by: None,
    },
    Mutant {
        name: "ended-fingerprint-lost",
        breaks: Ids,
        bug: "embedded: after a start any push of an ended id is a duplicate, whatever it carries",
        edits: &[edit(
            "src/store/embedded/tombstones/row.rs",
            "fingerprint: (known & 1 != 0).then_some(fingerprint),",
            "fingerprint: None,",
        )],
        caught_by: test(
            "embedded",
            "another_payload_under_an_ended_id_is_a_conflict_after_a_restart",
        ),
        masked_by: None,
    },
    Mutant {
        name: "dropped-tombstones-come-back",
        breaks: Ids,
        bug: "embedded: a start remembers ids that the dedup window had dropped",
        edits: &[edit(
            "src/store/embedded/tombstones/mod.rs",
            "found.tombstones.into_iter().skip(gone);",
            "found.tombstones.into_iter().skip(gone * 0);",
        )],
        caught_by: test(
            "store_model",
            "the_embedded_store_without_a_thread_answers_as_the_model_does",
        ),
        masked_by: None,
    },
];
