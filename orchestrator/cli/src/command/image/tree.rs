//! Output for the images below a directory as text and as JSON, with sums by group.

use super::zones::{RuleTitle, mib};
use crate::args::image::{ImageSort, RuleSet};
use cvc_image::{ImageTree, Role, TreeImage};
use cvc_show::{Blocks, Cell, Narrow, Table, fits_in};
use serde_json::{Map, Value, json};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A group of images, such as those of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The group's identifier; for a directory, its path.
    pub name: String,
    /// The name for people, if it differs from the identifier.
    pub label: Option<String>,
}

/// Function that returns the group of a directory's files; `None` if they belong to no group.
pub type GroupOfDirectory<'a> = Box<dyn Fn(&Path) -> Option<Group> + 'a>;

/// A rule to sum images by group. The caller defines it, because only the caller knows what directories mean.
pub struct Grouping<'a> {
    /// Name of one group in text and JSON, such as `run`.
    pub title: &'static str,
    /// Plural of the name, as a key in JSON, such as `runs`.
    pub key: &'static str,
    /// Returns the group of a directory.
    pub of_directory: GroupOfDirectory<'a>,
}

impl std::fmt::Debug for Grouping<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grouping")
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

/// How a tree is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    pub rules: RuleSet,
    pub sort: ImageSort,
    /// Maximum number of images shown; the sums include all.
    pub top: Option<usize>,
    /// Width of the terminal, if the output is one.
    pub width: Option<usize>,
}

/// Sums over a group, bytes on disk.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    images: u64,
    ranks: u64,
    launchers: u64,
    broken: u64,
    saved: u64,
}

impl Sums {
    fn stored(&self) -> u64 {
        self.ranks + self.launchers + self.broken + self.saved
    }

    fn as_json(&self) -> Map<String, Value> {
        let values = [
            ("images", self.images),
            ("rank_bytes", self.ranks),
            ("launcher_bytes", self.launchers),
            ("broken_bytes", self.broken),
            ("saved_file_bytes", self.saved),
            ("stored_bytes", self.stored()),
        ];
        values
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect()
    }
}

/// Sums the sizes of all files on disk by the key that `of` returns for their directory.
fn add_up<K: Ord>(tree: &ImageTree, of: impl Fn(&Path) -> K) -> BTreeMap<K, Sums> {
    let mut sums: BTreeMap<K, Sums> = BTreeMap::new();
    let parent = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
    for image in &tree.images {
        let sum = sums.entry(of(&parent(&image.path))).or_default();
        sum.images += 1;
        match image.role {
            Role::Rank => sum.ranks += image.file_bytes,
            Role::Launcher => sum.launchers += image.file_bytes,
        }
    }
    for broken in &tree.broken {
        let sum = sums.entry(of(&parent(&broken.path))).or_default();
        sum.images += 1;
        sum.broken += broken.file_bytes;
    }
    for saved in &tree.saved {
        sums.entry(of(&parent(&saved.path))).or_default().saved += saved.bytes;
    }
    sums
}

/// Returns whether any image of the tree belongs to a group of this grouping.
pub fn applies(tree: &ImageTree, grouping: &Grouping<'_>) -> bool {
    let mut directories = tree
        .images
        .iter()
        .map(|i| &i.path)
        .chain(tree.broken.iter().map(|b| &b.path))
        .filter_map(|path| path.parent());
    directories.any(|directory| (grouping.of_directory)(directory).is_some())
}

/// Returns the groups in the requested order; images without a group come last.
fn grouped(
    tree: &ImageTree,
    grouping: &Grouping<'_>,
    sort: ImageSort,
) -> Vec<(Option<Group>, Sums)> {
    let mut groups: Vec<_> = add_up(tree, |directory| (grouping.of_directory)(directory))
        .into_iter()
        .collect();
    match sort {
        ImageSort::Size => {
            groups.sort_by_key(|(group, sums)| (group.is_none(), Reverse(sums.stored())))
        }
        ImageSort::Name => groups.sort_by_key(|(group, _)| group.is_none()),
    }
    groups
}

fn total(tree: &ImageTree) -> Sums {
    add_up(tree, |_| ()).remove(&()).unwrap_or_default()
}

/// Returns the images to show, in the requested order, and the number of images left out.
fn listed(tree: &ImageTree, shown: Shown) -> (Vec<&TreeImage>, usize) {
    let mut images: Vec<&TreeImage> = tree.images.iter().collect();
    match shown.sort {
        ImageSort::Size => images.sort_by(|a, b| {
            b.file_bytes
                .cmp(&a.file_bytes)
                .then_with(|| a.path.cmp(&b.path))
        }),
        ImageSort::Name => {}
    }
    let kept = shown.top.unwrap_or(images.len()).min(images.len());
    let left_out = images.len() - kept;
    images.truncate(kept);
    (images, left_out)
}

