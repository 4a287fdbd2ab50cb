//! The disk itself: it loses what it must and keeps what it must, or its faults would look like
//! the store's.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use rusqlite::Connection;

use crate::account::Copy;
use crate::child::{self, say};
use crate::lossy::{Cut, Disk, Faults, Names};
use crate::story::Story;

const BOTH: [Names; 2] = [Names::WithFiles, Names::ByFolder];
/// Long enough for some sectors.
static BYTES: [u8; 20_000] = [7; 20_000];

/// Plays `role` on a new disk, which is then cut, and answers what is left.
fn left(names: Names, role: &str, tear: Option<fastrand::Rng>) -> tempfile::TempDir {
    let disk = Disk::new(names);
    let mount = disk.mount(Faults::default());
    child::run(role, &mount.path()).expect_well(role);
    disk.cut(tear);
    drop(mount);
    let folder = tempfile::tempdir().expect("a folder");
    disk.export(folder.path());
    folder
}

/// In a child: a file and its folder, both synced; and a file of which only itself is.
pub(crate) fn writes_synced(folder: &Path) {
    for name in ["both", "file"] {
        let mut file = File::create(folder.join(name)).expect("a file");
        file.write_all(&BYTES).expect("it is written");
        file.sync_data().expect("it is synced");
        if name == "both" {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .expect("it is synced");
        }
    }
}

/// In a child: a file that is synced and then changed, cut and renamed; nothing of that is synced.
pub(crate) fn writes_unsynced(folder: &Path) {
    writes_synced(folder);
    let mut file = File::options()
        .append(true)
        .open(folder.join("both"))
        .expect("a file");
    file.write_all(&BYTES).expect("it is written");
    fs::write(folder.join("never"), BYTES).expect("it is written");
    fs::rename(folder.join("never"), folder.join("renamed")).expect("it is renamed");
}

#[test]
fn what_was_synced_survives_a_cut() {
    for names in BOTH {
        let left = left(names, "synced", None);
        assert_eq!(
            fs::read(left.path().join("both")).expect("it was synced"),
            BYTES,
            "{names:?}"
        );
        // A file whose folder was not synced is there only where files keep their names.
        let file = fs::read(left.path().join("file"));
        assert_eq!(file.is_ok(), names == Names::WithFiles, "{names:?}");
        assert!(file.is_err() || file.is_ok_and(|bytes| bytes == BYTES));
    }
}

#[test]
fn what_was_not_synced_is_lost_by_a_cut() {
    for names in BOTH {
        let left = left(names, "unsynced", None);
        assert_eq!(
            fs::read(left.path().join("both")).expect("it was synced"),
            BYTES,
            "{names:?}"
        );
        for name in ["never", "renamed"] {
            assert!(!left.path().join(name).exists(), "{names:?}: {name}");
        }
    }
}

#[test]
fn a_torn_write_keeps_some_sectors_and_loses_others() {
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..4 {
        let left = left(
            Names::WithFiles,
            "unsynced",
            Some(fastrand::Rng::with_seed(seed)),
        );
        let bytes = fs::read(left.path().join("both")).expect("it was synced");
        assert_eq!(bytes[..BYTES.len()], BYTES, "what was synced is never torn");
        // From the first sector that begins after what was synced.
        let sectors = bytes[20_480.min(bytes.len())..].chunks(512);
        for sector in sectors {
            assert!(
                sector.iter().all(|byte| *byte == sector[0]),
                "a sector is torn"
            );
            *(if sector[0] == 7 { &mut kept } else { &mut lost }) += 1;
        }
    }
    assert!(kept > 10 && lost > 10, "{kept} kept, {lost} lost");
}

#[test]
fn a_disk_without_faults_loses_nothing() {
    for names in BOTH {
        let disk = Disk::new(names);
        let mut story = Story::default();
        for round in 0..2 {
            let mount = disk.mount(Faults::default());
            let said = child::run(&format!("work 1 {round}"), &mount.path());
            drop(mount);
            said.expect_well("work on a whole disk");
            story.take(&said);
        }
        let facts = Copy::of(&disk).facts(&story.events()).expect("a store");
        assert_eq!(story.settle(&facts), [""; 0]);
        assert!(story.answered > 100, "{}", story.answered);
    }
}

#[test]
fn a_disk_that_lies_about_the_log_loses_what_was_answered() {
    let mut lost = 0;
    for seed in 0..4 {
        let disk = Disk::new(Names::WithFiles);
        let mount = disk.mount(Faults {
            cut: Some(Cut {
                at: 150, // before the log is copied into the file, which is synced truly
                tear: None,
            }),
            lies_about: Some("-wal"),
            ..Faults::default()
        });
        let said = child::run(&format!("work {seed} 0"), &mount.path());
        drop(mount);
        let mut story = Story::default();
        story.take(&said);
        assert!(story.answered > 0, "{}", story.answered);
        let facts = Copy::of(&disk).facts(&story.events()).expect("a store");
        lost += usize::from(!story.settle(&facts).is_empty());
    }
    assert!(lost >= 3, "the cut took nothing that was not on disk");
}

/// In a child: rows, each in a commit of its own, until there is no disk any more.
pub(crate) fn inserts(folder: &Path, synchronous: &str) {
    let file = Connection::open(folder.join("rows.db")).expect("a file");
    file.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; CREATE TABLE rows (n)"
    ))
    .expect("a table");
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .expect("it is synced");
    for n in 1..10_000 {
        if file.execute("INSERT INTO rows VALUES (?1)", [n]).is_err() {
            return;
        }
        say(format_args!("row {n}"));
    }
}

/// How many rows were answered, and how many are there.
fn rows(synchronous: &str, seed: u64) -> (i64, i64) {
    let disk = Disk::new(Names::WithFiles);
    let mut random = fastrand::Rng::with_seed(seed);
    let cut = Cut {
        at: random.u64(200..1_000),
        tear: (seed % 2 == 1).then(|| random.fork()),
    };
    let mount = disk.mount(Faults {
        cut: Some(cut),
        ..Faults::default()
    });
    let said = child::run(&format!("sqlite {synchronous}"), &mount.path());
    drop(mount);
    let answered = said.after("row ").last().expect("a row");
    let folder = tempfile::tempdir().expect("a folder");
    disk.export(folder.path());
    let file = Connection::open(folder.path().join("rows.db")).expect("a file");
    let there = file.query_row("SELECT coalesce(max(n), 0) FROM rows", [], |row| row.get(0));
    (answered.parse().expect("a number"), there.unwrap_or(0))
}

#[test]
fn sqlite_that_syncs_each_commit_keeps_its_rows_and_one_that_does_not_loses_some() {
    let mut lost = 0;
    for seed in 0..6 {
        let (answered, there) = rows("FULL", seed);
        assert!(
            there >= answered,
            "seed {seed}: {answered} answered, {there} there"
        );
        let (answered, there) = rows("NORMAL", seed);
        lost += u64::from(there < answered);
    }
    assert!(
        lost >= 4,
        "only {lost} of 6 cuts lost rows that were never synced"
    );
}
