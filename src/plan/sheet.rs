//! One file of a plan, read as far as it can be read by itself: its
//! parameters, the site and the environment are in place, its fragments are
//! included.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::diagnostic::{Diagnostic, MOST, Slip, SourceFile, nearest};
use super::document::{FragmentDocument, LANGUAGE};
use super::files::Files;
use super::load::{Given, Mistakes};
use super::params::{self, GivenParam, Params};
use super::scope::{Absent, Scope, Settled, unknown};
use super::sweep::is_label;
use super::tree::{Position, Tree, Value};
use super::typed::from_tree;
use super::yaml;

/// Most files of one plan, one that is read twice counted twice.
const FILES: usize = 1000;
/// Most bytes of all of them, with what their references stand for.
pub(super) const BYTES: usize = 64 << 20;
/// Fragments that include each other.
const DEPTH: usize = 16;

/// A file that was read.
pub(super) struct Sheet<T> {
    pub file: Arc<SourceFile>,
    /// What it holds beside its nodes.
    pub tree: Tree,
    pub document: T,
    pub params: Params,
    /// Its nodes and those of its fragments.
    pub nodes: Vec<Written>,
}

/// A node as a file writes it.
#[derive(Debug)]
pub(super) struct Written {
    pub name: String,
    /// Where its name stands.
    pub at: Position,
    /// Its kind and settings.
    pub tree: Tree,
    pub file: Arc<SourceFile>,
}

/// Reads files, and the fragments they include.
pub(super) struct SheetReader<'a> {
    pub files: &'a dyn Files,
    pub given: &'a Given,
    pub mistakes: &'a mut Mistakes,
    /// Whether a parameter without a value gets a stand-in, because the file
    /// is looked at without the one that includes it.
    pub alone: bool,
    /// Files read so far.
    count: usize,
    /// Bytes read so far, with what references stand for.
    bytes: usize,
    /// The first file, where it has been parsed to see what it is.
    first: Option<Parsed>,
}

/// A file whose tree is known, or what keeps it from being one.
pub(super) struct Parsed {
    pub file: Arc<SourceFile>,
    pub tree: Option<Tree>,
    pub slips: Vec<Slip>,
}

impl Parsed {
    pub fn read(files: &dyn Files, path: &Path) -> Result<Self, Diagnostic> {
        let file = SourceFile::read(files, path)?;
        let mut slips = Vec::new();
        let tree = yaml::parse(&file.text, &mut slips);
        Ok(Self { file, tree, slips })
    }

    /// Whether the file has this key at its head.
    pub fn has(&self, key: &str) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.get(key).is_some())
    }
}

/// Who asks for a file: the file and place that names it.
pub(super) struct Asker<'a> {
    pub file: &'a Arc<SourceFile>,
    pub at: Position,
    /// What it is to be: "target" or "fragment".
    pub what: &'static str,
}

impl<'a> SheetReader<'a> {
    pub fn new(files: &'a dyn Files, given: &'a Given, mistakes: &'a mut Mistakes, alone: bool) -> Self {
        Self { files, given, mistakes, alone, count: 0, bytes: 0, first: None }
    }

    /// With the first file that will be read.
    pub fn with(self, first: Parsed) -> Self {
        Self { first: Some(first), ..self }
    }
}

