//! Content on its way into the store.
//!
//! Content is complete under a temporary name, read-only and digested there
//! before it gets its own, so no name ever stands for half a file and none
//! for a file that changed while it was read.
//!
//! **Durability.** A name must not survive a power cut that its content does
//! not, and whoever was told that content is stored must find it. So content
//! is synced, then renamed, then the directories of the names are synced.
//! For a few files each is synced by itself, in parallel. For many small ones
//! that would be one journal commit each (about 20,000 of them for a tree of
//! 20,000 files, minutes on a disk that seeks), so from [`MANY`] files on the
//! whole file system is synced, once before and once after the names: that
//! may write what others left in the page cache, and is bounded by it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{OFlags, ioctl_ficlone, syncfs};
use tempfile::TempPath;

use super::error::copy_error;
use super::{Store, StoreError, io_error};
use crate::value::Digest;

/// From so many files on the file system is synced, not each file.
const MANY: usize = 64;
/// Files up to this many bytes are read into memory, and written only if
/// they are new.
const SMALL: u64 = 128 * 1024;

/// Content that is complete, and where it waits for its name.
#[derive(Debug)]
pub(super) struct Staged {
    /// Its name.
    pub digest: Digest,
    /// Nothing where the store has the content already.
    waits: Option<TempPath>,
}

/// Whose a file is that is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Somebody may still write it: a copy is stored.
    Another,
    /// Nobody else has it: the file itself is stored.
    Us,
}

impl Store {
    /// Stores bytes and returns their name.
    ///
    /// What is put is there afterwards: a stored file under its name that is
    /// not what it should be is set aside and replaced. Two that put the same
    /// content at the same time both succeed.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let staged = self.stage_bytes(bytes)?;
        let digest = staged.digest;
        self.name(vec![staged])?;
        Ok(digest)
    }

    /// Stores a copy of a file, which may be somebody else's, and returns its
    /// name: a clone where the file system can. The copy is what is digested,
    /// so a file that changes meanwhile cannot get a wrong name.
    ///
    /// A symbolic link, a directory or a pipe is refused.
    pub fn put_file(&self, path: &Path) -> Result<Digest, StoreError> {
        self.put_owned(path, Owner::Another)
    }

    /// Stores a file that is ours alone, such as one in a node's work
    /// directory, and returns its name. On the store's file system the file
    /// itself moves into the store and nothing is copied; after that, and
    /// after an error, there may be nothing at its path.
    ///
    /// A file with a second name somewhere is not ours alone and is copied.
    pub fn take_file(&self, path: &Path) -> Result<Digest, StoreError> {
        self.put_owned(path, Owner::Us)
    }

    /// Stores a document as pretty JSON and returns the name of the text.
    pub fn put_json<T: serde::Serialize>(&self, value: &T) -> Result<Digest, StoreError> {
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|error| StoreError::Unreadable { path: self.root.clone(), reason: error.to_string() })?;
        text.push(b'\n');
        self.put_bytes(&text)
    }

    fn put_owned(&self, path: &Path, owner: Owner) -> Result<Digest, StoreError> {
        let staged = self.stage(path, owner)?;
        let digest = staged.digest;
        self.name(vec![staged])?;
        Ok(digest)
    }

    /// Brings a file under a temporary name, unless its content is there.
    pub(super) fn stage(&self, path: &Path, owner: Owner) -> Result<Staged, StoreError> {
        self.must_be_writable()?;
        let mut source = open_file(path)?;
        let metadata = source.metadata().map_err(io_error("read", path))?;
        if metadata.len() <= SMALL {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut source, &mut bytes).map_err(io_error("read", path))?;
            return self.stage_bytes(&bytes);
        }
        if owner == Owner::Us && metadata.nlink() == 1 {
            let place = self.temporary_file()?.into_temp_path();
            // Another file system, or a directory that we may not change: copy.
            if fs::rename(path, &place).is_ok() {
                return self.digested(place);
            }
        }
        let place = self.temporary_file()?;
        match clone_or_copy(&source, place.as_file()) {
            Ok(()) => self.digested(place.into_temp_path()),
            Err(error) => {
                // What is free is what is free without the part that was copied.
                drop(place);
                Err(copy_error(path, &self.root)(error).needing(metadata.len()))
            }
        }
    }

    fn stage_bytes(&self, bytes: &[u8]) -> Result<Staged, StoreError> {
        self.must_be_writable()?;
        let digest = Digest::of(bytes);
        if self.is_whole(digest, bytes.len() as u64)? {
            return Ok(Staged { digest, waits: None });
        }
        let mut file = self.temporary_file()?;
        if let Err(error) = file.write_all(bytes) {
            drop(file);
            return Err(io_error("write", &self.blob_path(digest))(error).needing(bytes.len() as u64));
        }
        let place = file.into_temp_path();
        protect(&place)?;
        Ok(Staged { digest, waits: Some(place) })
    }

    fn digested(&self, place: TempPath) -> Result<Staged, StoreError> {
        protect(&place)?;
        let digest = Digest::of_file(&place).map_err(io_error("read", &place))?;
        let bytes = place.metadata().map_err(io_error("read", &place))?.len();
        let waits = (!self.is_whole(digest, bytes)?).then_some(place);
        Ok(Staged { digest, waits })
    }

    /// Whether what is stored under a name is what it should be, by its length
    /// and its content. What is not is set aside.
    fn is_whole(&self, digest: Digest, bytes: u64) -> Result<bool, StoreError> {
        let path = self.blob_path(digest);
        let Ok(found) = path.symlink_metadata() else { return Ok(false) };
        let same = || Digest::of_file(&path).is_ok_and(|found| found == digest);
        if found.is_file() && found.len() == bytes && same() {
            return Ok(true);
        }
        self.set_aside(digest)?;
        Ok(false)
    }

    /// Gives content its names, so that both survive a power cut.
    pub(super) fn name(&self, staged: Vec<Staged>) -> Result<(), StoreError> {
        let waiting: Vec<(Digest, TempPath)> =
            staged.into_iter().filter_map(|staged| Some((staged.digest, staged.waits?))).collect();
        let many = waiting.len() >= MANY;
        if many {
            sync_all(&self.root)?;
        } else {
            waiting.par_iter().try_for_each(|(_, place)| sync(place))?;
        }
        let mut dirs = BTreeSet::new();
        for (digest, place) in waiting {
            let path = self.blob_path(digest);
            dirs.extend(make_parent(&path)?);
            place.persist(&path).map_err(|error| io_error("write", &path)(error.error))?;
        }
        if many { sync_all(&self.root) } else { dirs.par_iter().try_for_each(|dir| sync(dir)) }
    }
}

