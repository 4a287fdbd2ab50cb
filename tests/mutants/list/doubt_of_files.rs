use super::{embedded, lib, put, redis_store, syscalls};
use crate::mutant::{Mutant, Promise::Doubt};

pub(crate) const MUTANTS: &[Mutant] = &[
    Doubt.bug(
        "lock-beside-the-file-alone",
        "embedded: the lock is on a file beside the data file alone",
        &[
            put("LockedFile::take", "$path)«?»; let $found", ".ok()"),
            put("LockedFile::take", "«» $locked.contains", "false &&"),
        ],
        embedded("neither_a_removed_lock_nor_another_name_lets_a_second_store_in"),
    ),
    Doubt.bug(
        "refused-open-drops-the-locks",
        "embedded: an open that is refused closes the file, and with it all locks of SQLite",
        &[put("LockedFile::take", "«» $locked.contains", "false &&")],
        embedded("a_refused_open_takes_no_lock_of_the_store_that_has_the_file"),
    ),
    Doubt.bug(
        "moved-file-not-noticed",
        "embedded: nobody looks whether the path still leads to the file",
        &[put(
            "Writer::has_its_files",
            "moved() «»",
            ".filter(|_| false)",
        )],
        embedded("a_store_whose_file_is_gone_stops_and_says_so_and_touches_no_other"),
    ),
    Doubt.bug(
        "cut-file-not-noticed",
        "embedded: nobody looks whether the data file was cut",
        &[put(
            "Lock::moved",
            "or_else(|| «self.data.cut(self.len)»",
            "None",
        )],
        embedded("a_store_whose_file_is_gone_stops_and_says_so_and_touches_no_other"),
    ),
    Doubt.bug(
        "cut-notes-not-noticed",
        "embedded: a note is written where the file of notes was cut, and the process ends",
        &[put(
            "MappedFile::is_cut",
            "«$found.len() < $least as u64»",
            "false",
        )],
        embedded("notes_of_starts_that_are_cut_are_written_anew"),
    ),
    Doubt.bug(
        "no-descriptor-is-doubt",
        "embedded: a process without descriptors stops its store",
        &[put("Shortage::of_io", "contains($number)«»", "&& false")],
        lib("the_numbers_of_the_system_say_what_is_short_and_what_is_in_doubt"),
    ),
    Doubt.bug(
        "quota-is-doubt",
        "embedded: a write of SQLite that exceeds a quota stops the store",
        &[put("REFUSED", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMMAP")],
        syscalls("a_call_that_is_refused_for_want_of_something_stops_nobody"),
    ),
    Doubt.bug(
        "file-limit-kills",
        "embedded: a write beyond the limit on the size of a file ends the process",
        &[put("survive_file_limit", "consts::«»SIGXFSZ", "SIGUSR2 as")],
        embedded("an_open_that_finds_too_little_says_so_and_helps_when_it_is_there"),
    ),
    Doubt.bug(
        "broken-disk-is-a-full-one",
        "embedded: a disk that fails while the index of the log grows is taken for a full one",
        &[put(
            "Shortage::of_sqlite",
            "$code) if $... «Self::of_io(&$system),» (ErrorCode",
            "{ let unknown = ($code == \
             ffi::SQLITE_IOERR_SHMSIZE).then_some(Self::Space); \
             Self::of_io(&$system).or(unknown) }",
        )],
        lib("a_call_that_was_refused_is_short_of_what_the_system_says_and_of_nothing_else"),
    ),
    Doubt.bug(
        "damaged-body-is-well",
        "Redis: a check says nothing of a body that is cut or has a flipped bit",
        &[put(
            "Check::bodies",
            "$event.body.is_none() && !$event.state.is_final()",
            "false",
        )],
        redis_store("what_cannot_be_read_is_damage_and_the_check_goes_on"),
    ),
    Doubt.bug(
        "lost-tally-told-again",
        "embedded: a count of the events that is lost is damage at each start",
        &[put(
            "Transaction::count",
            "$written «== 0» { self.connection",
            "> 1",
        )],
        embedded("a_damaged_body_is_found_and_a_lost_tally_is_told_once"),
    ),
];
