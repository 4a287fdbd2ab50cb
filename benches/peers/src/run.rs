//! The runner: each measurement in a process of its own, with a server of its own, and the
//! contenders in turn.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::Result;
use crate::contenders::{self, Entry};
use crate::plan::{Plan, Size};
use crate::server::{Programs, Server};
use crate::table::Table;
use crate::work::Work;

/// The word with which this program starts itself for one measurement.
pub const CHILD: &str = "measure";
/// A measurement that takes longer is ended.
const LIMIT: Duration = Duration::from_secs(120);

/// Measures everything that is planned, and prints the table.
///
/// # Errors
///
/// When duly failed at a work, or nothing can be measured.
pub fn all(plan: &Plan) -> Result {
    let begun = Instant::now();
    let programs = Programs::find(plan);
    let (mut table, mut columns) = (Table::default(), Vec::new());
    for entry in contenders::ALL {
        if !plan.has_contender(entry.name) {
            continue;
        }
        match programs.lacks(entry.needs) {
            Some(lack) if entry.peer => table.leave_out(entry.name, &lack),
            Some(lack) => return Err(lack.into()),
            None => columns.push(entry),
        }
    }
    for work in Work::ALL.into_iter().filter(|work| plan.has_work(*work)) {
        for pass in 0..plan.passes {
            for entry in columns.iter().filter(|it| it.works.contains(&work)) {
                let (at, name) = (begun.elapsed().as_secs(), entry.name);
                eprintln!("{at:>5} s  pass {}  {:<8} {name}", pass + 1, work.name());
                match measure(entry, work, plan, &programs) {
                    Ok(figures) => table.add(work, name, figures),
                    Err(error) => table.fail(work, name, &error.to_string()),
                }
            }
        }
    }
    table.print(plan, &programs, &columns);
    table.verdict()
}

/// One measurement, in a process of its own.
fn measure(
    entry: &Entry,
    work: Work,
    plan: &Plan,
    programs: &Programs,
) -> Result<Vec<(String, f64)>> {
    let server = Server::start(entry.needs, programs, plan.aof)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args([CHILD, entry.name, work.name(), &server.url()])
        .args(plan.size.to_words())
        .stdout(Stdio::piped())
        .spawn()?;
    let (line, lines) = channel();
    let output = child.stdout.take().ok_or("the child has no output")?;
    std::thread::spawn(move || {
        for read in BufReader::new(output)
            .lines()
            .map_while(std::io::Result::ok)
        {
            if line.send(read).is_err() {
                return;
            }
        }
    });
    let (begun, mut figures) = (Instant::now(), Vec::new());
    while let Ok(line) = lines.recv_timeout(LIMIT.saturating_sub(begun.elapsed())) {
        if let Some((name, value)) = line.split_once('=') {
            figures.push((name.to_owned(), value.parse()?));
        }
    }
    // Ended by itself, or too late to be of use.
    let _ = child.kill();
    child.wait()?;
    if figures.is_empty() {
        return Err("gave no figures".into());
    }
    Ok(figures)
}

/// What the process for one measurement does.
pub fn child(words: &[String]) -> Result {
    let [name, work, url, size @ ..] = words else {
        return Err("a measurement has a contender, a work and an address".into());
    };
    let work = Work::named(work).ok_or("no such work")?;
    let size = Size::from_words(size)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // In a task of the runtime, as an application would be.
    let measured = runtime.block_on(contenders::measure(name, work, url, size));
    for (name, value) in measured? {
        println!("{name}={value}");
    }
    // Whatever a contender left running ends here, and has no say in how long that takes.
    std::process::exit(0)
}