/// Syncs everything on the file system that a directory is on.
pub(super) fn sync_all(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| Ok(syncfs(dir)?)).map_err(io_error("sync", dir))
}

/// Syncs a file or a directory.
pub(super) fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(io_error("sync", path))
}

/// Makes the directory of a name, and returns the directories that are to be
/// synced once the name is there.
pub(super) fn make_parent(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let parent = path.parent().unwrap_or(path);
    if parent.is_dir() {
        return Ok(vec![parent.to_owned()]);
    }
    Store::create_dir(parent)?;
    Ok(parent.ancestors().take(2).map(Path::to_owned).collect())
}

fn protect(path: &Path) -> Result<(), StoreError> {
    fs::set_permissions(path, Permissions::from_mode(0o444)).map_err(io_error("protect", path))
}

/// Opens a file to be stored, and nothing that is not one: a link is not
/// followed, and nobody waits for the other end of a pipe.
fn open_file(path: &Path) -> Result<File, StoreError> {
    let not_a_file = |what| StoreError::NotAFile { path: path.to_owned(), what };
    let found = path.symlink_metadata().map_err(io_error("read", path))?;
    if let Some(what) = other_than_file(found.file_type()) {
        return Err(not_a_file(what));
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io_error("read", path))?;
    let opened = file.metadata().map_err(io_error("read", path))?;
    other_than_file(opened.file_type()).map_or(Ok(file), |what| Err(not_a_file(what)))
}

