//! A benchmark of duly, its peers and the raw ceiling, with the same work in one run.
//!
//! ```text
//! cargo run --release --manifest-path benches/peers/Cargo.toml             # some 25 minutes
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- --quick  # some five minutes
//! ```
//!
//! The README beside it describes the comparison, the settings and the caveats. It asserts no time;
//! it fails if duly lost an event, doubled one or started one early, since figures of such a bus
//! are worthless.

mod ceiling;
mod contender;
mod contenders;
mod on_apalis;
mod on_beanstalkd;
mod on_bullmq;
mod on_chasquimq;
mod on_duly;
mod on_oxana;
mod payload;
mod plan;
mod run;
mod server;
mod table;
mod work;

use std::process::ExitCode;

use plan::Plan;

/// What goes wrong in a benchmark ends it.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T = (), E = Error> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ended = match words.split_first() {
        Some((word, rest)) if word == run::CHILD => run::child(rest),
        Some((word, [])) if word == "--help" => {
            println!("{}", plan::USAGE);
            Ok(())
        }
        _ => Plan::from_words(&words).and_then(|plan| run::all(&plan)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
