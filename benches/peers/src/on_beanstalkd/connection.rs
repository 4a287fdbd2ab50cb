//! A connection to beanstalkd: its text protocol, many commands in one write.

use std::fmt::Write;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::Result;
use crate::server::BEANSTALKD_SCHEME;

/// After so long a job whose connection has not deleted it is handed on.
const LEASE_S: u64 = 60;

/// An id and a payload.
pub type Reserved = (u64, String);

pub struct Connection {
    answers: Answers,
    write: OwnedWriteHalf,
}

impl Connection {
    /// One that pushes into a tube and reserves from it alone.
    pub async fn open(url: &str, tube: &str) -> Result<Self> {
        let path = url
            .strip_prefix(BEANSTALKD_SCHEME)
            .ok_or("not of beanstalkd")?;
        let (read, write) = UnixStream::connect(path).await?.into_split();
        let mut opened = Self {
            answers: Answers(BufReader::new(read)),
            write,
        };
        let call = format!("use {tube}\r\nwatch {tube}\r\nignore default\r\n");
        opened.write.write_all(call.as_bytes()).await?;
        for expected in ["USING ", "WATCHING ", "WATCHING "] {
            opened.answers.expect(expected).await?;
        }
        Ok(opened)
    }

    pub async fn put(&mut self, delay_s: u64, payloads: &[String]) -> Result {
        let mut call = String::new();
        for payload in payloads {
            let bytes = payload.len();
            write!(call, "put 0 {delay_s} {LEASE_S} {bytes}\r\n{payload}\r\n")?;
        }
        // At the same time, as the server stops reading while its answers are not read.
        let answers = async {
            for _ in payloads {
                self.answers.expect("INSERTED ").await?;
            }
            Ok(())
        };
        let written = async { Ok(self.write.write_all(call.as_bytes()).await?) };
        tokio::try_join!(written, answers).map(|_| ())
    }

    /// Deletes jobs and reserves up to `limit` more: waits for the first one, for no other.
    pub async fn delete_and_reserve(
        &mut self,
        handled: &[u64],
        limit: usize,
    ) -> Result<Vec<Reserved>> {
        let mut call = String::new();
        for id in handled {
            write!(call, "delete {id}\r\n")?;
        }
        call.push_str("reserve\r\n");
        call.push_str(&"reserve-with-timeout 0\r\n".repeat(limit - 1));
        self.write.write_all(call.as_bytes()).await?;
        for _ in handled {
            self.answers.expect("DELETED").await?;
        }
        let mut jobs = Vec::with_capacity(limit);
        for _ in 0..limit {
            jobs.extend(self.answers.reserved().await?);
        }
        Ok(jobs)
    }

    /// How many jobs of a tube are not deleted.
    pub async fn jobs(&mut self, tube: &str) -> Result<usize> {
        let call = format!("stats-tube {tube}\r\n");
        self.write.write_all(call.as_bytes()).await?;
        let bytes = self.answers.expect("OK ").await?.parse()?;
        let report = self.answers.body(bytes).await?;
        let counts = report.lines().filter_map(|line| line.split_once(": "));
        let current = counts.filter(|(name, _)| {
            let kinds = ["ready", "reserved", "delayed", "buried"];
            let kind = name.strip_prefix("current-jobs-");
            kind.is_some_and(|kind| kinds.contains(&kind))
        });
        current.map(|(_, count)| Ok(count.parse::<usize>()?)).sum()
    }
}

struct Answers(BufReader<OwnedReadHalf>);

impl Answers {
    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    /// The rest of an answer that begins as it should.
    async fn expect(&mut self, begin: &str) -> Result<String> {
        let line = self.line().await?;
        let rest = line.strip_prefix(begin);
        let rest = rest.ok_or_else(|| format!("beanstalkd says {line:?}"))?;
        Ok(rest.to_owned())
    }

    async fn body(&mut self, bytes: usize) -> Result<String> {
        let mut body = vec![0; bytes + 2];
        self.0.read_exact(&mut body).await?;
        body.truncate(bytes);
        Ok(String::from_utf8(body)?)
    }

    async fn reserved(&mut self) -> Result<Option<Reserved>> {
        let line = self.line().await?;
        if line == "TIMED_OUT" {
            return Ok(None);
        }
        let rest = line.strip_prefix("RESERVED ");
        let (id, bytes) = rest
            .and_then(|rest| rest.split_once(' '))
            .ok_or_else(|| format!("beanstalkd says {line:?}"))?;
        let (id, bytes) = (id.parse()?, bytes.parse()?);
        Ok(Some((id, self.body(bytes).await?)))
    }
}
