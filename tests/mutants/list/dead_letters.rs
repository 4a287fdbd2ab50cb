use super::{contract, edit, test};
use crate::mutant::{Mutant, Promise::Controls, Test};

const fn dead_letters(name: &'static str) -> Test {
    test("dead_letters", name)
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "dry-run-that-changes",
        breaks: Controls,
        bug: "a dry run revives and drops letters",
        edits: &[edit(
            "src/bus/dead_letters/bulk.rs",
            "if !self.dry_run {",
            "if true {",
        )],
        caught_by: dead_letters("a_dry_run_counts_and_shows_and_changes_nothing"),
        masked_by: None,
    },
    Mutant {
        name: "letters-at-any-rate",
        breaks: Controls,
        bug: "letters are revived as fast as the store goes, whatever rate was asked for",
        edits: &[edit(
            "src/bus/pace.rs",
            "            sleep_until(self.next).await;\n",
            "",
        )],
        caught_by: dead_letters("a_rate_is_kept_for_drops_too"),
        masked_by: None,
    },
    Mutant {
        name: "nobody-did-it",
        breaks: Controls,
        bug: "who revives or drops a letter is not passed on",
        edits: &[edit(
            "src/bus/dead_letters/bulk.rs",
            "let by = self.by.clone();",
            "let by = None;",
        )],
        caught_by: dead_letters("a_dropped_letter_is_gone_and_who_did_it_is_on_record"),
        masked_by: None,
    },
    Mutant {
        name: "filter-forgotten",
        breaks: Controls,
        bug: "every dead letter is revived, whatever was asked for",
        edits: &[edit(
            "src/bus/dead_letters/source.rs",
            "letters.retain(|letter| self.filter.matches(letter));",
            "letters.retain(|letter| letter.state == crate::event::State::Dead);",
        )],
        caught_by: dead_letters("only_what_is_asked_for_is_revived"),
        masked_by: None,
    },
    Mutant {
        name: "sweep-without-end",
        breaks: Controls,
        bug: "what dies while letters are dropped is dropped as well",
        edits: &[edit(
            "src/bus/dead_letters/bulk.rs",
            "        self.filter.began = Some(self.inner.now());\n",
            "",
        )],
        caught_by: dead_letters("what_dies_after_it_began_is_left_alone"),
        masked_by: None,
    },
    Mutant {
        name: "edit-of-what-waits",
        breaks: Controls,
        bug: "an edit changes events that are not dead",
        edits: &[edit(
            "src/store/operation.rs",
            "dead_only: true",
            "dead_only: false",
        )],
        caught_by: dead_letters("what_is_not_dead_is_not_edited_and_the_answer_says_so"),
        masked_by: None,
    },
    Mutant {
        name: "redis-edit-of-what-waits",
        breaks: Controls,
        bug: "Redis: the script does not look whether what is edited is still dead",
        edits: &[edit(
            "src/store/redis/lua/update.lua",
            " and (kind == \"D\" or ARGV[8] ~= \"1\") then",
            " then",
        )],
        caught_by: contract("what_is_not_dead_is_not_edited"),
        masked_by: None,
    },
    Mutant {
        name: "retention-drops-the-young",
        breaks: Controls,
        bug: "a limit by age drops dead letters that are not that old",
        edits: &[edit(
            "src/bus/dead_letters/retention.rs",
            "if surplus > 0 || is_old {",
            "if surplus > 0 || is_old || died_until.is_some() {",
        )],
        caught_by: test(
            "names",
            "old_dead_letters_are_dropped_and_recorded_and_younger_ones_stay",
        ),
        masked_by: None,
    },
];
