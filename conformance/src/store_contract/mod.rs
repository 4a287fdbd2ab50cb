//! The store contract as a test suite: a store is anything that passes it.
//!
//! Each promise is one function, named after it; it creates a store, moves the clock by hand, and
//! checks after every operation that each event is in exactly one place. A custom store runs the
//! whole suite with one line:
//!
//! ```
//! # #[cfg(test)] // the line makes tests
//! mod memory {
//!     use duly_conformance::store_contract::MemoryHarness;
//!
//!     duly_conformance::store_contract_tests!(MemoryHarness);
//! }
//! ```

mod acts;
mod harness;
mod world;

#[allow(missing_docs)] // each name is a promise
pub mod account;
#[allow(missing_docs)] // each name is a promise
pub mod bytes;
#[allow(missing_docs)] // each name is a promise
pub mod change;
#[allow(missing_docs)] // each name is a promise
pub mod clock;
#[allow(missing_docs)] // each name is a promise
pub mod dead;
#[allow(missing_docs)] // each name is a promise
pub mod dedup;
#[allow(missing_docs)] // each name is a promise
pub mod due;
#[allow(missing_docs)] // each name is a promise
pub mod durable;
#[allow(missing_docs)] // each name is a promise
pub mod expired;
#[allow(missing_docs)] // each name is a promise
pub mod fetch;
#[allow(missing_docs)] // each name is a promise
pub mod find;
#[allow(missing_docs)] // each name is a promise
pub mod hub;
#[allow(missing_docs)] // each name is a promise
pub mod lease;
#[allow(missing_docs)] // each name is a promise
pub mod look;
#[allow(missing_docs)] // each name is a promise
pub mod outbox;
#[allow(missing_docs)] // each name is a promise
pub mod overdue;
#[allow(missing_docs)] // each name is a promise
pub mod pass;
#[allow(missing_docs)] // each name is a promise
pub mod push;
#[allow(missing_docs)] // each name is a promise
pub mod records;
#[allow(missing_docs)] // each name is a promise
pub mod settle;
#[allow(missing_docs)] // each name is a promise
pub mod shapes;
#[allow(missing_docs)] // each name is a promise
pub mod stale;
#[allow(missing_docs)] // each name is a promise
pub mod starts;
#[allow(missing_docs)] // each name is a promise
pub mod unique;

use std::future::Future;

pub use self::harness::{HarnessFuture, MemoryHarness, SharedMemoryHarness, StoreHarness, Subject};

/// Runs one promise on a runtime of its own; panics when it is broken.
pub fn play<F: Future<Output = ()>>(promise: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime of one thread").block_on(promise);
}

