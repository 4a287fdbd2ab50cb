//! One child for each point, several at a time, and the account after each.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use tempfile::TempDir;

use crate::syscalls::account::{Tally, account};
use crate::syscalls::child;
use crate::syscalls::strace::{Deed, Point, run_with};

/// How many children run at once: most of the time they wait for the disk, and for a store that
/// was told that the disk fails.
const AT_ONCE: (usize, usize) = (6, 16);
/// How often in a row a point must not be reached until it is believed that there is none.
const TRIES: usize = 4;

/// What is done again and again.
pub(crate) struct Sweep<'a> {
    /// How it is named in reports, and in `DULY_SYSCALLS`.
    name: &'a str,
    /// What the child finds in its folder.
    template: &'a Path,
    part: &'a str,
    deed: Deed,
    /// Every so many points one is taken, from a random one on, unless the environment wants all.
    pub(crate) every: usize,
    /// Processes that died in the template.
    pub(crate) deaths: usize,
    /// What else must hold of a folder after the deed.
    pub(crate) check: fn(&Path, &Point) -> Vec<String>,
}

/// What became of all points.
#[derive(Debug, Default)]
struct Report {
    /// Points at which the deed was done.
    covered: BTreeSet<Point>,
    /// Points that one run came past and [`TRIES`] others did not.
    unreached: BTreeSet<Point>,
    tally: Tally,
}

impl<'a> Sweep<'a> {
    pub(crate) fn of(name: &'a str, template: &'a Path, part: &'a str, deed: Deed) -> Self {
        Self {
            name,
            template,
            part,
            deed,
            every: 1,
            deaths: 0,
            check: |_, _| Vec::new(),
        }
    }

    /// Does the deed at every one of these points, and at those that come after the last one where
    /// a run makes a call more often than the run did that was watched; then prints what was
    /// counted, and fails at what was wrong.
    #[allow(clippy::print_stdout)] // a report
    pub(crate) fn covers(&self, points: &[Point]) -> Tally {
        let chosen = self.chosen(points);
        let report = Mutex::new(Report::default());
        in_parallel(self.at_once(), &chosen, |point| self.at(point, &report));
        let is_all = chosen.len() == points.len();
        if is_all {
            self.go_on(points, &report);
        }
        let report = report.into_inner().expect("nobody panics with it");
        let Report {
            covered,
            unreached,
            mut tally,
        } = report;
        let wrong = std::mem::take(&mut tally.wrong);
        let count = covered.len();
        let all = if is_all { count } else { points.len() };
        println!("{}: {count} of {all} points; {tally}", self.name);
        for point in &unreached {
            println!(
                "{}: {point} was not reached in {TRIES} more runs",
                self.name
            );
        }
        let few = wrong.iter().take(3).cloned().collect::<Vec<_>>();
        assert!(
            wrong.is_empty(),
            "{} wrong, of which some:\n{}",
            wrong.len(),
            few.join("\n")
        );
        assert!(
            unreached.len() * 4 <= count.max(4),
            "{} of {} points are not reached again: the script is not the same each time",
            unreached.len(),
            chosen.len()
        );
        let is_one = chosen.len() == 1 && points.len() > 1;
        assert!(!is_one || count == 1, "{} was not reached", chosen[0]);
        tally
    }

    fn chosen(&self, points: &[Point]) -> Vec<Point> {
        let wanted = env::var("DULY_SYSCALLS").unwrap_or_default();
        let every = match (wanted.as_str(), self.every) {
            ("all", _) => 1,
            ("", every) => every,
            (one, _) => return self.named(one).into_iter().collect(),
        };
        let first = fastrand::usize(..every);
        points.iter().skip(first).step_by(every).cloned().collect()
    }

    /// The point that is named, if it is one of this sweep.
    fn named(&self, name: &str) -> Option<Point> {
        let name = name.strip_prefix(self.name)?.strip_prefix(':')?;
        let (name, nth) = name.rsplit_once(':')?;
        let (file, call) = name.rsplit_once(':')?;
        Some(Point {
            file: file.to_owned(),
            call: call.to_owned(),
            nth: nth.parse().ok()?,
        })
    }

    fn at_once(&self) -> usize {
        match self.deed {
            Deed::Kill | Deed::Cut => AT_ONCE.0,
            Deed::Fail(_) | Deed::FailOn(_) => AT_ONCE.1,
        }
    }

    fn go_on(&self, points: &[Point], report: &Mutex<Report>) {
        let mut last: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for Point { file, call, nth } in points {
            let most = last.entry((file, call)).or_default();
            *most = (*most).max(*nth);
        }
        let series: Vec<_> = last.into_iter().collect();
        in_parallel(self.at_once(), &series, |((file, call), most)| {
            for nth in *most + 1.. {
                let (file, call) = ((*file).to_owned(), (*call).to_owned());
                if !self.try_at(&Point { file, call, nth }, report) {
                    return;
                }
            }
        });
    }

    fn at(&self, point: &Point, report: &Mutex<Report>) {
        if !self.try_at(point, report) {
            let mut report = report.lock().expect("nobody panics with it");
            report.unreached.insert(point.clone());
        }
    }

    /// Answers whether the point was reached in one of some runs.
    fn try_at(&self, point: &Point, report: &Mutex<Report>) -> bool {
        for _ in 0..TRIES {
            if let Some(tally) = self.once(point) {
                let mut report = report.lock().expect("nobody panics with it");
                report.covered.insert(point.clone());
                report.tally += tally;
                return true;
            }
        }
        false
    }

    /// One child; `None` when it came to its end without coming past the point.
    fn once(&self, point: &Point) -> Option<Tally> {
        let folder = copy(self.template);
        let run = run_with(folder.path(), self.part, point, self.deed);
        let was_done = match self.deed {
            Deed::Kill | Deed::Cut => run.was_killed,
            Deed::Fail(_) | Deed::FailOn(_) => run.was_hit(),
        };
        if !was_done {
            return None;
        }
        if self.deed == Deed::Cut {
            run.write_a_part(folder.path(), point);
        }
        disturb(folder.path(), point.nth);
        let told = catch_unwind(AssertUnwindSafe(|| {
            let mut tally = account(folder.path(), self.deaths + 1);
            tally.wrong.extend((self.check)(folder.path(), point));
            tally
        }));
        let mut tally = told.unwrap_or_else(|panic| Tally {
            unaccounted: 1,
            wrong: vec![words(panic.as_ref())],
            ..Tally::default()
        });
        for wrong in &mut tally.wrong {
            *wrong = format!("DULY_SYSCALLS={}:{point}: {wrong}", self.name);
        }
        Some(tally)
    }
}

/// The index of the write-ahead log is shared memory, which a process can change without a call;
/// so nothing may depend on what a dead one left there.
fn disturb(folder: &Path, number: usize) {
    let data = child::data(folder);
    let index = data.with_file_name("duly.db-shm");
    let Ok(found) = fs::metadata(&index) else {
        return;
    };
    match number % 3 {
        0 => fs::write(&index, vec![0xA5; found.len() as usize]).expect("a file"),
        1 => fs::remove_file(&index).expect("a file"),
        _ => {}
    }
}

/// A new folder with what lies in another one.
pub(crate) fn copy(template: &Path) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    copy_into(template, folder.path());
    folder
}

fn copy_into(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&to).expect("a folder");
            copy_into(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a file");
        }
    }
}

fn in_parallel<T: Sync>(at_once: usize, list: &[T], each: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(one) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    each(one);
                }
            });
        }
    });
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the account panicked").to_owned()
}
