//! Loading of settings: the file, and the environment over it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::environment::{self, KnownNames};
use crate::config::file;
use crate::config::settings::Settings;
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::flow::annotations;

impl Settings {
    /// Reads the settings file, if there is one, and then the environment of this process.
    ///
    /// See [above](crate::config#the-file) for where the file is found.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): two settings files, a missing file in
    /// `DULY_CONFIG`, and the errors of [`from_file`](Self::from_file) and
    /// [`with_environment`](Self::with_environment).
    pub fn load() -> Result<Self> {
        Self::load_for([])
    }

    /// Like [`load`](Self::load), for a program that has these queues besides those of annotated
    /// handlers, so that variables may [spell](crate::config#the-environment) them too.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_for(queues: impl IntoIterator<Item = QueueName>) -> Result<Self> {
        Self::layered(Path::new(""), env::vars_os(), queues)
    }

    /// Like [`load`](Self::load), with the given directory and variables.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::config::Settings;
    ///
    /// let empty = std::env::temp_dir().join("a directory without settings");
    /// let settings = Settings::load_from(empty, [("DULY__STORE__URL", "memory:")])?;
    /// assert_eq!(settings.store_url.as_deref(), Some("memory:"));
    /// # Ok::<(), duly::Error>(())
    /// ```
    pub fn load_from<N: Into<OsString>, V: Into<OsString>>(
        directory: impl AsRef<Path>,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self::layered(directory.as_ref(), variables, [])
    }

    /// Reads the file and applies the variables over it.
    fn layered(
        directory: &Path,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        queues: impl IntoIterator<Item = QueueName>,
    ) -> Result<Self> {
        let variables: Vec<_> = variables.into_iter().collect();
        let named = variables.iter().find(|(name, _)| name == environment::FILE);
        let settings = match named {
            Some((_, path)) if path.is_empty() => {
                return Err(Error::invalid(
                    "DULY_CONFIG is empty; set it to a settings file or unset it",
                ));
            }
            // An absolute path replaces the directory.
            Some((_, path)) => Self::from_file(directory.join(PathBuf::from(path)))?,
            None => match file::find(directory)? {
                Some(path) => Self::from_file(path)?,
                None => Self::default(),
            },
        };
        settings.overlaid(variables, queues)
    }

    /// Reads a TOML file, whose name must end in `.toml`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) and the file's path: it is missing,
    /// unreadable, larger than 1 MiB, of another extension, or rejected by
    /// [`from_toml`](Self::from_toml).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        file::parse(&file::read(path)?, &path.display().to_string())
    }

    /// Parses settings from the text of a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): invalid TOML, with the line; or unknown
    /// keys and invalid values, up to ten of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::config::Settings;
    ///
    /// let error = Settings::from_toml("queue_defaults.worker = 8").unwrap_err();
    /// assert!(error.to_string().starts_with(
    ///     "settings: unknown key queue_defaults.worker, did you mean queue_defaults.workers?"
    /// ));
    /// ```
    pub fn from_toml(text: &str) -> Result<Self> {
        file::parse(text, "settings")
    }

    /// Applies `variables` over these settings; names that are no setting's are ignored.
    ///
    /// See [above](crate::config#the-environment) for how a name becomes a key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) and the variable's name: its key is
    /// unknown, its value is invalid, its queue is ambiguous, or two variables mean the same key.
    pub fn with_environment<N: Into<OsString>, V: Into<OsString>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.overlaid(variables, [])
    }

    /// Applies the variables over these settings; they may spell any of `queues` as well.
    fn overlaid(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        queues: impl IntoIterator<Item = QueueName>,
    ) -> Result<Self> {
        let queues = self.queues.keys().cloned().chain(queues);
        let mut known = KnownNames {
            queues: queues.map(|queue| queue.to_string()).collect(),
            calendars: self.calendars.keys().cloned().collect(),
            schedules: self.schedules.keys().cloned().collect(),
        };
        let mut names = |names: Option<&str>| {
            let names = names.unwrap_or_default().split_whitespace();
            known.calendars.extend(names.map(str::to_owned));
        };
        for schedule in self.schedules.values() {
            names(schedule.exclude.as_deref());
            names(schedule.only.as_deref());
        }
        for annotation in annotations() {
            known.queues.insert(annotation.queue.to_owned());
            if let Some(schedule) = annotation.schedule {
                names(schedule.exclude);
                names(schedule.only);
            }
        }
        environment::apply(&mut self, variables, &known)?;
        Ok(self)
    }
}
