//! Commands that end in time, and with this process at the latest.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a command ended, and what it said.
pub struct Ran {
    pub text: String,
    pub success: bool,
    /// It was ended, as it did not end in time.
    pub hung: bool,
}

/// Runs a command in a process group of its own, with somebody beside it who ends the whole group
/// when its own standard input ends: when this process says so, or is gone.
const WATCHED: &str = "exec 3<&0
(read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 &
exec \"$@\" </dev/null 3<&-";

impl Ran {
    pub fn of(command: &Command, limit: Duration) -> Result<Self, String> {
        let began = Instant::now();
        let mut watched = Command::new("sh");
        watched
            .args(["-c", WATCHED, "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            watched.env(name, value.unwrap_or_default());
        }
        if let Some(folder) = command.get_current_dir() {
            watched.current_dir(folder);
        }
        let mut child = watched
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cargo does not start: {error}"))?;
        let mut alive = child.stdin.take();
        let out = child.stdout.take().map(reading);
        let err = child.stderr.take().map(reading);
        let (mut hung, mut status) = (false, None);
        while status.is_none() {
            std::thread::sleep(Duration::from_millis(20));
            status = child.try_wait().map_err(|error| error.to_string())?;
            if alive.is_some() && began.elapsed() > limit {
                hung = true;
                drop(alive.take());
            }
        }
        drop(alive);
        let texts = [out, err].into_iter().flatten();
        let text = texts.filter_map(|text| text.join().ok()).collect();
        Ok(Self {
            text,
            success: status.is_some_and(|status| status.success()),
            hung,
        })
    }
}

fn reading(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
