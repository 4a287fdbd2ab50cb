//! No circle of modules within a room, and nothing that names its room's front.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{File, is_name, words};

/// The rooms: the folders whose files are modules of one.
pub(crate) fn rooms(files: &[File]) -> BTreeSet<&str> {
    let folders = files.iter().map(File::folder);
    let rooms = folders.filter_map(|folder| folder.strip_prefix("src/"));
    rooms.filter(|room| !room.ends_with("tests")).collect()
}

/// Rooms whose `mod.rs` has declarations alone, and whose files name the module of what they use.
pub(crate) const FRONTS: &[&str] = &[
    "bus",
    "codec",
    "core",
    "event",
    "journal",
    "store",
    "store/embedded",
];

/// The modules of a room, and which of its modules each names.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Circles of the modules of a room; a file or a folder of it is a module.
pub(crate) fn circles(files: &[File], room: &str) -> Vec<String> {
    let arrows = arrows(files, room);
    let on_circle = |module: &&String| reachable(&arrows, module).contains(module.as_str());
    let on_circle: Vec<_> = arrows.keys().filter(on_circle).cloned().collect();
    match on_circle.as_slice() {
        [] => Vec::new(),
        some => vec![format!(
            "src/{room}: a circle of modules among {}; one of them knows too much",
            some.join(", ")
        )],
    }
}

fn arrows(files: &[File], room: &str) -> Arrows {
    let folder = format!("src/{room}");
    let from_top = format!("crate::{}::", room.replace('/', "::"));
    let mut arrows = Arrows::new();
    for file in files.iter().filter(|file| file.is_in(&folder)) {
        let Some(module) = module_in(&file.path, &folder) else {
            continue;
        };
        let is_beside = !file.path[folder.len() + 1..].contains('/');
        let code = code(file);
        let mut named = names_after(&code, &from_top);
        if is_beside {
            named.extend(names_after(&code, "super::"));
        }
        let named = named.into_iter().filter(|it| *it != module);
        let known = arrows.entry(module.to_owned()).or_default();
        known.extend(named.map(str::to_owned));
    }
    arrows
}

/// The module of a room that a file is of; `None` for its front, and for tests.
fn module_in<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let inside = path.strip_prefix(folder)?.strip_prefix('/')?;
    let module = inside.split(['/', '.']).next()?;
    let is_test = inside.contains("tests/") || inside.contains("tests.rs");
    (module != "mod" && !is_test).then_some(module)
}

fn code(file: &File) -> String {
    let lines = file.code().into_iter().map(|(_, line)| line);
    lines.collect::<Vec<_>>().join("\n")
}

/// What is named behind a path: a name, or those of a group in braces.
fn names_after<'a>(code: &'a str, beginning: &'a str) -> Vec<&'a str> {
    let after = words(code, beginning).map(|at| &code[at + beginning.len()..]);
    let names = after.flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => first_names(group),
        None => vec![first_name(rest)],
    });
    names.filter(|name| !name.is_empty()).collect()
}

fn first_name(text: &str) -> &str {
    text.split(|c| !is_name(c)).next().unwrap_or_default()
}

/// The first name of each path of a group, which ends with its brace.
fn first_names(group: &str) -> Vec<&str> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth > 0 => {}
            ',' | '}' => {
                names.push(first_name(group[start..at].trim_start()));
                start = at + 1;
            }
            _ => {}
        }
        if c == '}' && start == at + 1 {
            break;
        }
    }
    names
}

fn reachable<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = arrows
        .get(from)
        .into_iter()
        .flatten()
        .map(|it| &**it)
        .collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(arrows.get(module).into_iter().flatten().map(|it| &**it));
        }
    }
    reached
}

/// Where a file of a room names what the room's front shows to others: that makes a circle of the
/// front and all that is behind it.
pub(crate) fn front_named(files: &[File], room: &str) -> Vec<String> {
    let folder = format!("src/{room}");
    let from_top = format!("crate::{}::", room.replace('/', "::"));
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_in(&folder)) {
        let code = code(file);
        let shown = names_after(&code, &from_top).into_iter().find(|name| {
            let is_module = |it: &File| module_in(&it.path, &folder) == Some(name);
            !files.iter().any(is_module)
        });
        if let Some(name) = shown {
            wrong.push(format!(
                "{}: names {name} by the front of the room; name its module",
                file.path
            ));
        }
    }
    wrong
}

#[test]
fn circles_are_found() {
    let made_up = |a: &str, b: &str| {
        [
            File::new("src/store/a.rs", a),
            File::new("src/store/b/mod.rs", "mod c;\n"),
            File::new("src/store/b/c.rs", b),
        ]
    };
    let names_b = "use crate::store::b::B;\n";
    let one_way = made_up(names_b, "use crate::store::b::c::C;\n");
    assert_eq!(circles(&one_way, "store"), [""; 0]);
    let circle = made_up("use super::b::B;\n", "use crate::store::a::A;\n");
    assert_eq!(circles(&circle, "store").len(), 1);

    let grouped = made_up(
        "use crate::store::{\n    z::{x, y},\n    b::B,\n};\n",
        "use crate::store::a::A;\n",
    );
    assert_eq!(circles(&grouped, "store").len(), 1);
    assert_eq!(rooms(&grouped), BTreeSet::from(["store", "store/b"]));

    assert_eq!(front_named(&one_way, "store"), [""; 0]);
    let by_front = made_up(
        "use crate::store::Store;\n",
        "use crate::store::{a, Store};\n",
    );
    assert_eq!(front_named(&by_front, "store").len(), 2);
    let deeper = [File::new(
        "src/store/b/c.rs",
        "use crate::store::b::Shown;\n",
    )];
    assert_eq!(front_named(&deeper, "store/b").len(), 1);
}
