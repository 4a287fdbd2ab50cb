//! The runner: each measurement in a process of its own, with a server of its own, and the
//! contenders in turn.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::Result;
use crate::ceiling::Ceiling;
use crate::on_apalis::OnApalis;
use crate::on_bullmq::OnBullmq;
use crate::on_duly::OnDuly;
use crate::on_oxana::OnOxana;
use crate::plan::{Plan, Size};
use crate::server::Server;
use crate::table::{DULY, Table};
use crate::work::Work;

/// The word with which this program starts itself for one measurement.
pub const CHILD: &str = "measure";
/// A measurement that takes longer is ended.
const LIMIT: Duration = Duration::from_secs(120);

/// The contenders, in the order of the columns, and the works that each of them does.
const CONTENDERS: [(&str, &[Work]); 6] = [
    (
        "ceiling",
        &[
            Work::Push,
            Work::Bulk,
            Work::Drain,
            Work::Late,
            Work::Fast,
            Work::Herd,
            Work::Ahead,
        ],
    ),
    ("ceiling-256", &[Work::Drain, Work::Herd]),
    (
        DULY,
        &[
            Work::Push,
            Work::Bulk,
            Work::Drain,
            Work::Late,
            Work::Fast,
            Work::Herd,
            Work::Ahead,
            Work::Idle,
        ],
    ),
    ("apalis-redis", PEER),
    ("bullmq", PEER),
    ("oxana", PEER),
];

const PEER: &[Work] = &[
    Work::Push,
    Work::Bulk,
    Work::Drain,
    Work::Late,
    Work::Shipped,
    Work::Herd,
    Work::Idle,
    Work::Resting,
];

/// Measures everything that is planned, and prints the table.
pub fn all(plan: &Plan) -> Result {
    let begun = Instant::now();
    let mut table = Table::default();
    for work in Work::ALL.into_iter().filter(|work| plan.has_work(*work)) {
        for pass in 0..plan.passes {
            for (name, works) in CONTENDERS {
                if !works.contains(&work) || !plan.has_contender(name) {
                    continue;
                }
                let at = begun.elapsed().as_secs();
                eprintln!("{at:>5} s  pass {}  {:<8} {name}", pass + 1, work.name());
                match measure(name, work, plan) {
                    Ok(figures) => table.add(work, name, figures),
                    Err(error) => table.fail(work, name, &error.to_string()),
                }
            }
        }
    }
    table.print(plan, CONTENDERS.map(|(name, _)| name));
    table.verdict()
}

/// One measurement, in a process of its own.
fn measure(name: &str, work: Work, plan: &Plan) -> Result<Vec<(String, f64)>> {
    let server = Server::start(plan.aof)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args([CHILD, name, work.name(), &server.url()])
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
    let measured = runtime.block_on(async {
        match name.as_str() {
            "ceiling" => work.measure::<Ceiling<1_000>>(url, size).await,
            "ceiling-256" => work.measure::<Ceiling<256>>(url, size).await,
            DULY => work.measure::<OnDuly>(url, size).await,
            "apalis-redis" => work.measure::<OnApalis>(url, size).await,
            "bullmq" => work.measure::<OnBullmq>(url, size).await,
            "oxana" => work.measure::<OnOxana>(url, size).await,
            _ => Err(format!("there is no contender {name:?}").into()),
        }
    });
    for (name, value) in measured? {
        println!("{name}={value}");
    }
    // Whatever a contender left running ends here, and has no say in how long that takes.
    std::process::exit(0)
}
