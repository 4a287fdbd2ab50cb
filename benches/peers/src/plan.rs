//! The plan of a run: sizes and contenders.

use std::ffi::OsString;
use std::time::Duration;

use crate::Result;
use crate::contenders;
use crate::work::Work;

pub const USAGE: &str = "\
usage: duly-peers [--quick] [--aof] [--redis PATH] [--passes N] [--events N] [--herd N]
                  [--seconds N] [--works w,w] [--contenders c,c]

  --quick       one pass of everything, small
  --aof         the server appends to a file and syncs it each second; otherwise it keeps nothing
  --redis PATH  the redis-server to start, also $DULY_PEERS_REDIS (redis-server in $PATH)
  --passes N    passes of each measurement; the table shows medians (3)
  --events N    events of a push or a drain (100000)
  --herd N      events that are due at one instant (50000)
  --seconds N   how long lateness and idleness are watched (10)
  --works       some of: push, bulk, drain, single, own, own-5000, own-1000, mixed, failing,
                cancelled, late, fast, shipped, herd, ahead, idle, resting
  --contenders  some of: ceiling, ceiling-norecord, ceiling-256, duly, apalis-redis, bullmq,
                oxana, chasquimq, beanstalkd";

/// What a run measures.
#[derive(Clone, Debug)]
pub struct Plan {
    pub passes: usize,
    pub aof: bool,
    /// The program of the Redis server.
    pub redis: OsString,
    pub size: Size,
    /// All of them when empty.
    pub works: Vec<String>,
    /// All of them when empty.
    pub contenders: Vec<String>,
}

/// How much one measurement measures.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub events: usize,
    pub herd: usize,
    pub span: Duration,
}

impl Plan {
    pub fn from_words(words: &[String]) -> Result<Self> {
        let mut plan = Self {
            passes: 3,
            aof: false,
            redis: std::env::var_os("DULY_PEERS_REDIS").unwrap_or("redis-server".into()),
            size: Size {
                events: 100_000,
                herd: 50_000,
                span: Duration::from_secs(10),
            },
            works: Vec::new(),
            contenders: Vec::new(),
        };
        if words.iter().any(|word| word == "--quick") {
            plan.passes = 1;
            plan.size = Size {
                events: 20_000,
                herd: 5_000,
                span: Duration::from_secs(2),
            };
        }
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(USAGE);
            match word.as_str() {
                "--quick" => {}
                "--aof" => plan.aof = true,
                "--redis" => plan.redis = value()?.into(),
                "--passes" => plan.passes = value()?.parse::<usize>()?.max(1),
                "--events" => plan.size.events = value()?.parse()?,
                "--herd" => plan.size.herd = value()?.parse()?,
                "--seconds" => plan.size.span = Duration::from_secs(value()?.parse()?),
                "--works" => plan.works = list(value()?),
                "--contenders" => plan.contenders = list(value()?),
                _ => return Err(USAGE.into()),
            }
        }
        let known = |name: &String| contenders::ALL.iter().any(|entry| entry.name == name);
        if let Some(name) = plan.works.iter().find(|name| Work::named(name).is_none()) {
            return Err(format!("there is no work {name:?}\n{USAGE}").into());
        }
        if let Some(name) = plan.contenders.iter().find(|name| !known(name)) {
            return Err(format!("there is no contender {name:?}\n{USAGE}").into());
        }
        Ok(plan)
    }

    pub fn has_work(&self, work: Work) -> bool {
        self.works.is_empty() || self.works.iter().any(|name| name == work.name())
    }

    pub fn has_contender(&self, name: &str) -> bool {
        self.contenders.is_empty() || self.contenders.iter().any(|one| one == name)
    }
}

impl Size {
    /// As words of a command line.
    pub fn to_words(self) -> [String; 3] {
        [
            self.events.to_string(),
            self.herd.to_string(),
            self.span.as_secs().to_string(),
        ]
    }

    pub fn from_words(words: &[String]) -> Result<Self> {
        let [events, herd, span] = words else {
            return Err("a size has three words".into());
        };
        Ok(Self {
            events: events.parse()?,
            herd: herd.parse()?,
            span: Duration::from_secs(span.parse()?),
        })
    }
}

fn list(words: &str) -> Vec<String> {
    words.split(',').map(str::to_owned).collect()
}
