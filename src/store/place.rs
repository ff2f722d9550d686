//! Stored content at a path where a program finds it.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::ioctl_ficlone;

use super::{Store, StoreError, io_error};
use crate::value::Digest;

/// How content gets to where it is used. A program must not be able to change
/// the store by what it is given, so a clone, which shares the bytes and not
/// the file, is preferred; a second name for the stored file itself is given
/// only for what is read; else it is a copy.
#[derive(Debug)]
pub(super) struct Placing {
    /// Whether clones may still be tried.
    clones: AtomicBool,
}

impl Store {
    /// Makes a stored file appear at a path, in place of what is there.
    /// Verified first; read-only.
    pub fn materialise(&self, digest: Digest, to: &Path) -> Result<(), StoreError> {
        if let Some(parent) = to.parent() {
            Self::create_dir(parent)?;
        }
        self.place(digest, to, false, &Placing::new())
    }

    /// Puts a verified file at a path in a directory that is there.
    pub(super) fn place(
        &self,
        digest: Digest,
        to: &Path,
        executable: bool,
        placing: &Placing,
    ) -> Result<(), StoreError> {
        let from = self.verified_path(digest)?;
        // What is there may be the stored file itself under another name, so
        // it is never opened to be written.
        match fs::remove_file(to) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io_error("replace", to)(error)),
            _ => {}
        }
        placing.place(&from, to, executable).map_err(|error| {
            // A file that is half there is worse than none.
            let _ = fs::remove_file(to);
            let needed = from.metadata().map_or(0, |metadata| metadata.len());
            io_error("copy to", to)(error).needing(needed)
        })
    }
}

impl Placing {
    pub fn new() -> Self {
        Self { clones: AtomicBool::new(true) }
    }

    fn place(&self, from: &Path, to: &Path, executable: bool) -> io::Result<()> {
        if !self.clones.load(Ordering::Relaxed) && !executable && fs::hard_link(from, to).is_ok() {
            return Ok(());
        }
        let (mut source, mut target) = (File::open(from)?, File::create_new(to)?);
        if ioctl_ficlone(&target, &source).is_err() {
            self.clones.store(false, Ordering::Relaxed);
            if !executable {
                fs::remove_file(to)?;
                if fs::hard_link(from, to).is_ok() {
                    return Ok(());
                }
                target = File::create_new(to)?;
            }
            io::copy(&mut source, &mut target)?;
        }
        target.set_permissions(Permissions::from_mode(if executable { 0o555 } else { 0o444 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_made_to_appear_twice_leaves_the_store_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let digest = store.put_bytes(b"hello").unwrap();
        let to = dir.path().join("out/hello.txt");
        store.materialise(digest, &to).unwrap();
        store.materialise(digest, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"hello");
        assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, 0o444);
        store.verified_path(digest).unwrap();
    }

    #[test]
    fn an_executable_file_is_no_second_name_of_the_stored_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let digest = store.put_bytes(b"#!/bin/sh\n").unwrap();
        let to = dir.path().join("run");
        store.place(digest, &to, true, &Placing::new()).unwrap();
        assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, 0o555);
        fs::set_permissions(&to, Permissions::from_mode(0o755)).unwrap();
        fs::write(&to, "changed").unwrap();
        store.verified_path(digest).unwrap();
    }
}