/// Returns a path relative to the top directory of the tree; `.` for that directory.
pub fn below(tree: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(tree).unwrap_or(path);
    if relative.as_os_str().is_empty() {
        ".".to_owned()
    } else {
        relative.display().to_string()
    }
}

/// Removes facts that all rows of a table of images share (the directory, the program), and returns them as a sentence.
fn say_once(mut table: Table, names: &mut [String], program: Option<&str>) -> (Table, String) {
    let mut said = String::new();
    let parent = |name: &String| Some(name.rsplit_once('/')?.0.to_owned());
    let mut common = names.first().and_then(parent);
    for name in &*names {
        let of_row = parent(name).unwrap_or_default();
        while let Some(directory) = &common
            && of_row != *directory
            && !of_row.starts_with(&format!("{directory}/"))
        {
            common = parent(directory);
        }
    }
    if let Some(directory) = common {
        said += &format!("\n  all in {directory}/");
        for name in &mut *names {
            *name = name[directory.len() + 1..].to_owned();
        }
    }
    // all images have the same prefix and suffix in their names, which are removed
    for (name, row) in names.iter_mut().zip(&mut table.rows) {
        let (directory, file) = match name.rsplit_once('/') {
            Some((directory, file)) => (format!("{directory}/"), file),
            None => (String::new(), name.as_str()),
        };
        let file = file.strip_prefix("ckpt_").unwrap_or(file);
        let file = file.strip_suffix(".dmtcp").unwrap_or(file);
        row[0] = Cell::text(format!("{directory}{file}"));
    }
    if let Some(program) = program {
        said += &format!("\n  program {program}");
        table = table.without("program");
    }
    (table, said + "\n  names without ckpt_ and .dmtcp")
}

