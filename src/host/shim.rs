//! The program behind a shim of pyenv, which takes a tenth of a second to say.

use std::fs;
use std::path::{Path, PathBuf};

/// The interpreter that a pyenv shim would start in a directory, where that is
/// certain: one version is chosen by file and installed under that very name.
/// Follows `pyenv-version-file` and `pyenv-version-name`; the variables of
/// pyenv are not among those that children get.
pub(super) fn behind(program: &Path, cwd: &Path) -> Option<PathBuf> {
    let shims = program.parent().filter(|dir| dir.ends_with("shims"))?;
    let root = shims.parent()?;
    let script = fs::read(program).ok()?;
    let execs = root.join("libexec/pyenv").display().to_string();
    if !script.starts_with(b"#!") || !String::from_utf8_lossy(&script).contains(&execs) {
        return None;
    }
    let near = cwd.ancestors().map(|dir| dir.join(".python-version")).find(|file| file.is_file());
    let chosen = fs::read_to_string(near.unwrap_or_else(|| root.join("version"))).ok()?;
    let mut versions = chosen.split_whitespace();
    let (version, None) = (versions.next()?, versions.next()) else { return None };
    if version.contains(['/', ':', '#']) || version.starts_with('.') {
        return None;
    }
    let interpreter = root.join("versions").join(version).join("bin").join(program.file_name()?);
    interpreter.is_file().then_some(interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_is_looked_through_only_where_its_choice_is_certain() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("pyenv");
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let shim = root.join("shims/python3");
        let exec = format!("#!/usr/bin/env bash\nexec \"{}/libexec/pyenv\" exec \"$@\"\n", root.display());
        write(&shim, &exec);
        let python = root.join("versions/3.11.7/bin/python3");
        write(&python, "");
        assert_eq!(behind(&shim, dir.path()), None);
        write(&root.join("version"), "3.11.7\n");
        assert_eq!(behind(&shim, dir.path()), Some(python));
        let project = dir.path().join("project/deep");
        for unclear in ["3.12\n", "3.11.7 3.12.1\n", "system\n", "# 3.11.7\n", "../3.11.7\n"] {
            write(&dir.path().join("project/.python-version"), unclear);
            assert_eq!(behind(&shim, &project), None, "{unclear}");
        }
        write(&shim, "#!/bin/sh\nexec something-else\n");
        assert_eq!(behind(&shim, dir.path()), None);
    }
}
