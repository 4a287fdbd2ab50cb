//! The statistics of a server, as it reports them itself.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use super::BEANSTALKD_SCHEME;
use crate::Result;

/// Asks a server how it is.
pub enum Gauge {
    Redis(redis::Connection),
    Beanstalkd(BufReader<UnixStream>),
}

impl Gauge {
    pub fn new(url: &str) -> Result<Self> {
        Ok(match url.strip_prefix(BEANSTALKD_SCHEME) {
            Some(path) => Self::Beanstalkd(BufReader::new(UnixStream::connect(path)?)),
            None => Self::Redis(redis::Client::open(url)?.get_connection()?),
        })
    }

    /// Processor time that the server has used, in microseconds.
    pub fn cpu_us(&mut self) -> Result<f64> {
        let (section, names) = match self {
            Self::Redis(_) => ("cpu", ["used_cpu_sys", "used_cpu_user"]),
            Self::Beanstalkd(_) => ("", ["rusage-stime", "rusage-utime"]),
        };
        let report = self.report(section)?;
        let seconds = field(&report, names[0])? + field(&report, names[1])?;
        Ok(seconds * 1e6)
    }

    /// Bytes that its data and its clients use; of beanstalkd, which does not count them, what its
    /// process has of the machine's memory.
    pub fn bytes(&mut self) -> Result<f64> {
        let report = self.report("memory")?;
        match self {
            Self::Redis(_) => field(&report, "used_memory"),
            Self::Beanstalkd(_) => {
                let status = format!("/proc/{}/status", field(&report, "pid")?);
                let status = fs::read_to_string(status)?.replace(" kB", "");
                Ok(field(&status, "VmRSS")? * 1024.0)
            }
        }
    }

    /// Commands that it has processed; of Redis also those of scripts.
    pub fn commands(&mut self) -> Result<f64> {
        let report = self.report("stats")?;
        match self {
            Self::Redis(_) => field(&report, "total_commands_processed"),
            Self::Beanstalkd(_) => {
                let all = report.lines().filter(|line| line.starts_with("cmd-"));
                let counts = all.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
                Ok(counts.sum())
            }
        }
    }

    /// Lines of a name, a colon and a value. beanstalkd knows no sections.
    fn report(&mut self, section: &str) -> Result<String> {
        match self {
            Self::Redis(connection) => Ok(redis::cmd("INFO").arg(section).query(connection)?),
            Self::Beanstalkd(stream) => {
                stream.get_mut().write_all(b"stats\r\n")?;
                let mut head = String::new();
                stream.read_line(&mut head)?;
                let bytes = head.trim().strip_prefix("OK ").ok_or("no statistics")?;
                let mut report = vec![0; bytes.parse::<usize>()? + 2];
                stream.read_exact(&mut report)?;
                Ok(String::from_utf8(report)?)
            }
        }
    }
}

fn field(report: &str, name: &str) -> Result<f64> {
    let mut values = report.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = values
        .find(|(key, _)| *key == name)
        .ok_or_else(|| format!("the server does not tell {name}"))?;
    Ok(value.trim().parse()?)
}
