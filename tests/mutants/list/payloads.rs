use super::{edit, test};
use crate::mutant::{Mutant, Promise::Payloads, Test};

const fn payloads(name: &'static str) -> Test {
    test("payloads", name)
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "same-value-same-bytes",
        breaks: Payloads,
        bug: "a value is encrypted to the same bytes in every event of a queue",
        edits: &[
            edit(
                "src/codec/cipher.rs",
                "    let [_, _, _, _, nonce @ ..] = id.to_bytes();\n",
                "    let (nonce, _) = ([0; 12], id);\n",
            ),
            edit(
                "src/codec/cipher.rs",
                "    let mut bound = id.to_bytes().to_vec();\n",
                "    let (mut bound, _) = (Vec::new(), id);\n",
            ),
        ],
        caught_by: payloads("what_is_encrypted_shows_nothing_of_its_value"),
        masked_by: None,
    },
    Mutant {
        name: "ciphertext-bound-to-nothing",
        breaks: Payloads,
        bug: "a ciphertext opens as that of another event or queue",
        edits: &[
            edit(
                "src/codec/cipher.rs",
                "    bound.extend_from_slice(head);\n    bound\n",
                "    bound.extend_from_slice(head);\n    bound.clear();\n    bound\n",
            ),
            edit(
                "src/codec/cipher.rs",
                "    let [_, _, _, _, nonce @ ..] = id.to_bytes();\n",
                "    let (nonce, _) = ([0; 12], id);\n",
            ),
        ],
        caught_by: payloads("a_payload_that_was_encrypted_elsewhere_is_opened"),
        masked_by: None,
    },
    Mutant {
        name: "wrong-key-without-a-reason",
        breaks: Payloads,
        bug: "what a missing key made a dead letter has another cause",
        edits: &[edit(
            "src/flow/handlers/executor.rs",
            "            DecodeError::Undecryptable(_) => (Cause::Undecryptable, false),",
            "            DecodeError::Undecryptable(_) => (Cause::Undecodable, false),",
        )],
        caught_by: payloads(
            "a_missing_key_makes_a_dead_letter_that_lives_again_once_the_key_is_there",
        ),
        masked_by: None,
    },
    Mutant {
        name: "rewrite-over-a-change",
        breaks: Payloads,
        bug: "a payload that was changed while keys are rotated is overwritten by what it was",
        edits: &[edit(
            "src/core/reference/change.rs",
            "            if entry.is_leased() || entry.fingerprint != *was {",
            "            if entry.is_leased() || was == &1 {",
        )],
        caught_by: payloads("a_change_that_is_made_meanwhile_is_never_overwritten"),
        masked_by: None,
    },
    Mutant {
        name: "conflict-after-rotation",
        breaks: Payloads,
        bug: "the same push after another key was chosen is a conflict",
        edits: &[edit(
            "src/bus/prepared.rs",
            "                same.await?.ok_or(error)",
            "                { let _ = same.await?; Err(error) }",
        )],
        caught_by: payloads("a_push_again_after_a_rotation_is_a_duplicate_too"),
        masked_by: None,
    },
    Mutant {
        name: "made-anew-under-the-old-id",
        breaks: Payloads,
        bug: "an event whose id is made anew is encrypted for the old id",
        edits: &[edit(
            "src/bus/push_batch.rs",
            "            envelope.payload = self.inner.under_another_id(payload, &self.name, ids)?;",
            "            let _ = self.inner.under_another_id(payload, &self.name, ids)?;",
        )],
        caught_by: payloads("a_push_whose_id_is_made_anew_can_be_read"),
        masked_by: None,
    },
    Mutant {
        name: "decoder-quotes-what-was-encrypted",
        breaks: Payloads,
        bug: "an error of the decoder quotes a payload that was encrypted",
        edits: &[edit(
            "src/codec/decrypted.rs",
            "            true => WITHHELD.into(),",
            "            true => error,",
        )],
        caught_by: payloads("what_is_no_such_value_is_told_without_quoting_it"),
        masked_by: None,
    },
    Mutant {
        name: "newer-payload-buried-at-once",
        breaks: Payloads,
        bug: "what a newer build has pushed is buried at the first attempt",
        edits: &[edit(
            "src/flow/handlers/executor.rs",
            "                delivery.attempt < delivery.body.attempts,\n",
            "                false,\n",
        )],
        caught_by: payloads("a_newer_payload_is_tried_and_tried_again_before_it_is_buried"),
        masked_by: None,
    },
    Mutant {
        name: "update-of-the-envelopes-version",
        breaks: Payloads,
        bug: "what an update writes is taken for the version that was pushed",
        edits: &[edit(
            "src/bus/payloads.rs",
            "        let version = Some(self.options.version).filter(|version| *version > 0);",
            "        let version = None;",
        )],
        caught_by: payloads("what_an_update_writes_is_of_the_version_of_who_wrote_it"),
        masked_by: None,
    },
    Mutant {
        name: "pushed-many-in-clear",
        breaks: Payloads,
        bug: "`push_many` does not encrypt",
        edits: &[edit(
            "src/bus/push_many.rs",
            "self.stored(id, value)?",
            "value.into()",
        )],
        caught_by: payloads("every_way_to_push_encrypts"),
        masked_by: None,
    },
    Mutant {
        name: "pass-goes-by-what-is-leased",
        breaks: Payloads,
        bug: "a pass through everything that waits goes by what handlers hold",
        edits: &[edit(
            "src/core/reference/read.rs",
            "_ if entry.is_unconfirmed() => false,",
            "_ if entry.is_unconfirmed() || entry.is_leased() => false,",
        )],
        caught_by: test(
            "store_contract",
            "a_pass_reads_everything_that_is_not_over_as_it_stands",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-pass-through-the-delay-set",
        breaks: Payloads,
        bug: "Redis: a pass goes through the delay set, which events leave and come back to",
        edits: &[edit(
            "src/store/redis/lua/peek.lua",
            "call(\"HSCAN\", BODY, ",
            "call(\"ZSCAN\", DELAY, ",
        )],
        caught_by: test(
            "store_contract",
            "a_pass_sees_what_stays_though_everything_moves_and_others_come_and_end",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-place-of-another-process",
        breaks: Payloads,
        bug: "Redis: a pass goes on in a server that was started anew as if its order were the same",
        edits: &[edit(
            "src/store/redis/lua/peek.lua",
            "of == server and place or \"0\"",
            "place or \"0\"",
        )],
        caught_by: test(
            "redis_store",
            "a_pass_goes_on_over_a_restart_of_its_server_and_misses_nothing",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-page-reads-the-whole-bucket",
        breaks: Payloads,
        bug: "Redis: each page of a pass reads all that waits in its bucket",
        edits: &[edit(
            "src/store/redis/lua/peek.lua",
            "\"COUNT\", math.max(want, 1))",
            "\"COUNT\", 1000000)",
        )],
        caught_by: test(
            "redis_store",
            "a_page_is_no_more_work_of_many_events_than_of_few",
        ),
        masked_by: None,
    },
    Mutant {
        name: "lost-values-are-accepted",
        breaks: Payloads,
        bug: "a push accepts what does not come back",
        edits: &[edit(
            "src/bus/round_trips.rs",
            "            && (!is_known || is_doubtful)",
            "            && is_known\n            && !is_doubtful",
        )],
        caught_by: payloads("what_does_not_come_back_is_refused_at_its_push"),
        masked_by: None,
    },
    Mutant {
        name: "another-value-counts-as-the-same",
        breaks: Payloads,
        bug: "a push accepts what comes back as another value",
        edits: &[edit(
            "src/codec/values.rs",
            "    match decoded == before || before != digest(value, readable) {",
            "    match decoded == before || before.is_some() {",
        )],
        caught_by: payloads("what_does_not_come_back_is_refused_at_its_push"),
        masked_by: None,
    },
    Mutant {
        name: "lease-without-upgrade",
        breaks: Payloads,
        bug: "a typed lease buries what its handler would upgrade",
        edits: &[edit(
            "src/bus/lease/mod.rs",
            "            upgrade: self.upgrade,",
            "            upgrade: None,",
        )],
        caught_by: payloads("a_lease_upgrades_what_the_handler_of_its_queue_would"),
        masked_by: None,
    },
    Mutant {
        name: "reply-in-clear",
        breaks: Payloads,
        bug: "the reply to a call lies in a shared store in clear text",
        edits: &[
            edit(
                "src/bus/queue.rs",
                "        if self.inner.options(queue).encrypt {",
                "        if false && self.inner.options(queue).encrypt {",
            ),
            edit(
                "src/bus/call/stored_replies.rs",
                "    if frame.is_ok_and(|frame| frame.key_id.is_some()) {",
                "    if false && frame.is_ok_and(|frame| frame.key_id.is_some()) {",
            ),
        ],
        caught_by: test(
            "redis_store",
            "a_reply_is_encrypted_in_the_store_if_its_queue_or_its_call_is",
        ),
        masked_by: None,
    },
];
