use super::{always, dead_letters, drop, names, put, store_contract};
use crate::mutant::{Mutant, Promise::Controls};

pub(crate) const MUTANTS: &[Mutant] = &[
    Controls.bug(
        "dry-run-that-changes",
        "a dry run revives and drops letters",
        &[always("DeadLetters::go", "dry_run")],
        dead_letters("a_dry_run_counts_and_shows_and_changes_nothing"),
    ),
    Controls.bug(
        "letters-at-any-rate",
        "letters are revived as fast as the store goes, whatever rate was asked for",
        &[drop("BulkPacer::wait", "sleep_until")],
        dead_letters("a_rate_is_kept_for_drops_too"),
    ),
    Controls.bug(
        "nobody-did-it",
        "who revives or drops a letter is not passed on",
        &[put("DeadLetters::act", "self.by.clone()", "None")],
        dead_letters("a_dropped_letter_is_gone_and_who_did_it_is_on_record"),
    ),
    Controls.bug(
        "filter-forgotten",
        "every dead letter is revived, whatever was asked for",
        &[put(
            "DeadLetterScan::next",
            "self.filter.matches($letter)",
            "$letter.state == crate::event::State::Dead",
        )],
        dead_letters("only_what_is_asked_for_is_revived"),
    ),
    Controls.bug(
        "sweep-without-end",
        "what dies while letters are dropped is dropped as well",
        &[drop("DeadLetters::sweep", "filter.began")],
        dead_letters("what_dies_after_it_began_is_left_alone"),
    ),
    Controls.bug(
        "named-by-the-time",
        "letters that are named are left alone if they died later by this process's clock",
        &[put("DeadLetters::named", "$selected.«run»($act)", "sweep")],
        dead_letters("what_is_named_is_changed_whenever_it_died"),
    ),
    Controls.bug(
        "revive-into-the-grave",
        "a dead letter that has expired is revived, and is over at once",
        &[put(
            "Entry::has_expired",
            "$expires.is_some_and($..)",
            "false",
        )],
        store_contract("a_dead_letter_that_has_expired_stays_dead"),
    ),
    Controls.bug(
        "letters-beyond-the-bound-not-listed",
        "a page of dead letters lacks what is over and not ended yet",
        &[drop("Bucket::read_dead", "bury_beyond")],
        store_contract("however_many_leases_are_over_every_dead_letter_is_found"),
    ),
    Controls.bug(
        "letters-beyond-the-bound-not-revived",
        "what is over and not ended yet is no dead letter for a revive",
        &[put("Bucket::revive", "self.end_if_over(*$id, $sink)", "()")],
        store_contract("however_many_leases_are_over_every_dead_letter_is_found"),
    ),
    Controls.bug(
        "redis-revive-into-the-grave",
        "Redis: a dead letter that has expired is revived, and is over at once",
        &[put("lua::has_expired", "$expires * 1000 <= now", "false")],
        store_contract("a_dead_letter_that_has_expired_stays_dead"),
    ),
    Controls.bug(
        "edit-of-what-waits",
        "an edit changes events that are not dead",
        &[put("table::operations!", "dead_only: «true»", "false")],
        dead_letters("what_is_not_dead_is_not_edited_and_the_answer_says_so"),
    ),
    Controls.bug(
        "redis-edit-of-what-waits",
        "Redis: the script does not look whether what is edited is still dead",
        &[put(
            "update.lua",
            r#""L" «and ($kind == "D" or ARGV.dead_only ~= "1")»"#,
            "",
        )],
        store_contract("what_is_not_dead_is_not_edited"),
    ),
    Controls.bug(
        "retention-drops-the-young",
        "a limit by age drops dead letters that are not that old",
        &[put(
            "retention::drop_old",
            "since.is_some_and(|$died| $died <= $died_until «»)",
            "|| true",
        )],
        names("old_dead_letters_are_dropped_and_recorded_and_younger_ones_stay"),
    ),
];
