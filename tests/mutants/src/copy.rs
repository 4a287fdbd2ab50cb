//! A copy of the project, in which mutants are planted and taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::plant::{self, Changed, Edit, Tree};

/// The files of the project as they are in the work tree, in a folder of their own.
pub struct Copy {
    folder: PathBuf,
    pub target: PathBuf,
    /// Where `tests/run.sh` puts newer servers.
    pub servers: PathBuf,
}

/// Edits that are made; taken back with its end.
pub struct Planted<'a> {
    copy: &'a Copy,
    before: BTreeMap<PathBuf, String>,
}

impl Copy {
    /// Brings the copy up to date, writing only what differs, so that little is built again.
    pub fn of_the_project() -> Result<Self, String> {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let project = project.canonicalize().map_err(|error| error.to_string())?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| project.join("target"));
        let scratch = target.join("mutants");
        let copy = Self {
            servers: target.clone(),
            folder: scratch.join("tree"),
            target: scratch.join("target"),
        };
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(&project)
            .output()
            .map_err(|error| format!("git cannot be asked for the files: {error}"))?;
        let listed = String::from_utf8(listed.stdout).map_err(|error| error.to_string())?;
        let files: BTreeSet<&str> = listed.split_terminator('\0').collect();
        for file in &files {
            copy.bring(&project, file)
                .map_err(|error| format!("{file}: {error}"))?;
        }
        copy.tidy(&copy.folder, &files)
            .map_err(|error| error.to_string())?;
        Ok(copy)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies a file if it is another one; one that was deleted and is still listed is passed over.
    fn bring(&self, project: &Path, file: &str) -> std::io::Result<()> {
        let (from, to) = (project.join(file), self.folder.join(file));
        if !from.is_file() {
            return Ok(());
        }
        if fs::read(&from)? == fs::read(&to).unwrap_or_default() && to.is_file() {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from, to).map(drop)
    }

    /// Removes what is not in the project any more.
    fn tidy(&self, folder: &Path, files: &BTreeSet<&str>) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(&self.folder).unwrap_or(&path);
            if path.is_dir() {
                self.tidy(&path, files)?;
            } else if !name.to_str().is_some_and(|name| files.contains(name)) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    pub fn plant(&self, edits: &[Edit]) -> Result<Planted<'_>, String> {
        self.write(plant::planted(edits, &self.tree()?)?)
    }

    pub fn tree(&self) -> Result<Tree, String> {
        Tree::read(&self.folder)
    }

    pub fn write(&self, all: Vec<Changed>) -> Result<Planted<'_>, String> {
        let mut planted = Planted {
            copy: self,
            before: BTreeMap::new(),
        };
        for changed in all {
            let path = self.folder.join(&changed.path);
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            fs::write(&path, changed.text).map_err(|error| error.to_string())?;
            planted.before.insert(changed.path, text);
        }
        Ok(planted)
    }
}

impl Drop for Planted<'_> {
    fn drop(&mut self) {
        for (file, text) in &self.before {
            // What is left behind here is put right when the copy is brought up to date.
            let _ = fs::write(self.copy.folder.join(file), text);
        }
    }
}
