use super::{delivery, never, payloads, put, redis_store, store_contract};
use crate::mutant::{Mutant, Promise::Payloads};

pub(crate) const MUTANTS: &[Mutant] = &[
    Payloads.bug(
        "same-value-same-bytes",
        "a value is encrypted to the same bytes in every event of a queue",
        &[
            put(
                "nonce",
                "[_, _, _, _, $nonce @ ..] = $id.to_bytes()",
                "($nonce, _) = ([0; 12], $id)",
            ),
            put(
                "cipher::bound",
                "mut $bound = $id.to_bytes().to_vec()",
                "(mut $bound, _) = (Vec::new(), $id)",
            ),
        ],
        payloads("what_is_encrypted_shows_nothing_of_its_value"),
    ),
    Payloads.bug(
        "ciphertext-bound-to-nothing",
        "a ciphertext opens as that of another event or queue",
        &[
            put(
                "cipher::bound",
                "extend_from_slice($head); $bound «»",
                ".clear(); $bound",
            ),
            put(
                "nonce",
                "[_, _, _, _, $nonce @ ..] = $id.to_bytes()",
                "($nonce, _) = ([0; 12], $id)",
            ),
        ],
        payloads("a_payload_that_was_encrypted_elsewhere_is_opened"),
    ),
    Payloads.bug(
        "wrong-key-without-a-reason",
        "what a missing key made a dead letter has another cause",
        &[put(
            "Executor::settle_unread",
            "«Undecryptable», false",
            "Undecodable",
        )],
        payloads("a_missing_key_makes_a_dead_letter_that_lives_again_once_the_key_is_there"),
    ),
    Payloads.bug(
        "rewrite-over-a-change",
        "a payload that was changed while keys are rotated is overwritten by what it was",
        &[put(
            "Bucket::rewrite",
            "$entry.fingerprint != *$was",
            "$was == &1",
        )],
        payloads("a_change_that_is_made_meanwhile_is_never_overwritten"),
    ),
    Payloads.bug(
        "conflict-after-rotation",
        "the same push after another key was chosen is a conflict",
        &[put(
            "QueueHandle::push_fixed",
            "*$receipt = Ok($same)",
            "let _ = $same",
        )],
        payloads("a_push_again_after_a_rotation_is_a_duplicate_too"),
    ),
    Payloads.bug(
        "conflict-of-a-codec-of-its-own",
        "the same push with a codec of its own is a conflict after another key was chosen",
        &[put(
            "QueueHandle::same_in_another_form",
            "codec: «$value.codec»",
            "self.options.codec",
        )],
        payloads("a_push_again_after_a_rotation_is_a_duplicate_too"),
    ),
    Payloads.bug(
        "made-anew-under-the-old-id",
        "an event whose id is made anew is encrypted for the old id",
        &[put(
            "QueueHandle::push_made",
            "payload; «$envelope.payload»",
            "let _",
        )],
        payloads("a_push_whose_id_is_made_anew_can_be_read"),
    ),
    Payloads.bug(
        "decoder-quotes-what-was-encrypted",
        "an error of the decoder quotes a payload that was encrypted",
        &[put(
            "DecryptedPayload::decode",
            "$error| $... «WITHHELD.into()»",
            "$error",
        )],
        payloads("what_is_no_such_value_is_told_without_quoting_it"),
    ),
    Payloads.bug(
        "newer-payload-buried-at-once",
        "what a newer build has pushed is buried at the first attempt",
        &[put(
            "Executor::settle_unread",
            "$delivery.attempt < $delivery.body.attempts",
            "false",
        )],
        payloads("a_newer_payload_is_tried_and_tried_again_before_it_is_buried"),
    ),
    Payloads.bug(
        "update-of-the-envelopes-version",
        "what an update writes is taken for the version that was pushed",
        &[put(
            "QueueHandle::stored_over",
            "self.knows_version.then_some(self.options.version)",
            "None",
        )],
        payloads("what_an_update_writes_is_of_the_version_of_who_wrote_it"),
    ),
    Payloads.bug(
        "pushed-in-clear",
        "a push does not encrypt",
        &[put(
            "QueueHandle::build",
            "self.stored($place.id, $value, None)?",
            "$value.bytes.into()",
        )],
        payloads("every_way_to_push_encrypts"),
    ),
    Payloads.bug(
        "pass-goes-by-what-is-leased",
        "a pass through everything that waits goes by what handlers hold",
        &[put(
            "Bucket::peek",
            "$entry: && $... is_unconfirmed() «»",
            "|| $entry.is_leased()",
        )],
        store_contract("a_pass_reads_everything_that_is_not_over_as_it_stands"),
    ),
    Payloads.bug(
        "redis-pass-through-the-delay-set",
        "Redis: a pass goes through the delay set, which events leave and come back to",
        &[put(
            "lua::scan_alone",
            r#""HSCAN", BODY"#,
            r#""ZSCAN", DELAY"#,
        )],
        store_contract("a_pass_sees_what_stays_though_everything_moves_and_others_come_and_end"),
    ),
    Payloads.bug(
        "redis-place-of-another-process",
        "Redis: a pass goes on in a server that was started anew as if its order were the same",
        &[put("peek.lua", "«$of == $server and» $place", "")],
        redis_store("a_pass_goes_on_over_a_restart_of_its_server_and_misses_nothing"),
    ),
    Payloads.bug(
        "redis-pass-in-the-order-of-texts",
        "Redis: a pass through a few events goes by the order of texts in the locale of the server",
        &[put(
            "lua::in_order",
            "is_before($before, $event)",
            "$before.id < $event.id",
        )],
        redis_store("a_pass_sees_each_of_a_few_events_that_are_alone_once_and_in_order"),
    ),
    Payloads.bug(
        "sweep-runs-what-has-failed-since",
        "Redis: a sweep runs again what it has run and what has failed",
        &[put("has_run", "$ended >= $since", "false")],
        redis_store("what_a_sweep_runs_and_fails_waits_for_its_retry"),
    ),
    Payloads.bug(
        "redis-page-reads-the-whole-bucket",
        "Redis: each page of a pass reads all that waits in its bucket",
        &[put(
            "lua::scan_pages",
            r#"NAMES, "COUNT", «$count»"#,
            "1000000",
        )],
        redis_store("a_page_is_no_more_work_of_many_events_than_of_few"),
    ),
    Payloads.bug(
        "lost-values-are-accepted",
        "a push accepts what does not come back",
        &[put(
            "Queue::encode",
            "round_trip && «(!$is_known || $is_doubtful)»",
            "$is_known && !$is_doubtful",
        )],
        payloads("what_does_not_come_back_is_refused_at_its_push"),
    ),
    Payloads.bug(
        "another-value-counts-as-the-same",
        "a push accepts what comes back as another value",
        &[put(
            "round_trip",
            "$before «!= digest($value, $readable)»",
            ".is_some()",
        )],
        payloads("what_does_not_come_back_is_refused_at_its_push"),
    ),
    Payloads.bug(
        "lease-without-upgrade",
        "a typed lease buries what its handler would upgrade",
        &[put("Queue::lease", "self.upgrade", "None")],
        payloads("a_lease_upgrades_what_the_handler_of_its_queue_would"),
    ),
    Payloads.bug(
        "reply-in-clear",
        "the reply to a call lies in a shared store in clear text",
        &[
            never("Queue::encrypted_as", "inner.options"),
            put(
                "payloads::is_encrypted",
                "is_some()",
                "is_some_and(|_| false)",
            ),
        ],
        redis_store("a_reply_is_encrypted_in_the_store_if_its_queue_or_its_call_is"),
    ),
    Payloads.bug(
        "reply-lost-in-silence",
        "an event whose reply cannot be stored is done all the same",
        &[put(
            "ExecutorDeps::tell_after_reply",
            "AttemptOutcome::Discard(Some(cut_error($words)))",
            "{ drop($words); AttemptOutcome::Ack }",
        )],
        delivery("a_reply_that_cannot_be_stored_is_an_error_and_not_none"),
    ),
    Payloads.bug(
        "reply-that-has-gone-is-none",
        "a caller that comes after the time of a reply is told that there was none",
        &[put(
            "QueueHandle::look_up",
            "«$status == ReplyStatus::Over» && is_over",
            "false",
        )],
        delivery("a_caller_that_comes_too_late_is_not_told_that_there_was_no_reply"),
    ),
    Payloads.bug(
        "own-queues-as-all-queues",
        "what duly keeps for itself has the options that all queues are to have",
        &[never("Inner::options", "$queue.is_own()")],
        payloads("a_rotation_loses_nothing_of_what_duly_keeps_for_itself"),
    ),
];
