//! Finding the file of a path, in memory or on the disk.
//!
//! With the cache on, a file is read (or made) once and stays as it was then: changes on the disk go unnoticed until
//! the server is started again. Content is shared by all threads, but each thread has a table and reference counts of
//! its own, so that answering from memory writes to nothing that another thread reads. What does not fit under the
//! limit is read for each request, as everything is with the cache off.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::header::HeaderValue;
use rustix::io::Errno;

use crate::directory::{OpenFile, Root, Wait};
use crate::fileset::Fileset;
use crate::media_types;
use crate::path::{self, PathError};
use crate::shard::{Shard, Shared};

/// Files up to this size are read whole before the answer begins, so that it is one write.
const SMALL_BYTES: u64 = 64 * 1024;

/// Where files come from.
#[derive(Debug)]
pub(crate) enum Source {
    Directory(Root),
    Set(Fileset),
}

/// All files, and those kept in memory.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) source: Source,
    cache: bool,
    /// Bytes that may still be kept.
    room: AtomicU64,
    /// Files of a directory that are kept; those of a set are kept in the set.
    kept: Mutex<HashMap<Box<[u8]>, Kept>>,
}

#[derive(Clone, Debug)]
struct Kept {
    content: Bytes,
    modified: SystemTime,
}

/// What an answer's head says of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileHead {
    pub(crate) content_type: HeaderValue,
    pub(crate) last_modified: HeaderValue,
    /// Last-Modified in seconds since 1970.
    pub(crate) modified_s: u64,
}

/// A file in memory.
#[derive(Debug)]
pub(crate) struct FileEntry {
    pub(crate) head: FileHead,
    pub(crate) content: Bytes,
}

/// A file that was found.
#[derive(Debug)]
pub(crate) enum Found {
    /// In memory.
    Memory(Rc<FileEntry>),
    /// Open on the disk, too large to be read at once.
    Disk(FileHead, OpenFile),
    /// In the set, to be made while it is sent.
    Set { head: FileHead, path: Box<str>, size: u64 },
}

/// Why there is no file.
#[derive(Debug)]
pub(crate) enum FileError {
    Path(PathError),
    NotFound,
    Forbidden,
    /// No free descriptor or memory: asking later may succeed.
    Busy,
    Failed(Errno),
}

/// The files in memory that one thread has answered with.
#[derive(Debug, Default)]
pub(crate) struct FileTable(RefCell<HashMap<Box<str>, Rc<FileEntry>>>);

impl FileTable {
    /// The file of a path that was asked for before in just this spelling.
    pub(crate) fn find(&self, raw: &str) -> Option<Rc<FileEntry>> {
        self.0.borrow().get(raw).map(Rc::clone)
    }

    fn insert(&self, raw: &str, entry: &Rc<FileEntry>) {
        self.0.borrow_mut().insert(raw.into(), Rc::clone(entry));
    }
}

impl FileHead {
    fn of_file(path: &[u8], modified: SystemTime) -> FileHead {
        let last_modified = HeaderValue::try_from(httpdate::fmt_http_date(modified))
            .expect("an HTTP date is letters, digits and punctuation");
        FileHead {
            content_type: HeaderValue::from_static(media_types::of_path(path)),
            last_modified,
            modified_s: modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        }
    }
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> FileError {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::ISDIR | Errno::NXIO => {
                FileError::NotFound
            }
            Errno::ACCESS => FileError::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => FileError::Busy,
            errno => FileError::Failed(errno),
        }
    }
}

impl Files {
    pub(crate) fn new(source: Source, cache: bool, cache_bytes_max: u64) -> Files {
        Files { source, cache, room: AtomicU64::new(cache_bytes_max), kept: Mutex::default() }
    }

