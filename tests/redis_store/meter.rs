//! What each script takes of its server.
//!
//! Durations are those of the server's slow log, scaled to the time of its processor, since other
//! programs of the machine take part in the former; what they are compared with is measured beside
//! them.

use std::collections::BTreeMap;

use duly::__internal::redis::scripts;
use duly::store::operation::BATCH_BYTES;

use crate::servers::Redis;

pub(crate) struct Meter<'a> {
    server: &'a Redis,
    names: BTreeMap<String, &'static str>,
    /// Of each script: calls, the longest by processor and by slow log.
    pub(crate) found: BTreeMap<String, (usize, f64, f64)>,
}

/// The time of the server's main thread, in µs.
pub(crate) fn processor_us(server: &Redis) -> f64 {
    let info = server.cli(&["INFO", "cpu"]);
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<f64>().ok())
    };
    let user = of("used_cpu_user_main_thread:").expect("the server tells");
    let system = of("used_cpu_sys_main_thread:").expect("the server tells");
    (user + system) * 1e6
}

impl<'a> Meter<'a> {
    pub(crate) fn new(server: &'a Redis) -> Self {
        server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        server.cli(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
        let names = scripts().flat_map(|script| {
            let names = [script.hash(), script.function()];
            names.map(|name| (name.to_owned(), script.name))
        });
        Self {
            server,
            names: names.collect(),
            found: BTreeMap::new(),
        }
    }

    /// The scripts that ran since the last look, with their durations in µs.
    fn logged(&self) -> Vec<(String, f64)> {
        let script = "local out = {} for _, it in ipairs(redis.call('SLOWLOG', 'GET', 100000)) do \
                      if it[4][1] == 'EVALSHA' or it[4][1] == 'EVAL' or it[4][1] == 'FCALL' then \
                      out[#out + 1] = it[4][2]:sub(1, 40):gsub('%s', '_') .. ' ' .. it[3] end end \
                      return out";
        let said = self.server.cli(&["EVAL", script, "0"]);
        let parsed = said.lines().filter_map(|line| {
            let (hash, us) = line.rsplit_once(' ')?;
            let name = self.names.get(hash).copied().unwrap_or("other");
            Some((name.to_owned(), us.parse().ok()?))
        });
        parsed.collect()
    }

    /// Does something, and notes what each script took for it.
    pub(crate) async fn step<T>(&mut self, what: impl Future<Output = T>) -> T {
        self.server.cli(&["SLOWLOG", "RESET"]);
        let before = processor_us(self.server);
        let done = what.await;
        let used = processor_us(self.server) - before;
        let logged = self.logged();
        let all: f64 = logged.iter().map(|(_, us)| us).sum();
        let share = (used / all.max(1.0)).min(1.0);
        for (script, us) in logged {
            let found = self.found.entry(script).or_default();
            found.0 += 1;
            found.1 = found.1.max(us * share);
            found.2 = found.2.max(us);
        }
        done
    }

    /// What a script takes that reads and answers as many bytes as one call may: the least of several.
    pub(crate) fn known_us(&mut self) -> f64 {
        let fill =
            "for i = 1, 4 do redis.call('HSET', KEYS[1], i, string.rep('x', ARGV[1] / 4)) end";
        let bytes = BATCH_BYTES.to_string();
        self.server.cli(&["EVAL", fill, "1", "known", &bytes]);
        let read = "return redis.call('HMGET', KEYS[1], 1, 2, 3, 4)";
        let times = (0..5).map(|_| {
            self.server.cli(&["SLOWLOG", "RESET"]);
            self.server.cli(&["EVAL", read, "1", "known"]);
            let logged = self.logged().into_iter();
            logged.map(|(_, us)| us).fold(0.0, f64::max)
        });
        let least = times.fold(f64::MAX, f64::min);
        self.server.cli(&["DEL", "known"]);
        least
    }
}