impl SheetReader<'_> {
    /// Reads a file. `prefix` is that of its parameters on the command line.
    pub fn read<T: DeserializeOwned + Default>(
        &mut self,
        path: &Path,
        asker: Option<&Asker<'_>>,
        prefix: impl FnOnce(&Tree) -> Option<String>,
    ) -> Option<Sheet<T>> {
        let (file, tree) = self.parse(path, asker)?;
        let prefix = prefix(&tree);
        let set = prefix.as_ref().map(|prefix| set_for(self.given, prefix)).unwrap_or_default();
        let sheet = self.settle(file, tree, &set, &mut vec![path.to_owned()]);
        for (name, slip) in &sheet.params.refused {
            let at = sheet.params.places.get(name).copied().unwrap_or_default();
            let dotted = prefix.iter().filter(|prefix| !prefix.is_empty()).map(|prefix| format!("{prefix}."));
            let help = format!("add a `default:`, or give --set {}{name}=VALUE", dotted.collect::<String>());
            let help = slip.help.clone().unwrap_or(help);
            self.mistakes.add(&sheet.file, Slip { at, ..slip.clone() }.help(help));
        }
        Some(sheet)
    }

    /// Reads a fragment with values for its parameters. `open` are the files
    /// that lead to it.
    fn fragment(
        &mut self,
        path: &Path,
        asker: &Asker<'_>,
        with: &[GivenParam],
        open: &mut Vec<PathBuf>,
    ) -> Option<Sheet<FragmentDocument>> {
        if let Some(first) = open.iter().position(|other| other == path) {
            let through: Vec<String> =
                open[first + 1..].iter().map(|file| format!(", through {}", file.display())).collect();
            let message = format!("{} includes itself{}", path.display(), through.concat());
            self.mistakes.add(asker.file, Slip::new(asker.at, message).help("remove this `include:`"));
            return None;
        }
        if open.len() > DEPTH {
            let message = format!("more than {DEPTH} fragments include each other here");
            let help = "include what is needed from the plan itself";
            self.mistakes.add(asker.file, Slip::new(asker.at, message).help(help));
            return None;
        }
        let (file, tree) = self.parse(path, Some(asker))?;
        open.push(path.to_owned());
        let sheet = self.settle::<FragmentDocument>(file, tree, with, open);
        open.pop();
        for (name, slip) in &sheet.params.refused {
            let at = if slip.at == Position::default() { asker.at } else { slip.at };
            let help = format!("write with: {{{name}: VALUE}}; {} declares it", path.display());
            let help = slip.help.clone().unwrap_or(help);
            self.mistakes.add(asker.file, Slip { at, ..slip.clone() }.help(help));
        }
        let unknown_ones = with.iter().filter(|given| !sheet.params.values.contains_key(&given.name));
        for given in unknown_ones.take(MOST + 1) {
            let known = sheet.params.values.keys().map(String::as_str);
            let (message, help) = unknown("parameter", &given.name, known, "declare it in the fragment");
            let message = format!("{message} in {}", path.display());
            self.mistakes.add(asker.file, Slip::new(given.at, message).help(help));
        }
        Some(sheet)
    }

    fn parse(&mut self, path: &Path, asker: Option<&Asker<'_>>) -> Option<(Arc<SourceFile>, Tree)> {
        self.count += 1;
        if self.count > FILES {
            // What leads to it is there many times, and said once.
            if let Some(Asker { file, at, .. }) = asker.filter(|_| self.count == FILES + 1) {
                let message = format!("this plan reads more than {FILES} files");
                let slip = Slip::new(*at, message).help("include each fragment once, or make several plans");
                self.mistakes.add(file, slip);
            }
            return None;
        }
        let parsed = self.first.take().map_or_else(|| Parsed::read(self.files, path), Ok);
        let Parsed { file, tree, slips } = match parsed {
            Ok(parsed) => parsed,
            Err(diagnostic) => {
                match asker {
                    Some(Asker { file, at, what }) => {
                        let message = format!("the {what} file {}", diagnostic.slip.message);
                        let help = format!("{what} files are named relative to the file that names them");
                        self.mistakes.add(file, Slip::new(*at, message).help(help));
                    }
                    None => self.mistakes.push(diagnostic),
                }
                return None;
            }
        };
        self.bytes += file.text.len();
        if self.bytes > BYTES {
            let message = format!("the files of this plan have more than {} MiB together", BYTES >> 20);
            let slip = Slip::new(Position::default(), message).help("make several plans");
            self.mistakes.add(&file, slip);
            return None;
        }
        self.mistakes.add_all(&file, slips);
        let tree = tree?;
        if !matches!(tree.value, Value::Map(_)) {
            let message = format!("the file holds {}, not `key: value` lines", tree.value.describe());
            let help = "begin with `orchestrate: 1`; plans/README.md shows what follows";
            self.mistakes.add(&file, Slip::new(tree.at, message).help(help));
            return None;
        }
        if let Some(slip) = wrong_version(&tree) {
            self.mistakes.add(&file, slip);
            return None;
        }
        if let Some(Asker { file, at, what }) = asker
            && let Some(other) = other_kind(&tree, what)
        {
            let message = format!("{} is a {other}, and a {what} is needed here", path.display());
            let help = format!("a {what} begins with `orchestrate: 1` and `{what}: NAME`");
            self.mistakes.add(file, Slip::new(*at, message).help(help));
            return None;
        }
        Some((file, tree))
    }

    /// Resolves what can be resolved by now, reads the document, and includes
    /// what it includes.
    fn settle<T: DeserializeOwned + Default>(
        &mut self,
        file: Arc<SourceFile>,
        mut tree: Tree,
        given: &[GivenParam],
        open: &mut Vec<PathBuf>,
    ) -> Sheet<T> {
        let mut slips = Vec::new();
        self.settle_params(&mut tree, &mut slips);
        let params = params::resolve(&tree, given, self.alone, &mut slips);
        let settled = self.settle_entries(&mut tree, &params);
        self.bytes = settled.bytes;
        slips.extend(settled.slips);
        let misspelled = settled.used.iter().filter(|used| !params.places.contains_key(*used));
        let misspelled: Vec<&str> = misspelled.map(String::as_str).take(MOST).collect();
        let is_used =
            |name: &String| settled.used.contains(name) || nearest(name, misspelled.clone()).is_some();
        let is_enough = slips.len() > MOST;
        let unused = params.places.iter().filter(|(name, _)| !is_enough && !is_used(name));
        for (name, at) in unused.take(MOST + 1) {
            let message = format!("nothing refers to the parameter `{name}`");
            slips.push(
                Slip::new(*at, message)
                    .help(format!("write ${{params.{name}}} where it belongs, or remove it")),
            );
        }
        let document = from_tree::<T>(&tree, &mut slips).unwrap_or_default();
        self.mistakes.add_all(&file, slips);
        let nodes = take_nodes(&mut tree, &file);
        let mut sheet = Sheet { file, tree, document, params, nodes };
        self.include(&mut sheet, open);
        sheet
    }

    /// Defaults of parameters may name the site and the environment.
    fn settle_params(&mut self, tree: &mut Tree, slips: &mut Vec<Slip>) {
        let none = Params::default();
        let required = HashSet::new();
        let scope = self.scope(&none, &required, Absent::Wrong);
        let mut settled = Settled::after(self.bytes);
        for entry in entries_mut(tree).filter(|entry| entry.key == "params") {
            scope.settle(&mut entry.value, &mut settled);
        }
        self.bytes = settled.bytes;
        slips.extend(settled.slips);
    }

    fn settle_entries(&self, tree: &mut Tree, params: &Params) -> Settled {
        let mut settled = Settled::after(self.bytes);
        // What a target requires decides whether anything else of it runs, so
        // there a site value that is not given is an empty one.
        let none = HashSet::new();
        let scope = self.scope(params, &none, Absent::Empty);
        for entry in entries_mut(tree).filter(|entry| entry.key == "requires") {
            scope.settle(&mut entry.value, &mut settled);
        }
        let required = required_site(tree);
        for entry in entries_mut(tree).filter(|entry| entry.key != "requires" && entry.key != "params") {
            let absent = match entry.key.as_str() {
                "nodes" | "include" | "sweep" => Absent::Wrong,
                _ => Absent::Refused,
            };
            self.scope(params, &required, absent).settle(&mut entry.value, &mut settled);
        }
        settled
    }

    fn scope<'s>(
        &'s self,
        params: &'s Params,
        required_site: &'s HashSet<String>,
        absent: Absent,
    ) -> Scope<'s> {
        let Given { site, variables, .. } = self.given;
        Scope { params, site, variables, required_site, absent }
    }

    fn include<T>(&mut self, sheet: &mut Sheet<T>, open: &mut Vec<PathBuf>) {
        let include = sheet.tree.get("include").map(Tree::items).unwrap_or_default().to_vec();
        for item in &include {
            let mut slips = Vec::new();
            let named = named_fragment(item, &mut slips);
            self.mistakes.add_all(&sheet.file, slips);
            let Some((name, at, with)) = named else { continue };
            let base = sheet.file.path.parent().unwrap_or(Path::new(""));
            let asker = Asker { file: &Arc::clone(&sheet.file), at, what: "fragment" };
            if let Some(fragment) = self.fragment(&base.join(name), &asker, &with, open) {
                sheet.nodes.extend(fragment.nodes);
            }
        }
        self.mistakes.clashes(&mut sheet.nodes);
    }
}

