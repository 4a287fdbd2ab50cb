//! The private servers that contenders run on, each in a directory of its own.

mod gauge;
mod programs;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

pub use self::gauge::Gauge;
pub use self::programs::{Needs, Programs};
use crate::Result;

/// A scheme of our own, as nobody has named one: the path of a socket follows it.
pub const BEANSTALKD_SCHEME: &str = "beanstalkd+unix://";

/// Runs until it is dropped, in a directory that goes with it.
pub struct Server {
    child: Child,
    directory: TempDir,
    needs: Needs,
}

impl Server {
    /// Starts one that listens on a socket in its directory and nowhere else.
    pub fn start(needs: Needs, programs: &Programs, aof: bool) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = match needs {
            Needs::Redis { .. } => redis(programs, &directory, aof),
            Needs::Beanstalkd => beanstalkd(&directory, aof),
        };
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self {
            child: child.map_err(|error| format!("{needs} does not start: {error}"))?,
            directory,
            needs,
        };
        for _ in 0..500 {
            let gauge = Gauge::new(&server.url());
            if gauge.is_ok_and(|mut gauge| gauge.cpu_us().is_ok()) {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("{needs} was started and does not answer within 5 s").into())
    }

    pub fn url(&self) -> String {
        let scheme = match self.needs {
            Needs::Redis { .. } => "redis+unix://",
            Needs::Beanstalkd => BEANSTALKD_SCHEME,
        };
        format!("{scheme}{}", socket(&self.directory))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Needs::Redis { .. } = self.needs {
            // What was started may be a script, which would leave its server behind.
            let connection = redis::Client::open(self.url()).and_then(|it| it.get_connection());
            if let Ok(mut connection) = connection {
                // The answer is that the connection ends, which is an error.
                let _: redis::RedisResult<()> =
                    redis::cmd("SHUTDOWN").arg("NOSAVE").query(&mut connection);
            }
        }
        // It may have ended by itself, and then there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket(directory: &TempDir) -> String {
    directory.path().join("socket").display().to_string()
}

fn redis(programs: &Programs, directory: &TempDir, aof: bool) -> Command {
    let mut command = Command::new(&programs.redis);
    command.args(["--port", "0", "--unixsocket", &socket(directory)]);
    command.arg("--dir").arg(directory.path());
    command.args(["--save", "", "--maxmemory-policy", "noeviction"]);
    command.args(["--appendonly", if aof { "yes" } else { "no" }]);
    command.args(["--appendfsync", "everysec"]);
    command
}

fn beanstalkd(directory: &TempDir, aof: bool) -> Command {
    let mut command = Command::new(programs::BEANSTALKD);
    command.args(["-l", &format!("unix:{}", socket(directory))]);
    if aof {
        command.arg("-b").arg(directory.path()).args(["-f", "1000"]);
    }
    command
}
