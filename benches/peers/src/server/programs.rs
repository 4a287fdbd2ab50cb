//! The server programs of this machine: whether a contender's is there and new enough.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::process::Command;

use crate::plan::Plan;

/// The program of beanstalkd.
pub const BEANSTALKD: &str = "beanstalkd";

/// What a contender runs on.
#[derive(Clone, Copy, Debug)]
pub enum Needs {
    /// Redis of this version, major and minor, or a later one.
    Redis {
        since: (u32, u32),
    },
    Beanstalkd,
}

/// The programs, and what they say of themselves.
pub struct Programs {
    pub redis: OsString,
    /// As in `7.0.15`, if there is one.
    pub redis_version: Option<String>,
    has_beanstalkd: bool,
}

impl Programs {
    pub fn find(plan: &Plan) -> Self {
        Self {
            redis: plan.redis.clone(),
            redis_version: output(&plan.redis, "--version").map(|line| version(&line)),
            has_beanstalkd: output(BEANSTALKD.as_ref(), "-v").is_some(),
        }
    }

    /// Why a contender cannot be measured here.
    pub fn lacks(&self, needs: Needs) -> Option<String> {
        match needs {
            Needs::Beanstalkd if self.has_beanstalkd => None,
            Needs::Beanstalkd => Some(
                "beanstalkd is not installed, or not in PATH; Debian's package is beanstalkd"
                    .to_owned(),
            ),
            Needs::Redis { since } => {
                let Some(version) = &self.redis_version else {
                    let program = self.redis.display();
                    return Some(format!("{program} is not installed, or not in PATH"));
                };
                let old = numbers(version).unwrap_or((0, 0)) < since;
                old.then(|| format!("needs {needs} {}.{}, this is {version}", since.0, since.1))
            }
        }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Redis { .. } => "Redis",
            Self::Beanstalkd => "beanstalkd",
        })
    }
}

/// The first line that a program prints, if there is such a program.
fn output(program: &OsStr, word: &str) -> Option<String> {
    let output = Command::new(program).arg(word).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(())?;
    Some(text.lines().next()?.to_owned())
}

/// The number in `Redis server v=7.0.15 sha=...`; the whole line of what is not Redis.
fn version(line: &str) -> String {
    let rest = line.strip_prefix("Redis server v=");
    let number = rest.and_then(|rest| rest.split_whitespace().next());
    number.unwrap_or(line).to_owned()
}

/// Major and minor; none of a server that is not Redis.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}
