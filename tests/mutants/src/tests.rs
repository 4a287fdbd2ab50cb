//! Builds and runs tests of the copy, within time limits.

use std::process::Command;
use std::time::Duration;

use crate::copy::Copy;
use crate::is_of;
use crate::watched::Ran;

const BUILD_MAX: Duration = Duration::from_secs(900);
/// The slowest of the suites takes a minute, and some on a busy machine; what is not over by then
/// hangs.
const RUN_MAX: Duration = Duration::from_secs(600);

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
    /// It ended badly before it said which test failed.
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
            ([one, others @ ..], _) => format!("{one} and {} more", others.len()),
        }
    }
}

impl<'a> Tests<'a> {
    pub fn of(copy: &'a Copy) -> Self {
        Self { copy }
    }

    /// Runs the tests of these names of a target, or all of it.
    pub fn run(&self, target: &str, names: &[&str]) -> Result<Verdict, String> {
        let built = self.cargo(target, BUILD_MAX, &["--no-run"])?;
        if !built.success {
            return Ok(Verdict::DoesNotCompile(built.text));
        }
        // The tests of a folder that shares its program with others are in a module of its name.
        let within = match self.program(target) {
            Some(_) => format!("{target}::"),
            None => String::new(),
        };
        let filters = match (names, within.as_str()) {
            ([], "") => &[][..],
            ([], within) => &[within],
            (names, _) => names,
        };
        let ran = self.cargo(target, RUN_MAX, &[&["--"], filters].concat())?;
        let mut outcome = Outcome {
            hung: ran.hung,
            ..Outcome::default()
        };
        let asked = |name: &str| {
            name.starts_with(&within)
                && (names.is_empty() || names.iter().any(|asked| is_of(name, asked)))
        };
        for line in ran.text.lines() {
            let line = line
                .strip_prefix("test ")
                .and_then(|line| line.split_once(" ... "));
            match line.filter(|(name, _)| asked(name)) {
                Some((name, "ok")) => outcome.passed.push(name.to_owned()),
                Some((name, "FAILED")) => outcome.failed.push(name.to_owned()),
                _ => {}
            }
        }
        let passed = |asked: &&str| outcome.passed.iter().any(|name| is_of(name, asked));
        let is_well = ran.success || (!names.is_empty() && names.iter().all(passed));
        outcome.died = !ran.hung && !is_well && outcome.failed.is_empty();
        Ok(Verdict::Ended(outcome))
    }

    /// The program that a folder of tests is a module of, unless it is one by itself.
    fn program(&self, folder: &str) -> Option<String> {
        let line = format!("mod {folder};");
        let files = std::fs::read_dir(self.copy.folder().join("tests")).ok()?;
        let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
        let path = paths.find(|path| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().any(|is| is == line)
        })?;
        Some(path.file_stem()?.to_str()?.to_owned())
    }

    fn cargo(&self, target: &str, limit: Duration, more: &[&str]) -> Result<Ran, String> {
        let mut cargo = Command::new("cargo");
        cargo
            .arg("test")
            .env("CARGO_TARGET_DIR", &self.copy.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_TERM_COLOR", "never")
            .env("RUST_BACKTRACE", "0")
            .current_dir(self.copy.folder());
        let package = format!("tests/{target}/Cargo.toml");
        let of_duly = ["--package", "duly", "--all-features"];
        match target {
            // A package of its own.
            _ if self.copy.folder().join(&package).is_file() => {
                cargo.args(["--manifest-path", &package])
            }
            "lib" => cargo.args(of_duly).arg("--lib"),
            "server" => cargo.args(["--package", "duly-server", "--test", "server"]),
            "outbox" => cargo.args([
                "--package",
                "duly-outbox",
                "--all-features",
                "--test",
                "outbox",
            ]),
            "pages" => cargo.args(["--package", "duly-dashboard", "--test", "pages"]),
            target => {
                let program = self.program(target);
                cargo
                    .args(of_duly)
                    .arg("--test")
                    .arg(program.as_deref().unwrap_or(target))
            }
        };
        Ran::of(cargo.args(more), limit)
    }
}
