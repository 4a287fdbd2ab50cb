//! Builds and runs tests of the copy, within time limits.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::copy::Copy;
use crate::is_of;

const BUILD_MAX: Duration = Duration::from_secs(900);
/// The slowest of the suites takes half a minute; what is not over by then hangs.
const RUN_MAX: Duration = Duration::from_secs(180);

pub struct Tests<'a> {
    copy: &'a Copy,
}

pub enum Verdict {
    DoesNotCompile(String),
    Ended(Outcome),
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub passed: Vec<String>,
    pub failed: Vec<String>,
    /// It did not end in time.
    pub hung: bool,
    /// It ended badly, whatever it said of its tests.
    died: bool,
}

impl Outcome {
    pub fn is_red(&self) -> bool {
        self.hung || self.died || !self.failed.is_empty()
    }

    /// What went red, in words; for whatever hung or took its process along, the name asked for.
    pub fn red(&self, asked: &str) -> String {
        match (self.failed.as_slice(), self.hung) {
            ([], true) => format!("{asked}, which hung"),
            ([], false) => format!("{asked}, whose process died"),
            ([one], _) => one.clone(),
            ([one, others @ ..], _) => format!("{one} and {} others", others.len()),
        }
    }
}

impl<'a> Tests<'a> {
    pub fn of(copy: &'a Copy) -> Self {
        Self { copy }
    }

    /// Runs the tests of these names of a target, or all of it.
    pub fn run(&self, target: &str, names: &[&str]) -> Result<Verdict, String> {
        let built = self.cargo(target, BUILD_MAX, |cargo| cargo.arg("--no-run"))?;
        if !built.success {
            return Ok(Verdict::DoesNotCompile(built.text));
        }
        let ran = self.cargo(target, RUN_MAX, |cargo| cargo.arg("--").args(names))?;
        let mut outcome = Outcome {
            hung: ran.hung,
            ..Outcome::default()
        };
        for line in ran.text.lines() {
            let Some((name, end)) = line
                .strip_prefix("test ")
                .and_then(|line| line.split_once(" ... "))
            else {
                continue;
            };
            if !names.is_empty() && !names.iter().any(|asked| is_of(name, asked)) {
                continue;
            }
            match end {
                "ok" => outcome.passed.push(name.to_owned()),
                "FAILED" => outcome.failed.push(name.to_owned()),
                _ => {}
            }
        }
        let said = ran.text.contains("test result: FAILED");
        outcome.died = !ran.hung && !ran.success && !said;
        Ok(Verdict::Ended(outcome))
    }

    fn cargo(
        &self,
        target: &str,
        limit: Duration,
        more: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Ran, String> {
        let mut cargo = Command::new("cargo");
        cargo
            .args(["test", "--package", "duly", "--features", "testing"])
            .env("CARGO_TARGET_DIR", &self.copy.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_TERM_COLOR", "never")
            .env("RUST_BACKTRACE", "0")
            .current_dir(self.copy.folder());
        match target {
            "lib" => cargo.arg("--lib"),
            target => cargo.args(["--test", target]),
        };
        Ran::of(more(&mut cargo), limit)
    }
}

struct Ran {
    text: String,
    success: bool,
    hung: bool,
}

impl Ran {
    fn of(command: &mut Command, limit: Duration) -> Result<Self, String> {
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cargo does not start: {error}"))?;
        let group = format!("-{}", child.id());
        let out = child.stdout.take().map(reading);
        let err = child.stderr.take().map(reading);
        let (mut hung, mut status) = (false, None);
        while status.is_none() {
            status = child.try_wait().map_err(|error| error.to_string())?;
            if !hung && began.elapsed() > limit {
                hung = true;
                // The whole group: a test has children of its own.
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
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
