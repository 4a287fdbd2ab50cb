//! Builds test programs of the copy, and runs tests of them, within time limits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::copy::Copy;
use crate::is_of;
use crate::plant::variants::SWITCH;
use crate::watched::Ran;

const BUILD_MAX: Duration = Duration::from_secs(1_800);
/// The slowest of the suites takes a minute, and some on a busy machine; what is not over by then
/// hangs.
pub const RUN_MAX: Duration = Duration::from_secs(600);

/// The variables that say to the tests where newer servers are, and their files.
const SERVERS: [(&str, &str); 2] = [
    ("DULY_NEWEST_REDIS", "newest-redis"),
    ("DULY_REDIS_8", "redis-8"),
];

/// What the program of the tests within a package's source is called here.
const LIB: &str = "lib";

pub struct Tests<'a> {
    copy: &'a Copy,
}

/// The test programs of some targets.
pub struct Built {
    programs: BTreeMap<String, Program>,
    servers: PathBuf,
}

struct Program {
    path: PathBuf,
    /// The folder of its package.
    folder: PathBuf,
    /// The module of the target in a program of several.
    within: String,
}

/// Why something was not built.
#[derive(Debug)]
pub struct NotBuilt {
    pub words: String,
    /// What the compiler's errors are about: a file, and bytes from and to.
    pub places: Vec<(PathBuf, usize, usize)>,
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

    /// Whether the test of this name was there and passed wherever it ran.
    pub fn is_green(&self, name: &str) -> bool {
        !self.is_red() && self.passed.iter().any(|test| is_of(test, name))
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

    /// Builds the programs of these targets; those of the project's workspace together, so that what
    /// they share is built once.
    pub fn build(&self, targets: &BTreeSet<&str>) -> Result<Built, NotBuilt> {
        let mut programs = BTreeMap::new();
        let mut together = BTreeSet::new();
        let mut of_artifacts = BTreeMap::<(String, String), Vec<&str>>::new();
        let mut apart = Vec::new();
        for target in targets {
            let (package, program) = self.program(target);
            let by_itself = format!("tests/{target}/Cargo.toml");
            if *target != "power" && self.copy.folder().join(&by_itself).is_file() {
                apart.push(by_itself);
            } else if program == LIB {
                together.insert("--lib".to_owned());
            } else {
                together.insert(format!("--test={program}"));
            }
            of_artifacts
                .entry((package, program))
                .or_default()
                .push(target);
        }
        let mut artifacts = Vec::new();
        if !together.is_empty() {
            let all = ["--workspace", "--all-features"].map(String::from);
            artifacts.extend(self.cargo(all.into_iter().chain(together))?);
        }
        for manifest in apart {
            artifacts.extend(self.cargo([format!("--manifest-path={manifest}")])?);
        }
        for artifact in artifacts {
            let (Some(path), Some(manifest), Some(name)) = (
                artifact["executable"].as_str(),
                artifact["manifest_path"].as_str(),
                artifact["target"]["name"].as_str(),
            ) else {
                continue;
            };
            let folder = PathBuf::from(manifest).with_file_name("");
            let package = package_of(self.copy.folder(), &folder);
            let is_lib = artifact["target"]["kind"][0] == "lib";
            let program = if is_lib { LIB } else { name }.to_owned();
            for target in of_artifacts
                .remove(&(package, program))
                .into_iter()
                .flatten()
            {
                let is_alone = matches!(target, "lib" | "power" | "loom") || target == name;
                programs.insert(
                    target.to_owned(),
                    Program {
                        path: path.into(),
                        folder: folder.clone(),
                        within: if is_alone {
                            String::new()
                        } else {
                            format!("{target}::")
                        },
                    },
                );
            }
        }
        match of_artifacts.values().flatten().next() {
            None => Ok(Built {
                programs,
                servers: self.copy.servers.clone(),
            }),
            Some(target) => Err(NotBuilt {
                words: format!("cargo says of no program that it has the tests of {target}"),
                places: Vec::new(),
            }),
        }
    }

    /// The folder of the package that has a target, and the program in it.
    fn program(&self, target: &str) -> (String, String) {
        let of = |package: &str, program: &str| (package.to_owned(), program.to_owned());
        match target {
            "lib" => of("", LIB),
            "server" => of("server", "server"),
            "outbox" => of("outbox", "outbox"),
            "pages" => of("dashboards/web", "pages"),
            "loom" | "power" => (format!("tests/{target}"), LIB.to_owned()),
            _ => (String::new(), self.program_of_folder(target)),
        }
    }

    /// The program that a folder of tests is a module of, or that it is by itself.
    fn program_of_folder(&self, folder: &str) -> String {
        let line = format!("mod {folder};");
        let files = std::fs::read_dir(self.copy.folder().join("tests"));
        let mut paths = files
            .into_iter()
            .flatten()
            .filter_map(|file| Some(file.ok()?.path()));
        let path = paths.find(|path| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().any(|is| is == line)
        });
        let name = path.as_ref().and_then(|path| path.file_stem()?.to_str());
        name.unwrap_or(folder).to_owned()
    }

