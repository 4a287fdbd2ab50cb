//! The lists of promises, and what makes a test of each.

/// One test for each promise of a journal, over a harness.
macro_rules! journal_tests {
    ($harness:expr) => {
        crate::journal::suite::promises! { $harness;
            whole {
                a_loaded_record_is_found_whole
                of_two_that_cannot_be_told_apart_the_first_is_kept
                the_largest_numbers_come_back_as_they_were
                a_payload_that_is_no_text_comes_back_as_it_was
                a_text_with_a_zero_in_it_does_not_stop_the_load
                loading_again_changes_nothing
                loading_some_of_it_again_adds_the_rest
                the_same_record_twice_in_one_load_is_kept_once
                a_number_given_twice_keeps_both_records
                a_number_below_those_loaded_is_kept
                records_of_many_outboxes_are_loaded_at_once
                a_load_of_nothing_is_fine
                a_large_load_is_kept_whole
            }
            erase {
                what_is_erased_loses_payload_and_error_and_nothing_else
                a_place_where_nothing_is_erases_nothing
            }
            filters {
                each_filter_alone_finds_what_it_names
                each_pair_of_filters_finds_what_both_name
                several_outcomes_find_each_of_them
                a_range_of_time_has_its_beginning_and_not_its_end
                a_text_in_an_error_is_found_as_it_is_written
                what_nobody_has_finds_nothing
            }
            pages {
                the_oldest_come_first_and_the_newest_when_asked
                records_of_one_instant_are_in_the_order_of_numbers_and_then_of_ids
                a_page_holds_no_more_than_its_limit
                pages_joined_are_everything_once
                pages_of_one_instant_are_everything_once
                records_that_arrive_between_pages_disturb_none
                a_rare_record_is_found_by_going_on
                a_cursor_of_no_record_is_a_place_all_the_same
            }
            oracle {
                any_query_answers_as_the_plain_oracle_does
            }
            minutes {
                minutes_count_each_outcome_and_the_lateness
                minutes_add_up_whatever_the_batches_were
                what_is_loaded_again_is_not_counted_again
                minutes_come_in_order_and_by_page
                minutes_of_one_queue_are_read_alone
                minutes_of_a_range_have_its_beginning_and_not_its_end
            }
            prune {
                the_oldest_beyond_an_age_are_removed
                a_clock_ahead_makes_nothing_older_than_the_newest_record_says
                what_is_too_old_goes_by_a_tenth_of_its_age_in_an_hour
                beyond_a_count_all_goes_whatever_the_clocks_say
                the_oldest_beyond_a_count_are_removed
                both_bounds_hold_together
                without_a_bound_nothing_is_removed
                a_step_removes_a_bounded_number
                loads_go_on_while_it_is_pruned
                minutes_outlive_records
                minutes_beyond_their_age_are_removed
                a_pruned_journal_takes_new_records_and_counts_right
            }
            together {
                two_loaders_at_once_keep_each_record_once
                what_one_has_loaded_the_other_reads
            }
        }
    };
}

/// One test for each promise of a journal that outlives its process, over a harness.
macro_rules! durable_journal_tests {
    ($harness:expr) => {
        crate::journal::suite::promises! { $harness;
            reopened {
                a_reopened_journal_has_everything
                a_reopened_journal_knows_what_it_has
                a_reopened_journal_goes_on_pruning
                a_reopened_journal_has_removed_its_share_of_the_hour
                a_record_from_the_future_makes_nothing_older_than_the_own_clock_says
                a_closed_journal_says_so
            }
        }
    };
}

macro_rules! promises {
    ($harness:expr; $($room:ident { $($promise:ident)* })*) => {
        $(mod $room {
            #[allow(unused_imports)]
            use super::*;
            $(#[test]
            fn $promise() {
                let harness = $harness;
                crate::journal::harness::play(crate::journal::$room::$promise(&harness));
            })*
        })*
    };
}

#[allow(
    unused_imports,
    reason = "used by each journal that outlives its process"
)]
pub(crate) use durable_journal_tests;
pub(crate) use journal_tests;
pub(crate) use promises;
