//! The Redis server of one run, and what it has counted.

use crate::Result;
use crate::process::Run;
use crate::servers::{Redis, RedisOptions};

/// Commands that call a script or a function.
const SCRIPTED: [&str; 5] = ["eval", "evalsha", "evalsha_ro", "fcall", "fcall_ro"];

/// Starts a server, under the program whose words these are.
///
/// Small hashes and sets are searched from their beginning: here they are as large ones are.
pub(crate) fn start(under: &[String]) -> Redis {
    let sizes = ["--hash-max-listpack-entries", "--zset-max-listpack-entries"];
    let more = sizes.map(|size| [size.to_owned(), "0".to_owned()]);
    Redis::start(RedisOptions {
        more: more.concat(),
        under: under.to_vec(),
        ..RedisOptions::default()
    })
}

/// Its URL, with time enough for a client that is traced on a busy machine.
pub(crate) fn url(server: &Redis) -> String {
    format!("{}?timeout=50s&connect_timeout=50s", server.url())
}

/// What a server was asked to do: calls of scripts and functions, all other commands, nearly all
/// of them within those calls, bytes, and the time that the calls took, which alone is no count.
pub(crate) fn counts(server: &Redis) -> Result<Run> {
    let mut counts = Run::new();
    for line in server.cli(&["INFO", "commandstats"]).lines() {
        let Some((name, calls, us)) = command_line(line) else {
            continue;
        };
        if SCRIPTED.contains(&name) {
            *counts.entry("redis_calls").or_default() += calls;
            *counts.entry("redis_us").or_default() += us;
        } else {
            *counts.entry("redis_commands").or_default() += calls;
        }
    }
    let bytes = [
        ("redis_bytes_in", "total_net_input_bytes"),
        ("redis_bytes_out", "total_net_output_bytes"),
    ];
    let stats = server.cli(&["INFO", "stats"]);
    for (kind, name) in bytes {
        let mut fields = stats.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(field, _)| *field == name);
        let (_, value) = field.ok_or_else(|| format!("INFO has no {name}"))?;
        counts.insert(kind, value.trim().parse()?);
    }
    Ok(counts)
}

/// The name, the calls and the microseconds of `cmdstat_hset:calls=3,usec=7,...`.
fn command_line(line: &str) -> Option<(&str, f64, f64)> {
    let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
    let mut number = |wanted: &str| {
        let (_, value) = fields.find(|(name, _)| *name == wanted)?;
        value.parse().ok()
    };
    Some((name, number("calls")?, number("usec")?))
}