/// Generates one test for each promise of the store contract, with the given
/// [`StoreHarness`](crate::store_contract::StoreHarness), and `LISTED`, their names.
#[macro_export]
macro_rules! store_contract_tests {
    ($harness:expr) => {
        $crate::store_contract::store_contract_tests! { @topics $harness;
            push {
                an_event_without_delay_is_ready_at_once
                an_event_with_a_delay_is_scheduled
                a_fraction_of_a_millisecond_rounds_up
                an_instant_that_is_past_means_at_once
                answers_come_in_the_order_of_the_events
                the_same_id_again_changes_nothing_in_any_state
                another_payload_under_the_same_id_is_a_conflict_in_any_state
                the_same_id_twice_in_one_push_is_one_event
                an_event_of_another_bucket_is_refused_and_its_batch_with_it
                a_push_of_the_most_events_is_accepted_and_one_more_is_not
                a_waiting_event_is_never_forgotten_and_never_too_old
                a_push_again_after_a_failed_attempt_is_a_duplicate
            }
            shapes {
                each_shape_of_load_is_counted_exactly_and_delivered_once
            }
            unique {
                a_taken_unique_key_keeps_the_event_that_waits
                a_unique_key_stays_taken_while_its_event_runs_or_waits_again
                a_unique_key_is_free_when_its_event_is_over_or_dead
                replace_cancels_the_event_that_waits
                replace_leaves_a_running_event_alone_and_takes_its_key
                a_revived_event_has_its_unique_key_again_if_it_is_free
                a_revived_event_does_not_take_a_unique_key_away
                one_push_may_replace_its_own_events
                a_unique_key_stays_taken_for_as_long_as_asked_after_its_event_is_done
                a_unique_key_that_stays_taken_is_free_when_its_event_was_not_done
                a_replacement_takes_over_a_unique_key_that_stays_taken
                unique_keys_that_are_free_again_are_let_go
                a_unique_key_stays_taken_over_a_new_opening
            }
            dedup {
                an_id_that_may_have_been_forgotten_is_too_old
                an_id_is_remembered_for_its_time_however_many_end_after_it
                no_more_ids_are_remembered_than_the_cap_allows
                the_look_forgets_what_ended_long_ago
                an_id_from_the_future_is_too_new
                an_id_that_was_made_ahead_closes_the_bucket_to_nobody
                an_id_that_was_made_ahead_closes_no_busy_bucket
                many_ids_that_were_made_ahead_close_no_bucket
                an_id_of_any_shape_is_one_event_that_ends
                all_that_one_operation_forgets_is_too_old
            }
            due {
                nothing_is_moved_before_it_is_due
                nothing_is_fetched_before_it_is_due
                a_retry_is_not_early_either
                moves_go_in_the_order_of_due_times_and_at_most_the_limit
                a_move_never_takes_more_than_the_bound
                a_clock_that_is_set_back_does_not_take_time_back
                a_start_after_a_clock_was_set_back_refuses_no_push
                a_clock_set_back_and_forth_delivers_nothing_twice
                a_clock_set_forth_ends_no_lease_that_a_heartbeat_keeps
                every_answer_tells_the_time_of_the_store
                buckets_do_not_know_each_other
            }
            fetch {
                a_delivery_carries_the_event_as_it_was_pushed
                ready_events_come_in_the_order_of_their_arrival
                a_fetch_takes_at_most_its_limit_and_tells_what_is_left
                a_fetch_tells_when_the_last_of_a_crowd_is_due
                a_fetch_never_carries_more_than_the_bound
                a_leased_event_is_nobody_elses
                a_repeated_fetch_answers_the_same_batch
                a_repeated_fetch_answers_only_what_is_still_held
                a_fetch_that_was_answered_empty_stays_empty
                a_fetch_that_was_overtaken_leases_nothing
                read_ahead_leases_what_is_due_soon_in_due_order
                what_was_read_ahead_and_handed_back_waits_for_its_due_time
                what_was_read_ahead_and_lost_waits_for_its_due_time
            }
            stale {
                an_expired_event_is_set_aside_with_a_record
                an_event_that_is_too_late_ends_as_its_policy_says
                lateness_counts_from_the_due_time_of_the_attempt
                many_events_of_no_use_do_not_hide_a_good_one
            }
            expired {
                what_has_expired_is_not_counted
                what_has_expired_is_over_and_on_record
                what_has_expired_cannot_be_changed
                what_has_expired_holds_no_unique_key
                what_has_expired_keeps_no_unique_key_from_a_dead_letter
                what_has_expired_at_a_refused_operation_stays_over
                what_has_expired_is_not_found
                what_is_too_late_is_dead_though_nobody_fetches
                what_is_leased_expires_when_it_waits_again
                lateness_follows_a_new_due_time
                every_event_that_expires_is_told_once_whatever_ends_it
                however_much_has_expired_none_of_it_counts
                a_push_of_what_has_expired_is_a_repeat
            }
            overdue {
                what_is_over_by_its_deadline_is_not_leased
                what_is_over_by_its_deadline_can_be_changed
                what_is_over_by_its_deadline_holds_nothing
                what_is_over_by_its_deadline_at_the_last_attempt_is_dead
                what_is_over_by_its_deadline_may_have_expired
                however_many_leases_are_over_none_of_them_counts
                however_many_leases_are_over_every_dead_letter_is_found
                however_many_leases_are_over_what_has_expired_does_not_count
                however_many_leases_are_over_what_is_to_come_is_forecast
                a_watcher_is_told_of_leases_that_are_over
                a_reap_tells_of_each_lease_that_was_over_before
            }
            clock {
                a_glitch_of_the_clock_changes_no_due_time
                glitches_without_end_change_no_due_time
                a_clock_that_is_set_forth_is_followed
                a_clock_that_is_set_back_stretches_delays_by_little
                a_glitch_before_a_start_holds_nothing
            }
            settle {
                each_verdict_leads_where_it_says_and_writes_one_record
                a_repeated_settle_answers_the_same_and_changes_nothing
                interruptions_in_a_row_are_free_up_to_a_bound
                a_repeat_is_known_after_the_event_was_leased_again
                another_verdict_under_a_lease_that_has_ended_is_refused
                a_settle_under_another_lease_is_refused
                a_settle_after_the_lease_was_lost_is_refused
                each_settlement_of_a_batch_is_answered_for_itself
                a_failed_attempt_counts_and_is_due_again_after_its_delay
                a_retry_without_delay_is_ready_at_once_behind_the_others
                the_last_attempt_ends_in_a_dead_letter
                snooze_and_release_do_not_count
                what_is_handed_back_comes_first_and_in_its_order
                what_is_handed_back_was_moved_when_it_was
                a_bury_counts_the_attempt_and_keeps_the_reason
                a_delay_that_is_too_long_is_cut_and_never_refused
                a_settle_that_ends_one_event_does_not_forget_another_of_its_batch
            }
            records {
                a_record_tells_everything_about_its_attempt
                a_long_error_is_cut
                records_are_read_in_their_order_and_by_page
                every_lease_that_ends_leaves_one_record
                records_tell_the_trace_of_their_event
                a_payload_is_kept_only_where_it_is_asked_for_and_up_to_its_bound
                records_tell_the_payload_of_their_time
            }
            outbox {
                an_outbox_is_read_by_number
                a_read_of_no_records_tells_which_there_are
                trimmed_records_are_gone_and_their_numbers_are_not_given_again
                what_was_trimmed_stays_so_after_a_new_opening
                a_full_outbox_refuses_pushes_and_is_settled_into
                a_full_outbox_that_drops_keeps_the_newest
                a_watcher_of_outboxes_is_told_of_every_record
            }
            lease {
                a_heartbeat_keeps_what_a_node_holds
                a_heartbeat_of_a_node_that_holds_nothing_says_so
                a_fetch_and_its_repeat_are_heartbeats_too
                what_a_silent_node_held_is_ready_again_and_has_used_an_attempt
                a_node_that_dies_with_it_each_time_ends_in_a_dead_letter
                a_reap_takes_only_what_the_silent_node_holds
                a_reap_of_nobody_only_looks
                an_observation_from_before_a_pause_reaps_nobody
                a_reap_that_was_cut_short_is_ended_by_anyone
                a_reap_cut_short_takes_back_only_what_is_still_held
                a_node_that_was_given_up_is_told_before_it_gets_more
                a_lease_with_a_deadline_ends_there_and_not_before
                a_lease_with_a_deadline_is_no_matter_of_heartbeats
                a_settle_past_the_deadline_counts_until_it_is_reaped
                extend_moves_a_deadline
                extend_answers_for_a_lease_that_a_heartbeat_keeps
                a_limited_reap_of_deadlines_says_that_there_is_more
                a_repeated_reap_takes_nothing_twice
            }
            account {
                a_heartbeat_and_a_fetch_tell_what_the_node_holds
                leases_with_a_deadline_are_in_no_account
                what_a_node_does_not_hold_by_its_own_account_is_handed_back
                a_reconcile_hands_back_only_what_it_is_about
                a_limited_reconcile_says_that_there_is_more
                an_old_reconcile_takes_nothing_that_is_held
            }
            starts {
                what_never_started_is_handed_back_without_an_attempt
                what_never_started_is_not_on_record_as_lost
                a_settle_announces_starts
                a_heartbeat_announces_starts
                an_announcement_covers_every_earlier_fetch
                an_announcement_never_shrinks
                a_fetch_that_leases_nothing_announces_nothing
                a_repeated_fetch_tells_the_places_of_what_is_held
                a_lease_with_a_deadline_counts_as_started
                a_reconcile_counts_what_had_been_announced
            }
            change {
                a_cancelled_event_is_never_started
                a_cancel_after_an_attempt_that_ended_is_a_cancel
                a_cancel_after_a_lost_lease_says_that_somebody_may_run
                a_lost_lease_is_not_forgotten_by_a_later_attempt
                a_cancel_of_a_leased_event_is_too_late
                a_cancel_of_what_has_ended_is_too_late
                a_repeated_cancel_answers_the_same
                what_nobody_knows_is_not_found
                a_scheduled_event_gets_another_due_time
                an_event_rescheduled_to_now_is_ready
                a_ready_event_can_be_put_off
                a_ready_event_rescheduled_to_now_stays_ready
                a_change_of_what_is_leased_or_over_is_too_late
                a_change_after_a_lost_lease_says_that_somebody_may_run
                a_due_time_beyond_ten_years_is_refused
                an_updated_event_is_delivered_with_its_new_payload
                an_update_after_a_failed_attempt_is_for_the_next
                a_rewritten_event_is_delivered_in_its_new_form_and_leaves_no_record
                a_rewrite_overwrites_no_change_and_nothing_that_is_held
                a_rewritten_event_is_known_by_its_new_form_after_its_end
            }
            dead {
                a_dead_letter_is_kept_whole_and_is_not_started
                dead_letters_are_read_by_id_and_by_page
                a_revived_event_is_ready_and_has_all_its_attempts
                a_revived_event_that_was_haunted_still_is
                a_dropped_event_is_gone_with_a_record
                what_is_not_dead_is_neither_revived_nor_dropped
                a_dead_letter_can_be_mended_and_revived
                a_dead_letter_is_edited_and_revived_in_one_step
                a_dead_letter_that_has_changed_is_neither_edited_nor_revived
                a_dead_letter_that_has_expired_stays_dead
                what_is_not_dead_is_not_edited
                what_is_done_to_a_dead_letter_is_on_record_with_who_did_it
                a_name_that_is_too_long_is_refused_and_nothing_happens
            }
            look {
                get_tells_where_an_event_stands
                a_snapshot_tells_since_when_and_until_when
                stats_count_every_event_once
                stats_count_what_is_due_as_ready_before_it_is_moved
                stats_tell_since_when_the_next_event_is_ready
                the_forecast_counts_what_falls_due_within_each_span
                each_of_many_spans_of_a_forecast_is_counted_exactly
                a_list_beyond_the_bound_is_refused
                a_watcher_is_told_of_work_that_comes_sooner
                a_watcher_is_left_alone_otherwise
            }
            pass {
                a_pass_reads_everything_that_is_not_over_as_it_stands
                a_pass_over_nothing_is_one_page
                a_pass_sees_what_stays_though_everything_moves_and_others_come_and_end
                a_place_that_the_store_has_not_said_misleads_nobody
            }
            bytes {
                a_fetch_ends_with_the_event_that_reaches_its_bytes
                read_ahead_ends_with_the_event_that_reaches_its_bytes
                one_event_is_carried_whatever_its_bytes
                small_events_come_by_the_most_though_a_large_one_was_there
                a_pass_over_large_events_reads_them_all_in_bounded_pages
                large_dead_letters_are_read_in_bounded_pages
                a_push_of_too_many_bytes_is_refused_and_all_of_it
                a_rewrite_of_large_events_does_them_all
            }
            find {
                an_event_is_found_by_its_key_until_it_is_over
                events_of_one_key_are_read_by_page_in_the_order_of_their_ids
                a_key_finds_no_event_of_another_key
                an_event_is_found_by_its_unique_key_while_it_has_it
                what_has_a_key_is_found_after_a_new_opening
            }
            hub {
                what_is_set_is_seen_by_everyone_who_asks
                what_is_set_stays_until_it_is_set_again
                what_is_set_is_kept_over_a_new_opening
                so_many_queues_have_settings_and_one_more_is_refused
                another_version_means_that_something_was_set
                another_version_means_that_there_is_a_new_bucket
                a_bucket_that_was_used_once_stays_listed
                the_store_tells_its_time
                a_node_alone_is_the_only_member
                a_member_is_seen_with_its_host
                each_call_of_a_member_has_a_greater_number
                a_node_that_consumes_nothing_is_no_member
                a_member_that_leaves_is_gone_at_once
                a_member_that_calls_no_more_stays_for_a_while_with_its_number
                a_push_reaches_what_the_store_does_by_itself
                a_push_that_can_never_be_so_durable_is_refused
            }
            durable {
                accepted_events_survive
                what_was_leased_is_ready_again
                attempts_and_due_times_survive
                changes_by_hand_survive
                dead_letters_survive_and_can_be_revived
                finished_ids_are_remembered
                records_survive
                unique_keys_survive
                a_second_opening_changes_nothing
            }
        }
    };
    (@topics $harness:expr; $($topic:ident { $($promise:ident)* })*) => {
        /// The names of all promises of the store contract.
        #[allow(dead_code)]
        pub const LISTED: &[&str] = &[$($(stringify!($promise),)*)*];
        $(mod $topic {
            #[allow(unused_imports)]
            use super::*;
            $(#[test]
            fn $promise() {
                use $crate::store_contract::{play, $topic};
                let harness = $harness;
                play($topic::$promise(&harness));
            })*
        })*
    };
}

#[doc(inline)]
pub use store_contract_tests; // exported macros are at the crate root; this is its module
