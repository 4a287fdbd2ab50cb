use super::{journal, power, put, put_in_text};
use crate::mutant::{Mutant, Promise::Records};

pub(crate) const MUTANTS: &[Mutant] = &[
    Records.bug(
        "journal-loads-once-only",
        "SQLite journal: a record that is there already stops the load",
        &[put_in_text("rows::written", "«OR IGNORE»", "")],
        journal("loading_again_changes_nothing"),
    ),
    Records.bug(
        "journal-tenths-stay",
        "SQLite journal: the tenths of a second of records that were removed stay for ever",
        &[put_in_text("tenths::forget", "tenth < ?1 «»", "- 1000000")],
        journal("tenths_of_a_second_go_with_the_records_that_they_lead_to"),
    ),
    Records.bug(
        "journal-counts-again",
        "SQLite journal: a record that is loaded again is counted in its minute again",
        &[put(
            "Load::write",
            "«if rows::insert(&mut $insert, std::slice::from_ref($row), $part)? > 0 { \
             self.counted.count($row); }»",
            "rows::insert(&mut $insert, std::slice::from_ref($row), $part)?; \
             self.counted.count($row);",
        )],
        journal("what_is_loaded_again_is_not_counted_again"),
    ),
    Records.bug(
        "journal-cursor-by-time-alone",
        "SQLite journal: a page goes on behind the last time, not behind the last record",
        &[put(
            "of_cursor",
            "$number, $after.id.to_bytes().to_vec",
            "i64::MAX, behind_all_ids",
        )],
        journal("pages_of_one_instant_are_everything_once"),
    ),
    Records.bug(
        "journal-prunes-one-more",
        "SQLite journal: retention removes one record more than it may",
        &[put("remove_oldest", "$removed «>=» $excess && $place", ">")],
        journal("the_oldest_beyond_a_count_are_removed"),
    ),
    Records.bug(
        "way-to-the-journal-not-synced",
        "SQLite journal: the folders above the one that was made for the file are not synced",
        &[put("file::prepare", "sync_way", "sync_directory")],
        power("records_survive_a_power_cut_right_after_the_first_start_in_a_new_deep_path"),
    ),
    Records.bug(
        "journal-commit-not-synced",
        "SQLite journal: a load is answered before it is synced",
        &[put_in_text("sqlite::configure", "«FULL»", "NORMAL")],
        power("a_record_that_was_loaded_is_in_the_journal_after_any_power_cut"),
    ),
    Records.bug(
        "journal-reads-one-part",
        "SQLite journal: a key is looked for in the first part alone",
        &[put("Way::of", "values: $parts.iter().«»map", "take(1) .")],
        journal("keys_and_traces_are_found_in_every_part_in_order"),
    ),
    Records.bug(
        "journal-forgets-a-part",
        "SQLite journal: a part is forgotten while it has a record",
        &[
            put_in_text("forget_empty", "records <= «0» AND number", "1"),
            put_in_text(
                "forget_empty",
                "FROM parts) «AND NOT EXISTS ($..) AND NOT EXISTS ($..)»",
                "",
            ),
        ],
        journal("a_part_is_forgotten_once_its_records_are_gone"),
    ),
    Records.bug(
        "journal-loads-one-by-one",
        "PostgreSQL journal: a load waits for the one before it",
        &[put(
            "ConnectionPool::open",
            "await, slot = «$second.link.lock»",
            "std::future::pending",
        )],
        journal("a_load_that_waits_does_not_keep_another_one_waiting"),
    ),
    Records.bug(
        "journal-forgets-lateness",
        "PostgreSQL journal: a load takes the place of the lateness that was counted before",
        &[put_in_text(
            "MinuteCounters::write",
            "«SELECT * FROM unnest(l.slots, l.records) UNION ALL»",
            "",
        )],
        journal("minutes_add_up_whatever_the_batches_were"),
    ),
    Records.bug(
        "pruned-by-one-clock",
        "what is too old for a journal is decided by the clock of the store alone",
        &[put(
            "retention::allowed",
            "min($times.clock).min($newest)",
            "max($newest.min(0))",
        )],
        journal("a_clock_ahead_makes_nothing_older_than_the_newest_record_says"),
    ),
    Records.bug(
        "pruned-all-at-once",
        "however much is too old, it is removed at once",
        &[put(
            "retention::allowed",
            "$wanted.min(«$limit»)",
            "u64::MAX",
        )],
        journal("what_is_too_old_goes_by_a_tenth_of_its_age_in_an_hour"),
    ),
    Records.bug(
        "clear-text-to-another-machine",
        "PostgreSQL journal: a URL that does not speak of TLS goes on without it, wherever the \
         server is",
        &[put("postgres::Target::parse", "«Required» }", "Preferred")],
        journal("to_another_machine_nothing_goes_in_the_clear_unless_the_url_says_so"),
    ),
    Records.bug(
        "journal-settings-of-the-session",
        "PostgreSQL journal: its settings stay in a session that a pooler lends to another program",
        &[put_in_text(
            "Scope::new",
            "SET «LOCAL» statement_timeout TO {ms}; SET «LOCAL» lock_timeout",
            "",
        )],
        journal("a_pooled_session_is_given_back_as_it_was"),
    ),
];
