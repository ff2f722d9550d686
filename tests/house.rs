//! The rooms of `src/`: each uses only the rooms that `lib.rs` lists below it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn a_room_uses_only_the_rooms_below_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let list = fs::read_to_string(src.join("lib.rs")).unwrap();
    let rooms: Vec<&str> =
        list.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let place = |room: &str| rooms.iter().position(|name| *name == room);
    assert!(place("cli") == Some(0) && rooms.len() > 20, "{rooms:?}");
    let mut upward = Vec::new();
    for (at, room) in rooms.iter().enumerate() {
        for file in files(&src, room) {
            let text = fs::read_to_string(&file).unwrap();
            let used =
                text.split("crate::").skip(1).filter_map(|rest| rest.split(|c: char| !is_word(c)).next());
            let above = used.filter(|used| place(used).is_some_and(|used| used < at));
            upward.extend(above.map(|used| format!("{} uses {used}", file.display())));
        }
    }
    assert!(upward.is_empty(), "{}", upward.join("\n"));
}

/// The files of a room: `src/room.rs` and everything below `src/room/`.
fn files(src: &Path, room: &str) -> Vec<PathBuf> {
    let mut open = vec![src.join(format!("{room}.rs")), src.join(room)];
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") && path.is_file() {
            files.push(path);
        }
    }
    files
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
