//! The disk as the kernel asks for it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, TimeOrNow, WriteFlags,
};

use crate::lossy::fault::Request;
use crate::lossy::image::{File, Folder, Image, Node, ROOT};
use crate::lossy::{Disk, ERRORS, State};

/// How long the kernel may believe what it was told; nobody else changes anything.
const TTL: Duration = Duration::from_secs(3_600);
const NO_GENERATION: Generation = Generation(0);
/// The number of [`ERRORS`].
const ERRORS_NUMBER: u64 = u64::MAX - 1;

pub(super) struct Server {
    disk: Disk,
    owner: (u32, u32),
}

impl Server {
    pub(super) fn new(disk: Disk) -> Self {
        use std::os::unix::fs::MetadataExt;
        // Our own process is ours.
        let me = std::fs::metadata("/proc/self").expect("a process has an owner");
        Self {
            disk,
            owner: (me.uid(), me.gid()),
        }
    }

    fn attributes(&self, image: &Image, number: u64) -> Option<FileAttr> {
        let (kind, perm, size) = match image.node(number) {
            Some(Node::File(file)) => (FileType::RegularFile, 0o600, file.live.len() as u64),
            Some(Node::Folder(_)) => (FileType::Directory, 0o700, 0),
            None if number == ERRORS_NUMBER => (FileType::RegularFile, 0o400, 0),
            None => return None,
        };
        let (uid, gid) = self.owner;
        Some(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Makes a node, and answers what it is.
    fn make(&self, parent: INodeNo, name: &OsStr, node: Node) -> Result<FileAttr, Errno> {
        let mut state = self.disk.lock();
        if !state.may(Request::Other) {
            return Err(Errno::EIO);
        }
        let number = state.image.make(parent.0, name, node);
        self.attributes(&state.image, number).ok_or(Errno::ENOENT)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.disk.lock();
        if !state.may(Request::Other) {
            reply.error(Errno::EIO);
        } else if state.image.remove(parent.0, name) {
            reply.ok();
        } else {
            reply.error(Errno::ENOENT);
        }
    }
}

/// Whether it is SQLite's index of its log: memory that processes share, and nothing that has to
/// outlive them.
fn is_shared_memory(image: &Image, number: u64) -> bool {
    name_of(image, number).is_some_and(|name| name.to_string_lossy().ends_with("-shm"))
}

fn name_of(image: &Image, number: u64) -> Option<&Path> {
    fn within(image: &Image, folder: u64, number: u64) -> Option<&Path> {
        let entries = &image.folder(folder)?.live;
        entries.iter().find_map(|(name, to)| {
            if *to == number {
                return Some(Path::new(name));
            }
            within(image, *to, number)
        })
    }
    within(image, ROOT, number)
}

/// Memory is mapped, so the kernel must keep its pages; everything else goes past its cache, so
/// that a write arrives here as it was made.
fn how_opened(image: &Image, number: u64) -> FopenFlags {
    if is_shared_memory(image, number) {
        return FopenFlags::empty();
    }
    FopenFlags::FOPEN_DIRECT_IO
}

/// How many of `len` bytes find room.
fn room(state: &State, number: u64, at: usize, len: usize) -> usize {
    let Some(max) = state.faults.room else {
        return len;
    };
    let there = state.image.file(number).map_or(0, |file| file.live.len());
    let grows = (at + len).saturating_sub(there);
    let free = max.saturating_sub(state.image.bytes());
    len - grows.saturating_sub(free).min(len)
}

#[rustfmt::skip] // a line an argument would hide what is done
impl Filesystem for Server {
    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.disk.lock();
        if state.off {
            return reply.error(Errno::EIO);
        }
        let errors = (name == ERRORS && parent.0 == ROOT).then_some(ERRORS_NUMBER);
        let found = state.image.find(parent.0, name).or(errors);
        match found.and_then(|number| self.attributes(&state.image, number)) {
            Some(attributes) => reply.entry(&TTL, &attributes, NO_GENERATION),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &fuser::Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let state = self.disk.lock();
        match self.attributes(&state.image, ino.0) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self, _: &fuser::Request, ino: INodeNo, _: Option<u32>, _: Option<u32>, _: Option<u32>,
        size: Option<u64>, _: Option<TimeOrNow>, _: Option<TimeOrNow>, _: Option<SystemTime>,
        _: Option<FileHandle>, _: Option<SystemTime>, _: Option<SystemTime>,
        _: Option<SystemTime>, _: Option<BsdFileFlags>, reply: ReplyAttr,
    ) {
        let mut state = self.disk.lock();
        if let Some(size) = size {
            if !state.may(Request::Other) {
                return reply.error(Errno::EIO);
            }
            state.image.resize(ino.0, size as usize);
        }
        match self.attributes(&state.image, ino.0) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn mkdir(
        &self, _: &fuser::Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry,
    ) {
        match self.make(parent, name, Node::Folder(Folder::default())) {
            Ok(attributes) => reply.entry(&TTL, &attributes, NO_GENERATION),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self, _: &fuser::Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32,
        reply: ReplyCreate,
    ) {
        match self.make(parent, name, Node::File(File::default())) {
            Ok(attributes) => {
                let how = how_opened(&self.disk.lock().image, attributes.ino.0);
                reply.created(&TTL, &attributes, NO_GENERATION, FileHandle(0), how);
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &fuser::Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let state = self.disk.lock();
        if state.off {
            return reply.error(Errno::EIO);
        }
        reply.opened(FileHandle(0), how_opened(&state.image, ino.0));
    }

    fn read(
        &self, _: &fuser::Request, ino: INodeNo, _: FileHandle, at: u64, len: u32, _: OpenFlags,
        _: Option<LockOwner>, reply: ReplyData,
    ) {
        let state = self.disk.lock();
        let errors = format!("{} {}\n", state.seen.failed, state.errors());
        let bytes = match state.image.file(ino.0) {
            _ if state.off => return reply.error(Errno::EIO),
            Some(file) => &file.live,
            None if ino.0 == ERRORS_NUMBER => errors.as_bytes(),
            None => return reply.error(Errno::ENOENT),
        };
        let from = (at as usize).min(bytes.len());
        let end = (from + len as usize).min(bytes.len());
        reply.data(&bytes[from..end]);
    }

    fn write(
        &self, _: &fuser::Request, ino: INodeNo, _: FileHandle, at: u64, bytes: &[u8],
        flags: WriteFlags, _: OpenFlags, _: Option<LockOwner>, reply: ReplyWrite,
    ) {
        let mut state = self.disk.lock();
        // What the kernel writes back of mapped memory comes when it likes, and is no request.
        let asked = !flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        if asked && !state.may(Request::Write) || state.off {
            return reply.error(Errno::EIO);
        }
        let mut taken = room(&state, ino.0, at as usize, bytes.len());
        if taken == 0 && !bytes.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        if asked && !is_shared_memory(&state.image, ino.0) {
            taken = state.faults.taken(taken);
        }
        state.image.write(ino.0, at as usize, &bytes[..taken]);
        reply.written(taken as u32);
    }

    fn fsync(
        &self, _: &fuser::Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty,
    ) {
        let mut state = self.disk.lock();
        if !state.may(Request::Sync) {
            if !state.off {
                state.image.forget_dirty(ino.0);
            }
            return reply.error(Errno::EIO);
        }
        let name = name_of(&state.image, ino.0);
        if !name.is_some_and(|name| state.faults.lies(name)) {
            state.image.sync(ino.0);
        }
        reply.ok();
    }

    fn fsyncdir(
        &self, _: &fuser::Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty,
    ) {
        let mut state = self.disk.lock();
        if !state.may(Request::SyncFolder) {
            let named = state.image.named();
            state.doubtful.push((ino.0, named));
            return reply.error(Errno::EIO);
        }
        state.image.sync_folder(ino.0);
        reply.ok();
    }

    fn rename(
        &self, _: &fuser::Request, parent: INodeNo, name: &OsStr, new_parent: INodeNo,
        new_name: &OsStr, _: RenameFlags, reply: ReplyEmpty,
    ) {
        let mut state = self.disk.lock();
        if !state.may(Request::Other) {
            reply.error(Errno::EIO);
        } else if state.image.rename((parent.0, name), (new_parent.0, new_name)) {
            reply.ok();
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn unlink(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rmdir(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn readdir(
        &self, _: &fuser::Request, ino: INodeNo, _: FileHandle, from: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.disk.lock();
        let Some(folder) = state.image.folder(ino.0) else {
            return reply.error(Errno::ENOENT);
        };
        let entries = folder.live.iter().enumerate().skip(from as usize);
        for (at, (name, number)) in entries {
            let kind = match state.image.node(*number) {
                Some(Node::Folder(_)) => FileType::Directory,
                _ => FileType::RegularFile,
            };
            if reply.add(INodeNo(*number), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn flush(
        &self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty,
    ) {
        reply.ok();
    }
}