/// What something is that is no file, in words.
pub(super) fn other_than_file(kind: fs::FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_symlink() => Some("a symbolic link"),
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() => Some("a named pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Fills an empty file with the content of another: both share it where the
/// file system can, until one of them is written.
pub(super) fn clone_or_copy(mut from: &File, mut to: &File) -> io::Result<()> {
    if ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    io::copy(&mut from, &mut to).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 300_000;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        (dir, store)
    }

    fn temporary(store: &Store) -> usize {
        fs::read_dir(store.root().join("tmp")).unwrap().count()
    }

    #[test]
    fn a_file_and_its_bytes_have_one_name_at_every_length() {
        let (dir, store) = store();
        let path = dir.path().join("x");
        for length in [0, 1, 16 * 1024, 128 * 1024, 128 * 1024 + 1, LARGE] {
            let bytes = vec![b'x'; length];
            fs::write(&path, &bytes).unwrap();
            assert_eq!(store.put_file(&path).unwrap(), Digest::of(&bytes));
            assert_eq!(store.put_bytes(&bytes).unwrap(), Digest::of(&bytes));
            assert_eq!(store.take_file(&path).unwrap(), Digest::of(&bytes));
        }
        assert_eq!(temporary(&store), 0);
    }

    #[test]
    fn a_file_of_ours_is_moved_and_not_copied() {
        let (dir, store) = store();
        let path = dir.path().join("x");
        fs::write(&path, vec![1; LARGE]).unwrap();
        let inode = path.metadata().unwrap().ino();
        let digest = store.take_file(&path).unwrap();
        let blob = store.blob_path(digest).metadata().unwrap();
        assert_eq!((blob.ino(), blob.mode() & 0o777), (inode, 0o444));
        assert!(!path.exists());
    }

    #[test]
    fn a_file_with_a_second_name_is_copied_so_that_nobody_changes_the_blob_by_it() {
        let (dir, store) = store();
        let (path, other) = (dir.path().join("x"), dir.path().join("y"));
        fs::write(&path, vec![1; LARGE]).unwrap();
        fs::hard_link(&path, &other).unwrap();
        let digest = store.take_file(&path).unwrap();
        fs::write(&other, "changed").unwrap();
        store.verified_path(digest).unwrap();
    }

    #[test]
    fn what_is_no_file_is_refused_by_name() {
        let (dir, store) = store();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let (link, pipe) = (dir.path().join("link"), dir.path().join("pipe"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for (path, what) in
            [(&link, "a symbolic link"), (&pipe, "a named pipe"), (&dir.path().into(), "a directory")]
        {
            for error in [store.put_file(path).unwrap_err(), store.take_file(path).unwrap_err()] {
                let text = error.to_string();
                assert!(text.starts_with(&format!("{} is {what}", path.display())), "{text}");
            }
        }
    }

    #[test]
    fn content_that_was_changed_or_cut_short_is_replaced_when_it_is_put_again() {
        let (dir, store) = store();
        let path = dir.path().join("x");
        for (content, damage) in [(vec![1; 10], vec![2; 10]), (vec![3; LARGE], vec![3; LARGE - 1])] {
            let digest = store.put_bytes(&content).unwrap();
            let blob = store.blob_path(digest);
            fs::set_permissions(&blob, Permissions::from_mode(0o644)).unwrap();
            fs::write(&blob, &damage).unwrap();
            fs::write(&path, &content).unwrap();
            assert_eq!(store.put_file(&path).unwrap(), digest);
            assert_eq!(store.get_bytes(digest).unwrap(), content);
            assert_eq!(fs::read(store.root().join("aside").join(digest.to_string())).unwrap(), damage);
        }
    }

    #[test]
    fn many_threads_that_put_the_same_content_all_succeed() {
        let (dir, store) = store();
        let path = dir.path().join("x");
        fs::write(&path, vec![7; LARGE]).unwrap();
        let expected = Digest::of(vec![7; LARGE]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(store.put_file(&path).unwrap(), expected));
            }
        });
        store.verified_path(expected).unwrap();
        assert_eq!(temporary(&store), 0);
    }
}
