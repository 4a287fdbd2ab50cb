//! The plan of a run: sizes and contenders.

use std::time::Duration;

use crate::Result;
use crate::work::Work;

pub const USAGE: &str = "\
usage: duly-peers [--quick] [--aof] [--passes N] [--events N] [--herd N] [--seconds N]
                  [--works w,w] [--contenders c,c]

  --quick       one pass of everything, small
  --aof         Redis appends to a file and syncs it each second; otherwise it keeps nothing
  --passes N    passes of each measurement; the table shows medians (3)
  --events N    events of a push or a drain (100000)
  --herd N      events that are due at one instant (50000)
  --seconds N   how long lateness and idleness are watched (10)
  --works       some of: push, bulk, drain, late, fast, shipped, herd, ahead, idle, resting
  --contenders  some of: ceiling, ceiling-256, duly, apalis-redis, bullmq, oxana";

/// What a run measures.
#[derive(Clone, Debug)]
pub struct Plan {
    pub passes: usize,
    pub aof: bool,
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
                "--passes" => plan.passes = value()?.parse::<usize>()?.max(1),
                "--events" => plan.size.events = value()?.parse()?,
                "--herd" => plan.size.herd = value()?.parse()?,
                "--seconds" => plan.size.span = Duration::from_secs(value()?.parse()?),
                "--works" => plan.works = list(value()?),
                "--contenders" => plan.contenders = list(value()?),
                _ => return Err(USAGE.into()),
            }
        }
        let unknown = plan.works.iter().find(|name| Work::named(name).is_none());
        match unknown {
            Some(name) => Err(format!("there is no work {name:?}\n{USAGE}").into()),
            None => Ok(plan),
        }
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