    /// What `cargo` says of what it has built, in the lines of its JSON.
    fn cargo(&self, more: impl IntoIterator<Item = String>) -> Result<Vec<Value>, NotBuilt> {
        let mut cargo = Command::new("cargo");
        cargo
            .args(["test", "--no-run", "--quiet", "--message-format=json"])
            .args(more)
            .env("CARGO_TARGET_DIR", &self.copy.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_TERM_COLOR", "never")
            .current_dir(self.copy.folder());
        let ran = Ran::of(&cargo, BUILD_MAX).map_err(|words| NotBuilt {
            words,
            places: Vec::new(),
        })?;
        let lines = ran.text.lines();
        let said: Vec<Value> = lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        if ran.success {
            return Ok(said);
        }
        let errors = said.iter().map(|line| (line, &line["message"]));
        let errors: Vec<_> = errors
            .filter(|(_, said)| said["level"] == "error")
            .collect();
        let mut not_built = NotBuilt {
            words: String::new(),
            places: Vec::new(),
        };
        for (line, error) in errors {
            not_built.words += error["rendered"].as_str().unwrap_or_default();
            let manifest = line["manifest_path"].as_str().map(PathBuf::from);
            let package = manifest.map(|path| path.with_file_name(""));
            self.places(error, package.as_ref(), &mut not_built.places);
        }
        if not_built.words.is_empty() {
            not_built.words = ran.text;
        }
        Err(not_built)
    }

    /// What a message and those below it are about.
    fn places(
        &self,
        message: &Value,
        package: Option<&PathBuf>,
        places: &mut Vec<(PathBuf, usize, usize)>,
    ) {
        for span in message["spans"].as_array().into_iter().flatten() {
            let mut span = span;
            while span.is_object() {
                let bytes = [&span["byte_start"], &span["byte_end"]].map(Value::as_u64);
                let folders = [Some(self.copy.folder()), package.map(PathBuf::as_path)];
                let name = span["file_name"].as_str().unwrap_or_default();
                let mut paths = folders
                    .into_iter()
                    .flatten()
                    .map(|folder| folder.join(name));
                let path = paths.find_map(|path| path.canonicalize().ok());
                if let (Some(path), [Some(from), Some(to)]) = (path, bytes) {
                    places.push((path, from as usize, to as usize));
                }
                span = &span["expansion"]["span"]; // where the macro is called
            }
        }
        for child in message["children"].as_array().into_iter().flatten() {
            self.places(child, package, places);
        }
    }
}

impl Built {
    /// Runs the tests of these names of a target, or all of it, with a bug switched on.
    pub fn run(
        &self,
        target: &str,
        names: &[&str],
        on: &str,
        limit: Duration,
    ) -> Result<Outcome, String> {
        let program = self.programs.get(target);
        let program = program.ok_or_else(|| format!("the tests of {target} are not built"))?;
        let within = program.within.as_str();
        let all = [within];
        let mut command = Command::new(&program.path);
        command
            .args(if names.is_empty() { &all } else { names })
            .env(SWITCH, on)
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .env("RUST_BACKTRACE", "0")
            .current_dir(&program.folder);
        for (variable, file) in SERVERS {
            if std::env::var_os(variable).is_none() {
                command.env(variable, self.servers.join(file));
            }
        }
        let ran = Ran::of(&command, limit)?;
        let mut outcome = Outcome {
            hung: ran.hung,
            ..Outcome::default()
        };
        let asked = |name: &str| {
            name.starts_with(within)
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
        Ok(outcome)
    }
}

/// The folder of a package within the project.
fn package_of(project: &std::path::Path, folder: &std::path::Path) -> String {
    let project = project
        .canonicalize()
        .unwrap_or_else(|_| project.to_owned());
    let within = folder.strip_prefix(&project).unwrap_or(folder);
    within
        .to_str()
        .unwrap_or_default()
        .trim_end_matches('/')
        .to_owned()
}
