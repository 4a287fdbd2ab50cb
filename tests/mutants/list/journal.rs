use super::{edit, test};
use crate::mutant::{Mutant, Promise::Records, Test};

const fn journal(name: &'static str) -> Test {
    test("journal", name)
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "journal-loads-once-only",
        breaks: Records,
        bug: "SQLite journal: a record that is there already stops the load",
        edits: &[edit(
            "src/sqlite/records/rows.rs",
            "INSERT OR IGNORE INTO records",
            "INSERT INTO records",
        )],
        caught_by: journal("loading_again_changes_nothing"),
        masked_by: None,
    },
    Mutant {
        name: "journal-tenths-stay",
        breaks: Records,
        bug: "SQLite journal: the tenths of a second of records that were removed stay for ever",
        edits: &[edit(
            "src/sqlite/records/tenths.rs",
            "AND tenth < ?2",
            "AND tenth < ?2 - 1000000",
        )],
        caught_by: journal("tenths_of_a_second_go_with_the_records_that_they_lead_to"),
        masked_by: None,
    },
    Mutant {
        name: "journal-trusts-numbers",
        breaks: Records,
        bug: "SQLite journal: what has a number below the highest one loaded is taken to be there",
        edits: &[edit(
            "src/sqlite/records/load.rs",
            "            if rows::insert(&mut insert, std::slice::from_ref(row), part)? > 0 {
                self.counted.count(row);
            }
",
            "            rows::insert(&mut insert, std::slice::from_ref(row), part)?;
            self.counted.count(row);
",
        )],
        caught_by: journal("a_number_given_twice_keeps_both_records"),
        masked_by: None,
    },
    Mutant {
        name: "journal-counts-again",
        breaks: Records,
        bug: "SQLite journal: a record that is loaded again is counted in its minute again",
        edits: &[edit(
            "src/sqlite/records/load.rs",
            "            if rows::insert(&mut insert, std::slice::from_ref(row), part)? > 0 {
                self.counted.count(row);
            }
",
            "            rows::insert(&mut insert, std::slice::from_ref(row), part)?;
            self.counted.count(row);
",
        )],
        caught_by: journal("what_is_loaded_again_is_not_counted_again"),
        masked_by: None,
    },
    Mutant {
        name: "journal-cursor-by-time-alone",
        breaks: Records,
        bug: "SQLite journal: a page goes on behind the last time, not behind the last record",
        edits: &[edit(
            "src/sqlite/records/asked.rs",
            "        (finished, number, after.id.to_bytes().to_vec())",
            "        (finished, i64::MAX, behind_all_ids())",
        )],
        caught_by: journal("pages_of_one_instant_are_everything_once"),
        masked_by: None,
    },
    Mutant {
        name: "journal-prunes-one-more",
        breaks: Records,
        bug: "SQLite journal: retention removes one record more than it may",
        edits: &[edit(
            "src/sqlite/records/pruning.rs",
            "if removed >= excess && place.0 >= oldest {",
            "if removed > excess && place.0 >= oldest {",
        )],
        caught_by: journal("the_oldest_beyond_a_count_are_removed"),
        masked_by: None,
    },
    Mutant {
        name: "way-to-the-journal-not-synced",
        breaks: Records,
        bug: "SQLite journal: the folders above the one that was made for the file are not synced",
        edits: &[edit(
            "src/journal/sqlite/file.rs",
            "files::sync_way(&directory)",
            "files::sync_directory(&directory)",
        )],
        caught_by: test(
            "power",
            "records_survive_a_power_cut_right_after_the_first_start_in_a_new_deep_path",
        ),
        masked_by: None,
    },
    Mutant {
        name: "journal-commit-not-synced",
        breaks: Records,
        bug: "SQLite journal: a load is answered before it is synced",
        edits: &[edit(
            "src/journal/sqlite/schema.rs",
            "PRAGMA synchronous = FULL;",
            "PRAGMA synchronous = NORMAL;",
        )],
        caught_by: test(
            "power",
            "a_record_that_was_loaded_is_in_the_journal_after_any_power_cut",
        ),
        masked_by: None,
    },
    Mutant {
        name: "journal-reads-one-part",
        breaks: Records,
        bug: "SQLite journal: a key is looked for in the first part alone",
        edits: &[edit(
            "src/sqlite/records/paging.rs",
            "                .iter()\n                .map(|part|",
            "                .iter()\n                .take(1)\n                .map(|part|",
        )],
        caught_by: journal("keys_and_traces_are_found_in_every_part_in_order"),
        masked_by: None,
    },
    Mutant {
        name: "journal-forgets-a-part",
        breaks: Records,
        bug: "SQLite journal: a part is forgotten while it has a record",
        edits: &[edit(
            "src/sqlite/records/parts.rs",
            "WHERE records <= 0 AND number < (SELECT max(number) FROM parts) \\
         AND NOT EXISTS (SELECT 1 FROM records INDEXED BY by_key \\
           WHERE part = parts.number AND key IS NOT NULL) \\
         AND NOT EXISTS (SELECT 1 FROM records INDEXED BY by_trace \\
           WHERE part = parts.number AND trace IS NOT NULL)\"",
            "WHERE records <= 1 AND number < (SELECT max(number) FROM parts)\"",
        )],
        caught_by: journal("a_part_is_forgotten_once_its_records_are_gone"),
        masked_by: None,
    },
    Mutant {
        name: "journal-loads-one-by-one",
        breaks: Records,
        bug: "PostgreSQL journal: a load waits for the one before it",
        edits: &[edit(
            "src/journal/postgres/link.rs",
            "            slot = second.link.lock() => second.hold(slot, server).await,\n",
            "            slot = std::future::pending() => second.hold(slot, server).await,\n",
        )],
        caught_by: journal("a_load_that_waits_does_not_keep_another_one_waiting"),
        masked_by: None,
    },
    Mutant {
        name: "journal-settings-of-the-session",
        breaks: Records,
        bug: "PostgreSQL journal: its settings stay in a session that a pooler lends to another program",
        edits: &[edit(
            "src/journal/postgres/link.rs",
            "SET LOCAL statement_timeout TO {ms}; SET LOCAL lock_timeout",
            "SET statement_timeout TO {ms}; SET lock_timeout",
        )],
        caught_by: journal("a_pooled_session_is_given_back_as_it_was"),
        masked_by: None,
    },
    Mutant {
        name: "journal-forgets-lateness",
        breaks: Records,
        bug: "PostgreSQL journal: a load takes the place of the lateness that was counted before",
        edits: &[edit(
            "src/journal/postgres/counts.rs",
            "SELECT * FROM unnest(l.slots, l.records) UNION ALL \\",
            "\\",
        )],
        caught_by: journal("minutes_add_up_whatever_the_batches_were"),
        masked_by: None,
    },
    Mutant {
        name: "pruned-by-one-clock",
        breaks: Records,
        bug: "what is too old for a journal is decided by the clock of the store alone",
        edits: &[edit(
            "src/record/retention.rs",
            "let now = times.asked.min(times.clock).min(newest);",
            "let now = times.asked.max(newest.min(0));",
        )],
        caught_by: journal("a_clock_ahead_makes_nothing_older_than_the_newest_record_says"),
        masked_by: None,
    },
    Mutant {
        name: "pruned-all-at-once",
        breaks: Records,
        bug: "however much is too old, it is removed at once",
        edits: &[edit(
            "src/record/retention.rs",
            "let before = if at_once { wanted } else { wanted.min(limit) };",
            "let before = if at_once { wanted } else { wanted.min(u64::MAX) };",
        )],
        caught_by: journal("what_is_too_old_goes_by_a_tenth_of_its_age_in_an_hour"),
        masked_by: None,
    },
    Mutant {
        name: "clear-text-to-another-machine",
        breaks: Records,
        bug: "PostgreSQL journal: a URL that does not speak of TLS goes on without it, wherever the server is",
        edits: &[edit(
            "src/journal/postgres/url.rs",
            "            false => Tls::Required,\n",
            "            false => Tls::Preferred,\n",
        )],
        caught_by: journal("to_another_machine_nothing_goes_in_the_clear_unless_the_url_says_so"),
        masked_by: None,
    },
];
