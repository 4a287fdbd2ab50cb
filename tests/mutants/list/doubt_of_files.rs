use super::{edit, test};
use crate::mutant::{Mutant, Promise::Doubt};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "lock-beside-the-file-alone",
        breaks: Doubt,
        bug: "embedded: the lock is on a file beside the data file alone",
        edits: &[
            edit(
                "src/sqlite/lock.rs",
                "        lock(&file, path)?;\n",
                "        lock(&file, path).ok();\n",
            ),
            edit(
                "src/sqlite/lock.rs",
                "is_some_and(|file| locked.contains(&file))",
                "is_some_and(|file| false && locked.contains(&file))",
            ),
        ],
        caught_by: test(
            "embedded",
            "neither_a_removed_lock_nor_another_name_lets_a_second_store_in",
        ),
        masked_by: None,
    },
    Mutant {
        name: "refused-open-drops-the-locks",
        breaks: Doubt,
        bug: "embedded: an open that is refused closes the file, and with it all locks of SQLite",
        edits: &[edit(
            "src/sqlite/lock.rs",
            "is_some_and(|file| locked.contains(&file))",
            "is_some_and(|file| false && locked.contains(&file))",
        )],
        caught_by: test(
            "embedded",
            "a_refused_open_takes_no_lock_of_the_store_that_has_the_file",
        ),
        masked_by: None,
    },
    Mutant {
        name: "moved-file-not-noticed",
        breaks: Doubt,
        bug: "embedded: nobody looks whether the path still leads to the file",
        edits: &[edit(
            "src/store/embedded/upkeep.rs",
            "if let Some(what) = self.shared.moved() {",
            "if let Some(what) = self.shared.moved().filter(|_| false) {",
        )],
        caught_by: test(
            "embedded",
            "a_store_whose_file_is_gone_stops_and_says_so_and_touches_no_other",
        ),
        masked_by: None,
    },
    Mutant {
        name: "no-descriptor-is-doubt",
        breaks: Doubt,
        bug: "embedded: a process without descriptors stops its store",
        edits: &[edit(
            "src/sqlite/shortage.rs",
            ".filter(|number| NO_DESCRIPTOR.contains(number))",
            ".filter(|number| NO_DESCRIPTOR.contains(number) && false)",
        )],
        caught_by: test(
            "embedded",
            "when_a_shortage_is_over_everything_works_and_nothing_was_lost",
        ),
        masked_by: None,
    },
    Mutant {
        name: "quota-is-doubt",
        breaks: Doubt,
        bug: "embedded: a write of SQLite that exceeds a quota stops the store",
        edits: &[edit(
            "src/sqlite/shortage.rs",
            "    ffi::SQLITE_IOERR_WRITE,\n",
            "    ffi::SQLITE_IOERR_SHMMAP,\n",
        )],
        caught_by: test(
            "syscalls",
            "a_call_that_is_refused_for_want_of_something_stops_nobody",
        ),
        masked_by: None,
    },
    Mutant {
        name: "file-limit-kills",
        breaks: Doubt,
        bug: "embedded: a write beyond the limit on the size of a file ends the process",
        edits: &[edit(
            "src/sqlite/shortage.rs",
            "use signal_hook::consts::SIGXFSZ;",
            "use signal_hook::consts::SIGUSR2 as SIGXFSZ;",
        )],
        caught_by: test(
            "embedded",
            "an_open_that_finds_too_little_says_so_and_helps_when_it_is_there",
        ),
        masked_by: None,
    },
    Mutant {
        name: "broken-disk-is-a-full-one",
        breaks: Doubt,
        bug: "embedded: a disk that fails while the index of the log grows is taken for a full one",
        edits: &[edit(
            "src/sqlite/shortage.rs",
            "if REFUSED.contains(&code) => Self::of_io(&system),",
            "if REFUSED.contains(&code) => {
                let unknown = (code == ffi::SQLITE_IOERR_SHMSIZE).then_some(Self::Space);
                Self::of_io(&system).or(unknown)
            }",
        )],
        caught_by: test(
            "lib",
            "a_call_that_was_refused_is_short_of_what_the_system_says_and_of_nothing_else",
        ),
        masked_by: None,
    },
    Mutant {
        name: "damaged-body-is-well",
        breaks: Doubt,
        bug: "Redis: a check says nothing of a body that is cut or has a flipped bit",
        edits: &[edit(
            "src/store/redis/check.rs",
            "let is_lost = event.body.is_none() && !event.state.is_final();",
            "let is_lost = false;",
        )],
        caught_by: test(
            "redis_store",
            "what_cannot_be_read_is_damage_and_the_check_goes_on",
        ),
        masked_by: None,
    },
    Mutant {
        name: "lost-tally-told-again",
        breaks: Doubt,
        bug: "embedded: a count of the events that is lost is damage at each start",
        edits: &[edit(
            "src/store/embedded/commit.rs",
            "if written == 0 {",
            "if written > 1 {",
        )],
        caught_by: test(
            "embedded",
            "a_damaged_body_is_found_and_a_lost_tally_is_told_once",
        ),
        masked_by: None,
    },
];
