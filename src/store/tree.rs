//! Directories as a manifest of stored files.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::place::Placing;
use super::put::{Owner, Staged, other_than_file};
use super::{Store, StoreError, io_error};
use crate::value::Digest;

/// One thing in a stored directory. It cannot name a place outside of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct TreeEntry {
    /// Path below the directory.
    pub path: PathBuf,
    /// What is there.
    pub content: TreeContent,
}

/// What a stored directory holds at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeContent {
    /// A file.
    File {
        /// Its content.
        digest: Digest,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A symbolic link to something in the same directory.
    Link(PathBuf),
    /// A directory with nothing in it; others show by what they hold.
    EmptyDirectory,
}

/// An entry as the manifest has it. Names are plain strings where they are
/// UTF-8, and else the hexadecimal digits of their bytes under another key.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    empty_directory: Option<bool>,
}

/// What a walk finds before anything is stored.
enum Found {
    File { executable: bool },
    Link(PathBuf),
    EmptyDirectory,
}

impl TreeEntry {
    /// The content of a file; nothing for what is none.
    #[must_use]
    pub fn file(&self) -> Option<Digest> {
        match self.content {
            TreeContent::File { digest, .. } => Some(digest),
            _ => None,
        }
    }
}

impl Store {
    /// Stores everything below a directory. The name covers paths, contents,
    /// the executable bit, links and empty directories, and no times, owners
    /// or other modes; the same directory has the same name everywhere.
    ///
    /// A link that is absolute or leads out of the directory, and anything
    /// that is no file, directory or link, is an error that names it.
    pub fn put_tree(&self, dir: &Path) -> Result<Digest, StoreError> {
        let mut found = Vec::new();
        walk(dir, Path::new(""), &mut found)?;
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let stored: Vec<(TreeEntry, Option<Staged>)> = found
            .into_par_iter()
            .map(|(path, found)| self.stage_entry(dir, path, found))
            .collect::<Result<_, _>>()?;
        let (entries, staged): (Vec<_>, Vec<_>) = stored.into_iter().unzip();
        self.name(staged.into_iter().flatten().collect())?;
        self.put_json(&entries)
    }

    /// What a stored directory holds, in the order of the paths.
    pub fn tree(&self, digest: Digest) -> Result<Vec<TreeEntry>, StoreError> {
        self.get_json(digest)
    }

    /// Makes a stored directory appear at a path. Its files are verified and
    /// read-only; a program that changes one does not change the store.
    pub fn materialise_tree(&self, digest: Digest, to: &Path) -> Result<(), StoreError> {
        let entries = self.tree(digest)?;
        Self::create_dir(to)?;
        for entry in &entries {
            let path = to.join(&entry.path);
            let is_dir = entry.content == TreeContent::EmptyDirectory;
            Self::create_dir(if is_dir { &path } else { path.parent().unwrap_or(to) })?;
        }
        let placing = Placing::new();
        entries.par_iter().try_for_each(|entry| match entry.content {
            TreeContent::File { digest, executable } => {
                self.place(digest, &to.join(&entry.path), executable, &placing)
            }
            _ => Ok(()),
        })?;
        // Links come last, so that nothing is written through one.
        for entry in &entries {
            if let TreeContent::Link(target) = &entry.content {
                let path = to.join(&entry.path);
                std::os::unix::fs::symlink(target, &path).map_err(io_error("link", &path))?;
            }
        }
        Ok(())
    }

    fn stage_entry(
        &self,
        dir: &Path,
        path: PathBuf,
        found: Found,
    ) -> Result<(TreeEntry, Option<Staged>), StoreError> {
        let (content, staged) = match found {
            Found::File { executable } => {
                let staged = self.stage(&dir.join(&path), Owner::Another)?;
                (TreeContent::File { digest: staged.digest, executable }, Some(staged))
            }
            Found::Link(target) => (TreeContent::Link(target), None),
            Found::EmptyDirectory => (TreeContent::EmptyDirectory, None),
        };
        Ok((TreeEntry { path, content }, staged))
    }
}

fn walk(root: &Path, below: &Path, found: &mut Vec<(PathBuf, Found)>) -> Result<(), StoreError> {
    let dir = root.join(below);
    let mut is_empty = true;
    for entry in fs::read_dir(&dir).map_err(io_error("read", &dir))? {
        is_empty = false;
        let entry = entry.map_err(io_error("read", &dir))?;
        let (full, path) = (entry.path(), below.join(entry.file_name()));
        let unstorable = |reason| StoreError::Unstorable { path: full.clone(), reason };
        let metadata = entry.metadata().map_err(io_error("read", &full))?;
        if metadata.is_dir() {
            walk(root, &path, found)?;
        } else if metadata.is_symlink() {
            let target = fs::read_link(&full).map_err(io_error("read", &full))?;
            check_link(&path, &target).map_err(unstorable)?;
            found.push((path, Found::Link(target)));
        } else if let Some(what) = other_than_file(metadata.file_type()) {
            return Err(unstorable(format!(
                "it is {what}, and only files, directories and links are stored"
            )));
        } else {
            found.push((path, Found::File { executable: metadata.permissions().mode() & 0o100 != 0 }));
        }
    }
    if is_empty && !below.as_os_str().is_empty() {
        found.push((below.to_owned(), Found::EmptyDirectory));
    }
    Ok(())
}

