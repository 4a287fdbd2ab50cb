//! What cargo has built beside the test that runs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs};

/// The library that this test is linked with: the newest one beside it that is no younger.
///
/// A test is linked after its library, so that one has no older sources; a build with other
/// features, which came later, leaves a younger one.
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let linked = modified(&test).expect("a test has a time");
    fs::read_dir(test.with_file_name(""))
        .expect("tests lie in a folder")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("libduly-") && name.ends_with(".rlib"))
        })
        .filter_map(|path| Some((modified(&path)?, path)))
        .filter(|(time, _)| *time <= linked)
        .max()
        .expect("a test is linked with a library")
        .1
}

/// When a file was last written, if there is such a file.
pub(crate) fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}