/// The `--set` values of a plan (no prefix) or of a target.
fn set_for(given: &Given, prefix: &str) -> Vec<GivenParam> {
    let own = given.set.iter().filter_map(|(name, text)| {
        let bare = match name.split_once('.') {
            None if prefix.is_empty() => name,
            Some((target, bare)) if target == prefix => bare,
            _ => return None,
        };
        Some(GivenParam::set(bare, text, format!("--set {name}={text}")))
    });
    own.collect()
}

fn entries_mut(tree: &mut Tree) -> impl Iterator<Item = &mut super::tree::Entry> {
    match &mut tree.value {
        Value::Map(entries) => entries.iter_mut(),
        _ => [].iter_mut(),
    }
}

/// Names of the site values that a target requires.
fn required_site(tree: &Tree) -> HashSet<String> {
    let requires = tree.get("requires").map(Tree::items).unwrap_or_default();
    requires.iter().filter_map(|one| one.get("site")?.text().map(str::to_owned)).collect()
}

/// Moves the nodes out of a file's tree.
fn take_nodes(tree: &mut Tree, file: &Arc<SourceFile>) -> Vec<Written> {
    let nodes = entries_mut(tree).find(|entry| entry.key == "nodes");
    let Some(Value::Map(nodes)) = nodes.map(|nodes| std::mem::replace(&mut nodes.value.value, Value::Null))
    else {
        return Vec::new();
    };
    let written = nodes.into_iter().map(|entry| Written {
        name: entry.key,
        at: entry.at,
        tree: entry.value,
        file: Arc::clone(file),
    });
    written.collect()
}