/// Prints the tree as text: each image, sums by group, files that do not count, the total.
pub fn text(out: &mut Blocks, tree: &ImageTree, groupings: &[Grouping<'_>], shown: Shown) {
    out.line(tree.path.display().to_string());
    let (images, left_out) = listed(tree, shown);
    if !images.is_empty() {
        show_images(out, tree, &images, shown);
        if left_out > 0 {
            out.line(format!("  and {left_out} more; the sums are of all"));
        }
    }
    for grouping in groupings {
        out.heading(format!("on disk by {}, MiB", grouping.title));
        out.table(groups(tree, grouping, shown.sort));
    }
    uncounted(out, tree);
    let sums = total(tree);
    let mut rows = Table::plain(["item", "stored"]).right_from(1);
    rows.row(["ranks".to_owned(), mib(sums.ranks)]);
    rows.row(["launchers".to_owned(), mib(sums.launchers)]);
    rows.row(["saved files".to_owned(), mib(sums.saved)]);
    if !tree.broken.is_empty() {
        rows.row(["broken".to_owned(), mib(sums.broken)]);
    }
    rows.row(["total stored".to_owned(), mib(sums.stored())]);
    out.heading(format!("on disk, {} image(s), MiB", sums.images));
    out.table(rows);
}

fn show_images(out: &mut Blocks, tree: &ImageTree, images: &[&TreeImage], shown: Shown) {
    let titles = RuleTitle::of(shown.rules);
    let title = titles.first().copied().unwrap_or(RuleTitle::Owner);
    let order = match shown.sort {
        ImageSort::Size => "largest first",
        ImageSort::Name => "by name",
    };
    let mut heading = format!("images, {order}; stored data {}, MiB", title.by());
    let header = ["image", "role", "program"];
    let header = header.into_iter().chain(title.headings());
    let mut rows = Table::plain(header.chain(["uncompressed", "on disk"]))
        .right_from(3)
        .narrow("image", Narrow::Shorten);
    let mut names: Vec<String> = images.iter().map(|i| below(&tree.path, &i.path)).collect();
    for (name, image) in names.iter().zip(images) {
        let facts = [
            name.clone(),
            image.role.as_str().to_owned(),
            image.program.clone(),
        ];
        let sizes = [image.uncompressed_bytes, image.file_bytes];
        let bytes = title.stored(&image.zones).into_iter().chain(sizes);
        rows.row(facts.into_iter().chain(bytes.map(mib)));
    }
    if shown.width.is_some_and(|width| !fits_in(&rows, width)) {
        let programs: BTreeSet<&str> = images.iter().map(|i| i.program.as_str()).collect();
        let program = programs.first().copied().filter(|_| programs.len() == 1);
        let (narrower, said) = say_once(rows, &mut names, program);
        rows = narrower.renamed("uncompressed", "plain");
        heading += &said;
    }
    out.heading(heading);
    out.table(rows);
    if titles.len() > 1 {
        let differ = tree
            .images
            .iter()
            .filter(|image| image.zones.literal.stored != image.zones.structural.stored)
            .count();
        out.line(match differ {
            0 => "  the structural rules give the same zones".to_owned(),
            n => format!(
                "  the structural rules give other zones for {n} image(s): see `--rules structural`"
            ),
        });
    }
}

fn groups(tree: &ImageTree, grouping: &Grouping<'_>, sort: ImageSort) -> Table {
    let groups = grouped(tree, grouping, sort);
    let has_labels = groups
        .iter()
        .flat_map(|(group, _)| group)
        .any(|group| group.label.is_some());
    let label = if has_labels { "label" } else { "" };
    let names = [grouping.title, label];
    let names = names.into_iter().take(1 + usize::from(has_labels));
    let columns = ["images", "ranks", "launchers", "saved files", "stored"];
    let mut rows = Table::plain(names.chain(columns))
        .right_from(1 + usize::from(has_labels))
        .narrow(
            if has_labels { label } else { grouping.title },
            Narrow::Shorten,
        );
    for (group, sums) in groups {
        let (name, label) = match group {
            Some(group) => (group.name, group.label.unwrap_or_default()),
            None => (format!("(no {})", grouping.title), String::new()),
        };
        let names = [name, label].into_iter().take(1 + usize::from(has_labels));
        let bytes = [sums.ranks, sums.launchers, sums.saved, sums.stored()].map(mib);
        rows.row(names.chain([sums.images.to_string()]).chain(bytes));
    }
    rows
}

/// Prints the files that are not in the sums, or do not count as images.
fn uncounted(out: &mut Blocks, tree: &ImageTree) {
    if !(tree.broken.is_empty()
        && tree.temporary.is_empty()
        && tree.named_like_images.is_empty()
        && tree.ended_at.is_none())
    {
        out.gap();
    }
    for broken in &tree.broken {
        out.line(format!(
            "  broken     {} ({} MiB): {}",
            below(&tree.path, &broken.path),
            mib(broken.file_bytes),
            broken.error.kind
        ));
    }
    for (path, bytes) in &tree.temporary {
        out.line(format!(
            "  unfinished {} ({} MiB), not read, not in the sums",
            below(&tree.path, path),
            mib(*bytes)
        ));
    }
    for path in &tree.named_like_images {
        out.line(format!(
            "  directory  {}/ is named like an image",
            below(&tree.path, path)
        ));
    }
    if let Some(limit) = tree.ended_at {
        out.line(format!("  incomplete: {limit}"));
    }
}

/// Returns the tree as JSON.
pub fn json(tree: &ImageTree, groupings: &[Grouping<'_>], shown: Shown) -> Value {
    let (images, left_out) = listed(tree, shown);
    let relative = |path: &Path| below(&tree.path, path);
    let image = |image: &&TreeImage| {
        let mut value = json!({
            "path": relative(&image.path),
            "role": image.role,
            "program": image.program,
            "vpid": image.vpid,
            "file_bytes": image.file_bytes,
            "uncompressed_bytes": image.uncompressed_bytes,
            "data_bytes": image.data_bytes,
            "zones": image.zones,
        });
        let directory = image.path.parent().unwrap_or(Path::new(""));
        for grouping in groupings {
            value[grouping.title] = (grouping.of_directory)(directory)
                .map(|group| group.name)
                .into();
        }
        value
    };
    let mut value = json!({
        "path": tree.path,
        "images": images.iter().map(image).collect::<Vec<_>>(),
        "images_left_out": left_out,
        "broken": tree.broken.iter().map(|b| json!({
            "path": relative(&b.path), "role": b.role, "file_bytes": b.file_bytes, "error": b.error.to_string(),
        })).collect::<Vec<_>>(),
        "temporary": tree.temporary.iter().map(|(path, bytes)| json!({ "path": relative(path), "file_bytes": bytes })).collect::<Vec<_>>(),
        "files_dirs": tree.saved.iter().map(|s| json!({ "path": relative(&s.path), "files": s.files, "bytes": s.bytes })).collect::<Vec<_>>(),
        "named_like_images": tree.named_like_images.iter().map(|path| relative(path)).collect::<Vec<_>>(),
        "unlisted": tree.unlisted.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "incomplete": tree.ended_at.map(|limit| limit.to_string()),
        "totals": total(tree).as_json(),
    });
    for grouping in groupings {
        let group = |(group, sums): (Option<Group>, Sums)| {
            let mut value = Map::new();
            let (name, label) = group.map_or((None, None), |group| (Some(group.name), group.label));
            value.insert(grouping.title.to_owned(), name.into());
            value.insert("label".to_owned(), label.into());
            value.append(&mut sums.as_json());
            Value::Object(value)
        };
        value[grouping.key] = grouped(tree, grouping, shown.sort)
            .into_iter()
            .map(group)
            .collect();
    }
    value
}
