//! A cgroup (v2) around a supervised tree, where the system lets us make one.
//!
//! It holds what the family tree of `/proc` holds and more: after a supervisor
//! was killed, a daemon in a session of its own is still found by it, and the
//! kernel kills all its members in one step, however fast they fork. Where
//! none can be made nothing is lost but that.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::tree::{Identity, Process};

/// The beginning of a group's name; the supervisor's number and start time follow.
const PREFIX: &str = "orchestrate-";

/// The group of one supervisor's tree, without the supervisor itself.
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Starts something inside a new group of this process: it enters the
    /// group, starts it, and leaves, so that no child is outside for a moment.
    pub(super) fn around<T>(start: impl FnOnce() -> T) -> (Option<Self>, T) {
        let home = own_directory();
        let group = home.as_deref().and_then(Self::entered);
        let started = start();
        // A group that this process cannot leave must not be killed.
        let left = group.filter(|_| home.is_some_and(|home| move_to(&home).is_ok()));
        (left, started)
    }

    fn entered(home: &Path) -> Option<Self> {
        remove_stale(home);
        let path = path_of(home, Identity::of(std::process::id())?);
        fs::create_dir(&path).ok()?;
        let group = Self { path };
        if move_to(&group.path).is_ok() {
            return Some(group);
        }
        group.remove();
        None
    }

    /// The group of the tree of a supervisor that this process has started,
    /// and that may be dead; none where it had none.
    pub(super) fn of(supervisor: Identity) -> Option<Self> {
        let path = path_of(&own_directory()?, supervisor);
        path.is_dir().then_some(Self { path })
    }

    /// The groups of the trees of such supervisors, wherever in the hierarchy
    /// they were started.
    pub(super) fn find_all(supervisors: &[Identity]) -> Vec<Self> {
        let names = supervisors.iter().map(|supervisor| name_of(*supervisor)).collect();
        let mut found = Vec::new();
        if let Some(top) = hierarchy().filter(|_| !supervisors.is_empty()) {
            search(&top, &names, &mut found);
        }
        found
    }

    /// The running processes in it.
    pub(super) fn members(&self) -> Vec<Process> {
        let numbers = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        numbers.lines().filter_map(|pid| Process::read(pid.parse().ok()?)).collect()
    }

    /// Kills all that is in it, groups below it included, in one step.
    pub(super) fn kill(&self) {
        // Kernels before 5.14 do not know it; its members have had their KILL.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Removes it, and the groups that its members have made in it. One that
    /// is not empty stays; a later supervisor removes it.
    pub(super) fn remove(&self) {
        remove_tree(&self.path);
    }
}

fn path_of(home: &Path, supervisor: Identity) -> PathBuf {
    home.join(name_of(supervisor))
}

fn name_of(supervisor: Identity) -> String {
    format!("{PREFIX}{}-{}", supervisor.pid, supervisor.start_time)
}

fn search(below: &Path, names: &HashSet<String>, found: &mut Vec<Cgroup>) {
    for path in groups_in(below) {
        search(&path, names, found);
        if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(name)) {
            found.push(Cgroup { path });
        }
    }
}

/// The supervisor that a group's name tells of.
fn owner_in(name: &str) -> Option<Identity> {
    let (pid, start_time) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some(Identity { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
}

fn move_to(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// Removes the empty groups of supervisors that were killed.
fn remove_stale(home: &Path) {
    for group in groups_in(home) {
        let owner = group.file_name().and_then(|name| owner_in(name.to_str()?));
        if owner.is_some_and(|owner| !owner.is_alive()) {
            remove_tree(&group);
        }
    }
}

fn remove_tree(group: &Path) {
    for below in groups_in(group) {
        remove_tree(&below);
    }
    let _ = fs::remove_dir(group);
}

fn groups_in(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Where the group of this process is in the file system.
fn own_directory() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    directory(&groups, &fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// Where the hierarchy, or what we see of it, begins.
fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (_, point) = mounts.lines().find_map(mount)?;
    Some(point.into())
}

/// Joins the place in the hierarchy (`cgroups(7)`) with the place where the
/// hierarchy, or a part of it, is mounted.
fn directory(groups: &str, mounts: &str) -> Option<PathBuf> {
    let place = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().filter_map(mount).find_map(|(root, point)| {
        let below = place.strip_prefix(root).ok()?;
        Some(Path::new(point).join(below))
    })
}

/// What part of the hierarchy is mounted where, if the line of
/// `proc_pid_mountinfo(5)` is about it.
fn mount(line: &str) -> Option<(&str, &str)> {
    let (mount, _) = line.split_once(" - cgroup2 ")?;
    let mut fields = mount.split(' ').skip(3);
    Some((fields.next()?, fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn the_group_is_found_where_the_hierarchy_is_mounted() {
        let found = |place: &str| directory(&format!("4:memory:/x\n0::{place}\n"), MOUNTS);
        assert_eq!(found("/"), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(found("/user.slice/a.scope"), Some("/sys/fs/cgroup/unified/user.slice/a.scope".into()));
        assert_eq!(directory("4:memory:/x\n", MOUNTS), None);
    }

    #[test]
    fn a_mounted_part_of_the_hierarchy_begins_at_its_root() {
        let mounts = "41 31 0:38 /box/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(directory("0::/box/a/b\n", mounts), Some("/sys/fs/cgroup/b".into()));
        assert_eq!(directory("0::/other\n", mounts), None);
        assert_eq!(directory("0::/\n", mounts), None);
    }

    #[test]
    fn a_group_names_its_supervisor() {
        let supervisor = Identity { pid: 7, start_time: 99 };
        let path = path_of(Path::new("/x"), supervisor);
        assert_eq!(path.file_name().and_then(|name| owner_in(name.to_str()?)), Some(supervisor));
        assert_eq!(owner_in("orchestrate-7"), None);
        assert_eq!(owner_in("system.slice"), None);
    }
}
