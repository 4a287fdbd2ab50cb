//! Counts of a process that does a workload, by what watches it: valgrind, strace, a Redis server.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::thread;

use tempfile::TempDir;

use crate::Result;
use crate::server;
use crate::servers::Redis;
use crate::work::{Kept, Work};

/// The word with which this program starts itself to do a workload.
pub(crate) const CHILD: &str = "child";
/// Each workload is done with so many events and with so many more: the difference counts, without
/// what is the same for every start and end.
const FEW: u64 = 1_024;
const MORE: u64 = 2_048;

/// What was counted in one run.
pub(crate) type Run = BTreeMap<&'static str, f64>;

/// Counts everything that can be counted of a workload: an event of it.
pub(crate) fn count(work: Work) -> Result<Run> {
    // How many events a drain settles at a time is a matter of speed: the most at a time count.
    let runs = if matches!(work, Work::Drain(Kept::Redis) | Work::Fail(_)) {
        2
    } else {
        1
    };
    let mut counts = an_event(runs, |events| own_instructions(work, events))?;
    match work.kept() {
        Kept::Memory => {}
        Kept::Embedded => counts.extend(least(3, || system_calls(work))?),
        Kept::Redis => {
            counts.extend(an_event(runs, |events| server_instructions(work, events))?);
            counts.extend(an_event(3, |events| server_counts(work, events))?);
        }
    }
    Ok(counts)
}

/// Counts of an event: the difference of runs with few events and with more, both at once.
fn an_event(runs: usize, run: impl Fn(u64) -> Result<Run> + Sync) -> Result<Run> {
    let (few, more) = thread::scope(|scope| {
        let few = scope.spawn(|| least(runs, || run(FEW)));
        let more = least(runs, || run(FEW + MORE));
        (few.join(), more)
    });
    let (few, mut counts) = (few.map_err(|_| "a thread has panicked")??, more?);
    for (kind, count) in &mut counts {
        *count = (*count - few.get(kind).copied().unwrap_or(0.0)) / MORE as f64;
    }
    Ok(counts)
}

/// The least that was counted in several runs, as what comes between only adds.
fn least(runs: usize, run: impl Fn() -> Result<Run>) -> Result<Run> {
    let mut least = run()?;
    for _ in 1..runs {
        for (kind, count) in run()? {
            least
                .entry(kind)
                .and_modify(|least| *least = least.min(count));
        }
    }
    Ok(least)
}

/// Instructions of the process, whose server is as fast as ever.
fn own_instructions(work: Work, events: u64) -> Result<Run> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("instructions");
    let server = match work.kept() {
        Kept::Redis => Some(server::start(&[])),
        Kept::Memory | Kept::Embedded => None,
    };
    let url = url(work, &folder, server.as_ref());
    child(&valgrind(&log), work, &url, events)?;
    Ok(Run::from([("instructions", instructions(&log)?)]))
}

/// Instructions of the Redis server, whose client is as fast as ever.
fn server_instructions(work: Work, events: u64) -> Result<Run> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("instructions");
    let mut server = server::start(&valgrind(&log));
    child(&[], work, &server::url(&server), events)?;
    server.shut_down();
    Ok(Run::from([("redis_instructions", instructions(&log)?)]))
}

/// Words that let valgrind count the instructions of a program, and write them into a file.
///
/// The tool is cachegrind without caches: callgrind counts the same, and takes twice as long.
fn valgrind(log: &Path) -> Vec<String> {
    let log = format!("--log-file={}", log.display());
    let words = ["valgrind", "--tool=cachegrind", "--cache-sim=no", &log];
    let words = words.into_iter().chain(["--cachegrind-out-file=/dev/null"]);
    words.map(str::to_owned).collect()
}

/// The sum that valgrind writes at the end: `==7== I   refs:      1,234,567`.
fn instructions(log: &Path) -> Result<f64> {
    let text = fs::read_to_string(log)?;
    let sum = text.lines().rev().find_map(|line| {
        let (_, line) = line.split_once("== I ")?;
        let (_, sum) = line.split_once("refs:")?;
        sum.trim().replace(',', "").parse().ok()
    });
    sum.ok_or_else(|| format!("valgrind has counted nothing:\n{text}").into())
}

/// System calls of all threads of the process, its start and end included: how many events a
/// commit has is a matter of speed, and differs more than those two cost.
fn system_calls(work: Work) -> Result<Run> {
    let events = FEW + MORE;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("calls");
    let log_name = log.display().to_string();
    let strace = ["strace", "-f", "-c", "-U", "calls,name", "-o", &log_name];
    child(
        &strace.map(str::to_owned),
        work,
        &url(work, &folder, None),
        events,
    )?;
    let text = fs::read_to_string(&log)?;
    let sum = text.lines().find_map(|line| {
        let (calls, name) = line.trim().split_once(char::is_whitespace)?;
        (name.trim() == "total").then(|| calls.parse::<f64>().ok())?
    });
    let sum = sum.ok_or_else(|| format!("strace has counted nothing:\n{text}"))?;
    Ok(Run::from([("system_calls", sum / events as f64)]))
}

/// What the process asks of a Redis server that knows its scripts.
fn server_counts(work: Work, events: u64) -> Result<Run> {
    let server = server::start(&[]);
    child(&[], work, &server::url(&server), FEW)?;
    let before = server::counts(&server)?;
    child(&[], work, &server::url(&server), events)?;
    let mut counts = server::counts(&server)?;
    for (kind, count) in &mut counts {
        *count -= before[kind];
    }
    Ok(counts)
}

fn url(work: Work, folder: &TempDir, server: Option<&Redis>) -> String {
    match (work.kept(), server) {
        (Kept::Redis, Some(server)) => server::url(server),
        (Kept::Embedded, _) => format!("sqlite:{}", folder.path().join("duly.db").display()),
        (Kept::Memory | Kept::Redis, _) => "memory:".to_owned(),
    }
}

/// Runs this program as the words say, to do a workload.
fn child(under: &[String], work: Work, url: &str, events: u64) -> Result {
    let own = std::env::current_exe()?.display().to_string();
    let events = events.to_string();
    let mut words = under.iter().map(String::as_str).chain([&own[..]]);
    let program = words.next().unwrap_or(&own);
    let mut command = Command::new(program);
    command.args(words).args([CHILD, work.name(), url, &events]);
    let output = command.output().map_err(|error| missing(program, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed under {program}: {said}", work.name()).into())
}

/// Says how a program that is not there is installed.
fn missing(program: &str, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => {
            format!("{program} is not installed; on Debian: apt-get install {program}")
        }
        _ => format!("{program} does not start: {error}"),
    }
}