/// A file of another version of the language is not looked at any further.
pub(super) fn wrong_version(tree: &Tree) -> Option<Slip> {
    let version = tree.get("orchestrate")?;
    let Value::Number(number) = &version.value else { return None };
    let number = number.integer()?;
    if number > LANGUAGE.into() {
        let message = format!("the file is of version {number}, this program reads up to {LANGUAGE}");
        return Some(Slip::new(version.at, message).help("use a newer orchestrate"));
    }
    let slip = Slip::new(version.at, format!("there is no version {number} of the plan language"));
    (number < 1).then(|| slip.help(format!("write `orchestrate: {LANGUAGE}`")))
}

/// What a file is by the key that names it, where that is not what is wanted.
pub(super) fn other_kind(tree: &Tree, wanted: &str) -> Option<&'static str> {
    let kinds = [("target", "target"), ("fragment", "fragment"), ("name", "plan"), ("values", "site file")];
    let found = kinds.iter().find(|(key, _)| tree.get(key).is_some()).map(|(_, kind)| *kind);
    found.filter(|found| *found != wanted && tree.get(wanted).is_none())
}

/// The file, its place and the parameters of one item of `include:`.
fn named_fragment(item: &Tree, slips: &mut Vec<Slip>) -> Option<(String, Position, Vec<GivenParam>)> {
    if let Some(file) = item.text() {
        return Some((file.to_owned(), item.at, Vec::new()));
    }
    for entry in item.entries().iter().filter(|entry| !["file", "with"].contains(&entry.key.as_str())) {
        let message = format!("unknown key `{}`", entry.key);
        slips.push(Slip::new(entry.at, message).help("an include has `file:` and `with:`"));
    }
    let file = item.get("file").and_then(|file| Some((file.text()?.to_owned(), file.at)));
    let Some((file, at)) = file else {
        let slip = Slip::new(item.at, "the include names no file");
        slips.push(slip.help("write `file: FRAGMENT.yaml`, and `with: {NAME: VALUE}` for its parameters"));
        return None;
    };
    let with = item.get("with");
    if let Some(with) = with.filter(|with| !matches!(with.value, Value::Map(_))) {
        let message = format!("`with` is {}, not values by their names", with.value.describe());
        slips.push(Slip::new(with.at, message).help("write with: {NAME: VALUE}"));
    }
    let with = with.map(Tree::entries).unwrap_or_default();
    let with = with.iter().filter_map(|entry| {
        let value = params::scalar(&entry.value, &entry.key, slips)?;
        let how = format!("`{}: {}`", entry.key, value.as_text().unwrap_or_default());
        Some(GivenParam { name: entry.key.clone(), value, how, at: entry.at })
    });
    Some((file, at, with.collect()))
}

impl Mistakes {
    /// Drops nodes whose name another one of the same plan or target has, and
    /// says where both are.
    fn clashes(&mut self, nodes: &mut Vec<Written>) {
        let mut first = std::collections::HashMap::new();
        nodes.retain(|node| match first.get(&node.name) {
            None => {
                first.insert(node.name.clone(), (Arc::clone(&node.file), node.at));
                true
            }
            Some((file, at)) if file.path == node.file.path && *at == node.at => {
                let message = format!(
                    "`{}` is there twice, because {} is included twice",
                    node.name,
                    file.path.display()
                );
                let help = "include it once; `sweep:` makes several instances of a node";
                self.add(&node.file, Slip::new(node.at, message).help(help));
                false
            }
            Some((file, at)) => {
                let help = format!("the other is at {}:{}; rename one of them", file.path.display(), at.line);
                let message = format!("two nodes are named `{}`", node.name);
                self.add(&node.file, Slip::new(node.at, message).help(help));
                false
            }
        });
    }

    /// Names become parts of paths and of instance names, so they are plain.
    pub fn name(&mut self, file: &Arc<SourceFile>, name: &str, at: Position) {
        if !is_label(name) {
            let slip = Slip::new(at, format!("{name:?} cannot be a name"));
            self.add(file, slip.help("use letters, digits, `-`, `_` and `.`"));
        }
    }
}
