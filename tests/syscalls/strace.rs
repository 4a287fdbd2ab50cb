//! A child under `strace`: which calls it makes on which files, and what happens at one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::syscalls::child;

/// Every call that can change a file, a folder or a lock on one. A `?` is for those that some
/// machines do not have.
const CHANGING: &str = "?open,openat,?openat2,?creat,write,pwrite64,writev,pwritev,?pwritev2,fsync,\
                        fdatasync,?sync_file_range,ftruncate,?truncate,fallocate,?rename,renameat,\
                        ?renameat2,?link,linkat,?symlink,symlinkat,?unlink,unlinkat,?mkdir,mkdirat,\
                        ?rmdir,?chmod,fchmod,fchmodat,?chown,?lchown,fchown,fchownat,?utimensat,\
                        flock,copy_file_range,sendfile,splice,mmap,msync,fsetxattr,setxattr";

/// Stands for every file, and none.
pub(crate) const ANY: &str = "*";
const SEEN: &str = "seen";
/// How long a child may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The n-th time that a thread makes a call on a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Point {
    /// The path within the folder of the child; [`ANY`] where it does not matter.
    pub(crate) file: String,
    pub(crate) call: String,
    /// From 1.
    pub(crate) nth: usize,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.call, self.nth)
    }
}

/// What happens at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// The process dies by a `SIGKILL` before the call is made.
    Kill,
    /// The same, after which a part of what it was to write is written.
    Cut,
    /// This call is not made and answers this error.
    Fail(&'static str),
    /// Neither this call nor any later one of its kind on this file is made.
    FailOn(&'static str),
}

/// One call of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) thread: u32,
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: String,
}

/// How a child ended, and what was seen of it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) was_killed: bool,
    /// What `strace` saw.
    text: String,
}

impl Run {
    /// Whether the deed was done, when that was an error.
    pub(crate) fn was_hit(&self) -> bool {
        self.text.contains("(INJECTED)")
    }

    /// Writes a part of what the call was to write at which the process was killed.
    pub(crate) fn write_a_part(&self, folder: &Path, point: &Point) {
        let begin = format!(" {}(", point.call);
        let last = self.text.lines().rfind(|line| line.contains(&begin));
        let args = last.expect("the call that was not made").splitn(3, '"');
        let [_, bytes, rest] = args.collect::<Vec<_>>()[..] else {
            panic!("a call that writes: {last:?}");
        };
        let bytes = bytes.split("\\x").skip(1);
        let bytes: Vec<u8> = bytes
            .map(|byte| u8::from_str_radix(byte, 16).expect("two digits"))
            .collect();
        let part = &bytes[..bytes.len() / (2 + point.nth % 3)];
        let mut options = File::options();
        let file = options.write(true).append(point.call == "write");
        let mut file = file.open(folder.join(&point.file)).expect("a file");
        if point.call == "pwrite64" {
            // The length, and then the offset.
            let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
            let offset = numbers.rfind(|number| !number.is_empty());
            let offset = offset.expect("an offset").parse().expect("a number");
            file.seek(SeekFrom::Start(offset)).expect("a place");
        }
        file.write_all(part).expect("it is written");
    }
}

/// Runs a child in a folder and looks at every call that can change a file of it.
pub(crate) fn watch(folder: &Path, part: &str) -> Vec<Call> {
    let run = run(folder, strace(folder, CHANGING), part);
    let calls = run.text.lines().filter_map(|line| parse(folder, line));
    calls.collect()
}

/// Runs a child in a folder and looks at every call of any kind.
pub(crate) fn watch_all(folder: &Path, part: &str) -> Vec<Call> {
    let run = run(folder, strace(folder, "all"), part);
    let calls = run.text.lines().filter_map(begins);
    let calls = calls.map(|(thread, name, _)| Call {
        thread,
        name: name.to_owned(),
        file: ANY.to_owned(),
        line: String::new(),
    });
    calls.collect()
}

