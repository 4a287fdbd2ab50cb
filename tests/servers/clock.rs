//! The wall clock of a server, which a test sets: a library that is preloaded (`clock.c`).
//!
//! Why not libfaketime: it allocates when it is first asked for the time, and the allocator of Redis
//! asks for the time.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU64, Ordering};

/// The clock of one server. Its monotonic clock is the machine's.
pub(crate) struct WallClock {
    folder: PathBuf,
    ahead: File,
}

impl WallClock {
    /// Shows the right time.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("duly-clock-{}-{number}", process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let source = folder.join("clock.c");
        fs::write(&source, include_str!("clock.c")).expect("a file");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(folder.join("clock.so"))
            .arg(source)
            .status();
        assert!(compiled.expect("a C compiler").success(), "it compiles");
        let path = folder.join("ahead");
        let ahead = File::create(path).expect("a file");
        let clock = Self { folder, ahead };
        clock.set(0.0);
        clock
    }

    /// The words before a server's that give it this clock.
    pub(crate) fn words(&self) -> Vec<String> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        vec![
            "env".to_owned(),
            format!("LD_PRELOAD={}", path("clock.so")),
            format!("CLOCK_AHEAD={}", path("ahead")),
        ]
    }

    /// Sets it so many seconds ahead of the right time.
    #[allow(clippy::cast_possible_truncation)] // far below
    pub(crate) fn set(&self, ahead_s: f64) {
        let ahead_us = (ahead_s * 1e6) as i64;
        let bytes = ahead_us.to_ne_bytes();
        self.ahead.write_all_at(&bytes, 0).expect("it is written");
    }
}

impl Drop for WallClock {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}
