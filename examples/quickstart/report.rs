//! The printed report.

use std::time::Duration;

use duly::records::Record;
use duly::store::Durability;

use crate::account::Account;

/// The upper ends of the histogram's lines, in microseconds.
const STEPS_US: [u64; 10] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000, 10_000_000,
];
/// The longest bar.
const BAR: usize = 40;

pub(crate) fn opening(orders: usize, durability: Durability) {
    let survives = match durability {
        Durability::Disk => "a power cut",
        Durability::Memory => "nothing",
        _ => "the death of this process",
    };
    println!("{orders} orders, each closed at its own time unless it is paid before.");
    println!("What the store has accepted survives {survives}. Three seconds, please ...\n");
}

pub(crate) fn print(account: &Account, dead: usize) {
    println!(
        "{:<44} {:>6} {:>10}  ms late: p50     p99      max",
        "what happened", "orders", "worth"
    );
    for (ending, (cents, late)) in &account.endings {
        let worth: u64 = cents.iter().sum();
        let worth = format!("{}.{:02}", worth / 100, worth % 100);
        println!(
            "{ending:<44} {:>6} {worth:>10} {}",
            cents.len(),
            parts(late.clone())
        );
    }
    println!(
        "\n{:<62} {:>8} {:>8} {:>8}",
        "how late, in ms", "p50", "p99", "max"
    );
    stage(account, "fetched after it was due", |record| {
        (record.due.as_micros(), record.stages.fetched_us)
    });
    stage(account, "handler started after that", |record| {
        let fetched = record.stages.fetched_us.max(record.due.as_micros());
        (fetched, record.stages.started_us)
    });
    stage(
        account,
        "handler started after it was due, all in all",
        |record| (record.due.as_micros(), record.stages.started_us),
    );
    histogram(account);
    println!(
        "\n{} attempts and {} cancelled orders left {} records;",
        account.attempts.len(),
        account.records - account.attempts.len(),
        account.records
    );
    match account.verdict() {
        Ok(()) => println!(
            "each of the {} receipts is accounted for, none was early, and {dead} dead letters are \
             kept.",
            account.receipts
        ),
        Err(_) => println!("they do NOT account for the {} receipts:", account.receipts),
    }
}

/// A line for the time between two moments of an attempt, the second of which may come first.
fn stage(account: &Account, name: &str, moments: impl Fn(&Record) -> (u64, u64)) {
    let spans = account.attempts.iter().map(moments);
    let spans = spans.map(|(from, to)| Duration::from_micros(to.saturating_sub(from)));
    println!("{name:<62} {}", parts(spans.collect()));
}

/// The middle, the latest but one in a hundred, and the latest.
fn parts(mut spans: Vec<Duration>) -> String {
    spans.sort_unstable();
    let Some(last) = spans.len().checked_sub(1) else {
        return format!("{:>8} {:>8} {:>8}", "-", "-", "-");
    };
    let at = |percent: usize| spans[last * percent / 100].as_secs_f64() * 1e3;
    format!("{:>8.2} {:>8.2} {:>8.2}", at(50), at(99), at(100))
}

fn histogram(account: &Account) {
    let late = account.attempts.iter().filter_map(Record::lateness);
    let late: Vec<_> = late.map(|late| late.as_micros()).collect();
    println!("\nattempts by how late they started");
    let max = late.iter().max().copied().unwrap_or(0);
    let mut from = 0;
    for to in STEPS_US.map(u128::from) {
        let count = late.iter().filter(|us| (from..to).contains(us)).count();
        let bar = "#".repeat((count * BAR).div_ceil(late.len().max(1)));
        println!("  below {:>6.1} ms {count:>6} {bar}", to as f64 / 1e3);
        from = to;
        if max < to {
            break;
        }
    }
}