/// Runs a child in a folder, with a deed at a point.
pub(crate) fn run_with(folder: &Path, part: &str, point: &Point, deed: Deed) -> Run {
    let Point { file, call, nth } = point;
    let what = match deed {
        Deed::Kill | Deed::Cut => format!("{call}:signal=KILL:when={nth}"),
        Deed::Fail(error) => format!("{call}:error={error}:when={nth}"),
        Deed::FailOn(error) => format!("{call}:error={error}:when={nth}+"),
    };
    let mut strace = strace(folder, call);
    if file != ANY {
        strace.arg("-P").arg(folder.join(file));
    }
    strace.args(["-e", &format!("inject={what}")]);
    if deed == Deed::Cut {
        // All bytes, in hexadecimal.
        strace.args(["-s", "1000000", "-xx"]);
    }
    run(folder, strace, part)
}

/// Each point that a run came past: how often at most one thread made each call on each file.
pub(crate) fn points<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Vec<Point> {
    let mut counts: BTreeMap<(&str, &str, u32), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    for Call {
        thread, name, file, ..
    } in calls
    {
        let nth = counts.entry((file, name, *thread)).or_default();
        *nth += 1;
        points.insert(Point {
            file: file.clone(),
            call: name.clone(),
            nth: *nth,
        });
    }
    points.into_iter().collect()
}

/// All threads, with the path behind each number.
fn strace(folder: &Path, calls: &str) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-y", "-q", "-o"])
        .arg(seen(folder, "trace"));
    strace.args(["-e", &format!("trace={calls}"), "-e", "signal=none"]);
    strace
}

/// Where what is seen of a child is written down: beside what the child itself writes.
fn seen(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(SEEN);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.join(name)
}

fn run(folder: &Path, mut strace: Command, part: &str) -> Run {
    let file = |name: &str| {
        let file = File::options()
            .create(true)
            .append(true)
            .open(seen(folder, name));
        file.expect("a file")
    };
    let child = strace
        .arg(std::env::current_exe().expect("this program has a path"))
        .args([
            "--exact",
            "syscalls::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(child::FOLDER, folder)
        .env(child::PART, part)
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("err"))
        .process_group(0)
        .spawn()
        .expect("strace starts; on Debian and Ubuntu it is in the package strace");
    let status = Group(child).wait();
    let said = std::fs::read_to_string(seen(folder, "err")).unwrap_or_default();
    assert!(
        !said.contains("Operation not permitted") && !said.contains("PTRACE"),
        "strace may not trace a process that it starts itself: allow the call ptrace here, in a \
         container with --cap-add=SYS_PTRACE or a seccomp profile that has it, elsewhere with \
         kernel.yama.ptrace_scope below 3; it said: {said}"
    );
    let text = std::fs::read(seen(folder, "trace")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let was_killed = status.signal() == Some(9);
    assert!(
        was_killed || status.success(),
        "a child ended with {status}: {said}"
    );
    Run {
        was_killed,
        text: text.into_owned(),
    }
}

/// A line of a trace where a call begins: `13559 pwrite64(7</path>, "..."..., 24, 0) = 24`.
fn begins(line: &str) -> Option<(u32, &str, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let (name, rest) = rest.trim_start().split_once('(')?;
    let is_name = name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
    is_name.then_some((thread.parse().ok()?, name, rest))
}

/// The call that begins in a line, where it is one on a file of the child.
fn parse(folder: &Path, line: &str) -> Option<Call> {
    let (thread, name, rest) = begins(line)?;
    let folder = folder.to_str().expect("a folder with a plain name");
    let (_, path) = rest.split_once(folder)?;
    let file = path.split(['>', '"']).next()?.trim_start_matches('/');
    if file.starts_with(SEEN) {
        return None;
    }
    Some(Call {
        thread,
        name: name.to_owned(),
        file: file.to_owned(),
        line: line.to_owned(),
    })
}

/// A process and those that it started, which are killed when this is dropped.
struct Group(Child);

impl Group {
    #[allow(clippy::disallowed_methods)] // real time: this is about real processes
    fn wait(mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "a child does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let group = format!("-{}", self.0.id());
            Command::new("kill")
                .args(["-s", "KILL", "--", &group])
                .status()
                .ok();
            self.0.wait().ok();
        }
    }
}
