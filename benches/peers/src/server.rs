//! A private redis-server, and its statistics.

use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::Connection;
use tempfile::TempDir;

use crate::Result;

/// Runs until it is dropped, in a directory that goes with it.
pub struct Server {
    child: Child,
    directory: TempDir,
}

impl Server {
    /// Starts one that listens on a socket in its directory and nowhere else.
    pub fn start(aof: bool) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new("redis-server");
        command.arg("--port").arg("0").arg("--unixsocket");
        command.arg(directory.path().join("redis.sock"));
        command.arg("--dir").arg(directory.path());
        command.args(["--save", "", "--maxmemory-policy", "noeviction"]);
        command.args(["--appendonly", if aof { "yes" } else { "no" }]);
        command.args(["--appendfsync", "everysec"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => "redis-server is not installed, or not in PATH".to_owned(),
            _ => format!("redis-server does not start: {error}"),
        })?;
        let server = Self { child, directory };
        let client = redis::Client::open(server.url())?;
        for _ in 0..500 {
            if let Ok(mut connection) = client.get_connection() {
                let answer: redis::RedisResult<String> = redis::cmd("PING").query(&mut connection);
                if answer.is_ok() {
                    return Ok(server);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("redis-server was started and does not answer within 5 s".into())
    }

    pub fn url(&self) -> String {
        let socket = self.directory.path().join("redis.sock");
        format!("redis+unix://{}", socket.display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a server how it is.
pub struct Gauge(Connection);

impl Gauge {
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self(redis::Client::open(url)?.get_connection()?))
    }

    /// Processor time that the server has used, in microseconds.
    pub fn cpu_us(&mut self) -> Result<f64> {
        let info = self.info("cpu")?;
        let seconds = field(&info, "used_cpu_sys")? + field(&info, "used_cpu_user")?;
        Ok(seconds * 1e6)
    }

    /// Bytes that its data and its clients use.
    pub fn bytes(&mut self) -> Result<f64> {
        field(&self.info("memory")?, "used_memory")
    }

    /// Commands that it has processed, those of scripts too.
    pub fn commands(&mut self) -> Result<f64> {
        field(&self.info("stats")?, "total_commands_processed")
    }

    fn info(&mut self, section: &str) -> Result<String> {
        Ok(redis::cmd("INFO").arg(section).query(&mut self.0)?)
    }
}

fn field(info: &str, name: &str) -> Result<f64> {
    let mut values = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = values
        .find(|(key, _)| *key == name)
        .ok_or_else(|| format!("INFO does not tell {name}"))?;
    Ok(value.trim().parse()?)
}