    /// Takes room for a file that is to be kept; `false` if there is not enough.
    fn take_room(&self, size: u64) -> bool {
        let taken =
            self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(size));
        self.cache && taken.is_ok()
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Kept>> {
        // After a panic it is still consistent: it is only inserted into.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the file of a request's path. Never waits for a disk on this thread.
pub(crate) async fn find(shard: &Rc<Shard>, raw: &str) -> Result<Found, FileError> {
    match &shard.shared.files.source {
        Source::Directory(root) => find_on_disk(shard, root, raw).await,
        Source::Set(set) => find_in_set(shard, set, raw).await,
    }
}

async fn find_in_set(shard: &Rc<Shard>, set: &Fileset, raw: &str) -> Result<Found, FileError> {
    let entry = match set.find(raw) {
        Some(entry) => Some(entry),
        None => {
            let below = path::below_root(raw).map_err(FileError::Path)?;
            let decoded = String::from_utf8(below).map_err(|_| FileError::NotFound)?;
            set.find(&format!("/{decoded}"))
        }
    };
    let (path, file) = entry.ok_or(FileError::NotFound)?;
    let head = FileHead::of_file(path.as_bytes(), set.modified);
    let content = match file.content.get() {
        Some(content) => content.clone(),
        None if shard.shared.files.take_room(file.size) => {
            let (shared, path) = (Arc::clone(&shard.shared), path.to_owned());
            blocking(move || make_kept(&shared, &path)).await?.ok_or(FileError::NotFound)?
        }
        None => return Ok(Found::Set { head, path: path.into(), size: file.size }),
    };
    let entry = Rc::new(FileEntry { head, content: own_handle(content) });
    if raw == path {
        shard.table.insert(raw, &entry);
    }
    Ok(Found::Memory(entry))
}

/// Makes a file of the set in memory; if another thread did so meanwhile, its copy is used and the memory released.
fn make_kept(shared: &Shared, path: &str) -> Option<Bytes> {
    let Source::Set(set) = &shared.files.source else { return None };
    let (path, file) = set.find(path)?;
    let mut made = false;
    let content = file.content.get_or_init(|| {
        made = true;
        let mut bytes = vec![0; usize::try_from(file.size).unwrap_or(usize::MAX)];
        set.fill(path, 0, &mut bytes);
        bytes.into()
    });
    if !made {
        shared.files.room.fetch_add(file.size, Ordering::Relaxed);
    }
    Some(content.clone())
}

async fn find_on_disk(shard: &Rc<Shard>, root: &Root, raw: &str) -> Result<Found, FileError> {
    let below = path::below_root(raw).map_err(FileError::Path)?;
    let files = &shard.shared.files;
    let kept = files.cache.then(|| files.kept().get(&*below).cloned()).flatten();
    if let Some(kept) = kept {
        return Ok(Found::Memory(remember(shard, raw, &below, kept)));
    }
    let opened = match root.open_file(&below, Wait::Never) {
        Err(Errno::AGAIN) => {
            let (shared, below) = (Arc::clone(&shard.shared), below.clone());
            blocking(move || match &shared.files.source {
                Source::Directory(root) => root.open_file(&below, Wait::Allowed),
                Source::Set(_) => Err(Errno::NOENT),
            })
            .await?
        }
        opened => opened,
    }?;
    if files.take_room(opened.size) {
        let size = opened.size;
        let (modified, content) = (opened.modified, read_whole(opened).await);
        if content.is_err() {
            files.room.fetch_add(size, Ordering::Relaxed);
        }
        let new = Kept { content: content?, modified };
        let kept = match files.kept().entry(below.clone().into()) {
            std::collections::hash_map::Entry::Occupied(kept) => {
                files.room.fetch_add(size, Ordering::Relaxed);
                kept.get().clone()
            }
            std::collections::hash_map::Entry::Vacant(place) => place.insert(new).clone(),
        };
        return Ok(Found::Memory(remember(shard, raw, &below, kept)));
    }
    let head = FileHead::of_file(&below, opened.modified);
    if opened.size > SMALL_BYTES {
        return Ok(Found::Disk(head, opened));
    }
    let content = read_whole(opened).await?;
    Ok(Found::Memory(Rc::new(FileEntry { head, content })))
}

/// Puts a kept file into this thread's table, if the path is in its one plain spelling: the table must not grow with
/// the ways to write a path.
fn remember(shard: &Rc<Shard>, raw: &str, below: &[u8], kept: Kept) -> Rc<FileEntry> {
    let head = FileHead::of_file(below, kept.modified);
    let entry = Rc::new(FileEntry { head, content: own_handle(kept.content) });
    if !raw.contains('%') && !raw.contains("//") && !raw.contains("/.") {
        shard.table.insert(raw, &entry);
    }
    entry
}

/// The same bytes with a reference count of this thread's own, which no other thread writes to.
fn own_handle(content: Bytes) -> Bytes {
    Bytes::from_owner(content)
}

async fn read_whole(file: OpenFile) -> Result<Bytes, FileError> {
    if file.size <= SMALL_BYTES
        && let Ok(bytes) = file.read_at(0, file.size as usize, Wait::Never)
        && bytes.len() as u64 == file.size
    {
        return Ok(bytes.into());
    }
    let bytes = blocking(move || file.read_whole()).await??;
    // A file that shrinks while it is read is being replaced; the next request finds the new one.
    bytes.map(Bytes::from).ok_or(FileError::Busy)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, FileError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| FileError::Failed(Errno::CANCELED))
}