/// Whether a path, joined to a directory, names something below it.
#[must_use]
pub fn is_inside(path: &Path) -> bool {
    !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Why a link at a path may not have this target. A `..` after a name is
/// refused too: where the name is a link itself, it may lead anywhere.
fn check_link(path: &Path, target: &Path) -> Result<(), String> {
    let out = || Err(format!("it is a link to {}, which leads out of the directory", target.display()));
    let mut depth = path.components().count().saturating_sub(1);
    let mut named = false;
    for part in target.components() {
        match part {
            Component::Normal(_) => named = true,
            Component::CurDir => {}
            Component::ParentDir if named => {
                return Err(format!("it is a link to {}, with a .. after a name", target.display()));
            }
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return out(),
        }
    }
    Ok(())
}

/// A name as a plain string, or the digits of its bytes.
fn written(name: PathBuf) -> (Option<String>, Option<String>) {
    match name.into_os_string().into_string() {
        Ok(text) => (Some(text), None),
        Err(bytes) => {
            let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
            let digits = bytes.as_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
            (None, Some(digits.collect()))
        }
    }
}

/// Reads back what [`written`] gave.
fn read_back(text: Option<String>, hex: Option<String>) -> Result<Option<PathBuf>, String> {
    let Some(digits) = hex else { return Ok(text.map(PathBuf::from)) };
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let pairs = digits.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs.map(|pair| byte(pair).filter(|_| pair.len() == 2)).collect();
    match bytes {
        Some(bytes) if text.is_none() => Ok(Some(OsString::from_vec(bytes).into())),
        _ => Err(format!("{digits:?} is no name in hexadecimal digits")),
    }
}

impl From<TreeEntry> for Written {
    fn from(entry: TreeEntry) -> Self {
        let (path, path_hex) = written(entry.path);
        let place = Self { path, path_hex, ..Self::default() };
        match entry.content {
            TreeContent::File { digest, executable } => {
                Self { digest: Some(digest), executable: Some(executable), ..place }
            }
            TreeContent::Link(target) => {
                let (link, link_hex) = written(target);
                Self { link, link_hex, ..place }
            }
            TreeContent::EmptyDirectory => Self { empty_directory: Some(true), ..place },
        }
    }
}

impl TryFrom<Written> for TreeEntry {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let path = read_back(written.path, written.path_hex)?.ok_or("an entry has no path")?;
        if !is_inside(&path) {
            return Err(format!("its entry {} leads out of the directory", path.display()));
        }
        let link = read_back(written.link, written.link_hex)?;
        let content = match (written.digest, written.executable, link, written.empty_directory) {
            (Some(digest), Some(executable), None, None) => TreeContent::File { digest, executable },
            (None, None, Some(target), None) => {
                check_link(&path, &target)
                    .map_err(|why| format!("of its entry {}, {why}", path.display()))?;
                TreeContent::Link(target)
            }
            (None, None, None, Some(true)) => TreeContent::EmptyDirectory,
            _ => return Err(format!("its entry {} is no file, link or empty directory", path.display())),
        };
        Ok(Self { path, content })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        store: Store,
        source: PathBuf,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let source = dir.path().join("source");
        fs::create_dir_all(source.join("deep/er")).unwrap();
        fs::write(source.join("a"), "1").unwrap();
        fs::write(source.join("deep/er/b"), "2").unwrap();
        Place { dir, store, source }
    }

    #[test]
    fn a_directory_comes_back_file_by_file() {
        let Place { dir, store, source } = place();
        let digest = store.put_tree(&source).unwrap();
        assert_eq!(store.put_tree(&source).unwrap(), digest);
        let copy = dir.path().join("copy");
        store.materialise_tree(digest, &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("deep/er/b")).unwrap(), "2");
        fs::write(source.join("a"), "3").unwrap();
        assert_ne!(store.put_tree(&source).unwrap(), digest);
    }

    #[test]
    fn modes_links_empty_directories_and_any_name_come_back() {
        let Place { dir, store, source } = place();
        fs::create_dir(source.join("empty")).unwrap();
        fs::write(source.join("tool"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(source.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("../../a", source.join("deep/er/up")).unwrap();
        symlink("nothing yet", source.join("dangling")).unwrap();
        let odd = OsString::from_vec(b"odd \xff\n\"\\".to_vec());
        fs::write(source.join(&odd), "odd").unwrap();
        symlink(&odd, source.join("to odd")).unwrap();
        let digest = store.put_tree(&source).unwrap();
        let copy = dir.path().join("copy");
        store.materialise_tree(digest, &copy).unwrap();
        assert_eq!(store.put_tree(&copy).unwrap(), digest, "it came back as it was");
        assert_eq!(fs::read_to_string(copy.join("deep/er/up")).unwrap(), "1");
        assert_eq!(fs::read_to_string(copy.join("to odd")).unwrap(), "odd");
        assert!(copy.join("empty").is_dir());
        let mode = |name: &str| copy.join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("tool"), mode("a")), (0o555, 0o444));
    }

    #[test]
    fn a_manifest_says_names_as_they_are_and_odd_ones_in_digits() {
        let file = |path: &[u8]| TreeEntry {
            path: OsString::from_vec(path.to_vec()).into(),
            content: TreeContent::File { digest: Digest::of("x"), executable: false },
        };
        let text = |entry: &TreeEntry| serde_json::to_string(entry).unwrap();
        let digest = Digest::of("x");
        assert_eq!(
            text(&file("ä/b".as_bytes())),
            format!(r#"{{"path":"ä/b","digest":"{digest}","executable":false}}"#)
        );
        assert!(text(&file(b"a\xff")).starts_with(r#"{"path_hex":"61ff","#));
        for entry in [file(b"a"), file(b"a\xff/\xc3")] {
            assert_eq!(serde_json::from_str::<TreeEntry>(&text(&entry)).unwrap(), entry);
        }
    }

    #[test]
    fn a_link_that_leaves_the_directory_is_an_error_that_names_it() {
        let Place { dir: _dir, store, source } = place();
        let link = source.join("deep/link");
        for target in ["/etc/passwd", "../../x", "er/../../../x", ".."] {
            symlink(target, &link).unwrap();
            let stored = store.put_tree(&source);
            if target == ".." {
                stored.unwrap();
            } else {
                let text = stored.unwrap_err().to_string();
                assert!(text.starts_with(&link.display().to_string()) && text.contains(target), "{text}");
            }
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn what_is_no_file_directory_or_link_is_an_error_that_names_it() {
        let Place { dir: _dir, store, source } = place();
        let _socket = std::os::unix::net::UnixListener::bind(source.join("deep/socket")).unwrap();
        let text = store.put_tree(&source).unwrap_err().to_string();
        assert!(text.contains("deep/socket") && text.contains("a socket"), "{text}");
    }

    #[test]
    fn a_manifest_that_names_a_place_outside_is_not_read() {
        let Place { dir, store, source: _ } = place();
        let digest = Digest::of("1");
        for entry in [
            format!(r#"{{"path":"../out","digest":"{digest}","executable":false}}"#),
            format!(r#"{{"path":"/out","digest":"{digest}","executable":false}}"#),
            r#"{"path":"a","link":"../out"}"#.to_owned(),
            r#"{"path":"a","link":"/out"}"#.to_owned(),
            r#"{"path":"a"}"#.to_owned(),
            r#"{"path_hex":"6","empty_directory":true}"#.to_owned(),
        ] {
            let tree = store.put_bytes(format!("[{entry}]").as_bytes()).unwrap();
            let to = dir.path().join("copy");
            let error = store.materialise_tree(tree, &to).unwrap_err();
            assert!(matches!(error, StoreError::Unreadable { .. }), "{entry}: {error}");
            assert!(!to.exists() && !dir.path().join("out").exists());
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_of_the_manifest() {
        let Place { dir, store, source: _ } = place();
        let digest = store.put_bytes(b"1").unwrap();
        let text =
            format!(r#"[{{"path":"a","link":"b"}},{{"path":"a/x","digest":"{digest}","executable":false}}]"#);
        let tree = store.put_bytes(text.as_bytes()).unwrap();
        let to = dir.path().join("copy");
        store.materialise_tree(tree, &to).unwrap_err();
        assert!(!to.join("b").exists());
    }

    #[test]
    fn a_manifest_of_an_earlier_version_is_read() {
        let Place { dir: _dir, store, source: _ } = place();
        let digest = store.put_bytes(b"1").unwrap();
        let text = format!(r#"[{{"path": "a/b", "digest": "{digest}", "executable": true}}]"#);
        let entries = store.tree(store.put_bytes(text.as_bytes()).unwrap()).unwrap();
        assert_eq!((entries[0].path.as_path(), entries[0].file()), (Path::new("a/b"), Some(digest)));
    }

    #[test]
    fn a_directory_of_many_files_is_stored_and_brought_back() {
        let Place { dir, store, source } = place();
        for file in 0..200 {
            fs::write(source.join(format!("f{file}")), format!("{}", file % 150)).unwrap();
        }
        let digest = store.put_tree(&source).unwrap();
        assert_eq!(store.tree(digest).unwrap().len(), 202);
        let copy = dir.path().join("copy");
        store.materialise_tree(digest, &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("f199")).unwrap(), "49");
        assert_eq!(fs::read_dir(store.root().join("tmp")).unwrap().count(), 0);
    }
}
