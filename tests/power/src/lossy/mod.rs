//! A disk that can be cut off, made by FUSE: what was synced is there afterwards, and nothing else
//! has to be.
//!
//! The disk is kept in memory, in two images. A process writes into the live one; a sync copies
//! what it is asked for into the durable one; a cut makes the live one anew from the durable one.
//! The process that serves the disk never touches its mount: it would wait for itself.

mod fault;
mod image;
mod serve;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{BackgroundSession, Config, MountOption};

pub(crate) use self::fault::{Cut, Faults, Lasts, Seen};
use self::fault::{Fate, Request};
pub(crate) use self::image::Names;
use self::image::{Image, Node, ROOT};
use self::serve::Server;

/// A file that is not on the disk: it says how many requests have failed, and how many of them with
/// something in doubt since.
pub(crate) const ERRORS: &str = ".errors";

/// A disk. It outlives its mounts, as a disk outlives the machine's runs.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    image: Image,
    faults: Faults,
    seen: Seen,
    /// Folders that once could not be synced, and how many namings there were then.
    doubtful: Vec<(u64, u64)>,
    /// The power is gone: nothing is answered until it is mounted anew.
    off: bool,
}

impl Disk {
    pub(crate) fn new(names: Names) -> Self {
        Self(Arc::new(Mutex::new(State {
            image: Image::new(names),
            faults: Faults::default(),
            seen: Seen::default(),
            doubtful: Vec::new(),
            off: false,
        })))
    }

    /// Mounts the disk in a folder of its own, with these faults; whatever was lost is lost.
    ///
    /// # Panics
    ///
    /// When this machine has no FUSE or this process may not mount; the message says what to do.
    pub(crate) fn mount(&self, faults: Faults) -> Mount {
        let mut state = self.lock();
        state.faults = faults;
        state.seen = Seen::default();
        state.doubtful.clear();
        state.off = false;
        drop(state);
        let folder = tempfile::tempdir().expect("a folder to mount in");
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("duly-power".to_owned())];
        let session = fuser::spawn_mount(Server::new(self.clone()), folder.path(), &config);
        let session = session.unwrap_or_else(|error| panic!("{}", cannot_mount(&error)));
        Mount {
            session: Some(session),
            folder: Some(folder),
        }
    }

    /// Another disk that holds the same, live and durable.
    pub(crate) fn twin(&self) -> Self {
        let state = self.lock();
        Self(Arc::new(Mutex::new(State {
            image: state.image.clone(),
            faults: Faults::default(),
            seen: Seen::default(),
            doubtful: Vec::new(),
            off: state.off,
        })))
    }

    /// The power goes now.
    pub(crate) fn cut(&self, tear: Option<fastrand::Rng>) {
        self.lock().cut(tear);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.lock().off
    }

    pub(crate) fn seen(&self) -> Seen {
        self.lock().seen
    }

    /// How many requests have failed, with something in doubt since.
    pub(crate) fn errors(&self) -> u64 {
        self.lock().errors()
    }

    /// Writes the live image into `folder`.
    pub(crate) fn export(&self, folder: &Path) {
        fn write(image: &Image, number: u64, to: &Path) {
            match image.node(number) {
                Some(Node::File(file)) => fs::write(to, &file.live).expect("a copy"),
                Some(Node::Folder(folder)) => {
                    fs::create_dir_all(to).expect("a folder");
                    for (name, number) in &folder.live {
                        write(image, *number, &to.join(name));
                    }
                }
                None => {}
            }
        }
        write(&self.lock().image, ROOT, folder);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A folder whose sync failed is in no doubt once a later one succeeded: of names, unlike bytes,
    /// nothing is forgotten by a sync that failed. SQLite relies on that.
    fn errors(&self) -> u64 {
        let names = self.doubtful.iter();
        let names = names.filter(|(folder, named)| self.image.has_unsynced_names(*folder, *named));
        self.seen.errors + names.count() as u64
    }

    fn cut(&mut self, tear: Option<fastrand::Rng>) {
        if !self.off {
            self.image.lose(tear);
            self.off = true;
        }
    }

    /// Whether a request that changes the disk may be done; else it is answered with an error.
    fn may(&mut self, request: Request) -> bool {
        if self.off {
            return false;
        }
        match self.faults.decide(request, &mut self.seen) {
            Fate::Done => true,
            Fate::Failed => false,
            Fate::Cut => {
                let tear = self.faults.cut.take().and_then(|cut| cut.tear);
                self.cut(tear);
                false
            }
        }
    }
}

/// A disk that is mounted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Mount {
    session: Option<BackgroundSession>,
    folder: Option<tempfile::TempDir>,
}

impl Mount {
    pub(crate) fn path(&self) -> PathBuf {
        let folder = self.folder.as_ref().expect("it is there until the end");
        folder.path().to_owned()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let ended = self.session.take().map(BackgroundSession::umount_and_join);
        if let Some(Err(error)) = ended {
            // What is still mounted must not be looked into, not even to remove it.
            let folder = self.folder.take().map(tempfile::TempDir::keep);
            eprintln!("{folder:?} could not be unmounted: {error}");
        }
    }
}

fn cannot_mount(error: &std::io::Error) -> String {
    let missing = if Path::new("/dev/fuse").exists() {
        "this process may not mount. As root it needs CAP_SYS_ADMIN (in a container: \
         `--device /dev/fuse --cap-add SYS_ADMIN`); as another user it needs the program \
         fusermount3 (Debian: `apt-get install fuse3`) and the right to open /dev/fuse"
    } else {
        "there is no /dev/fuse. Load the module (`modprobe fuse`), or give it to the container: \
         `--device /dev/fuse --cap-add SYS_ADMIN`"
    };
    format!("the disk of this test could not be mounted ({error}): {missing}")
}
