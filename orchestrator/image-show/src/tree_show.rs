//! The images below a directory as text and as JSON, with sums by what they belong to.

use crate::show::{
    LEAST_NAME, RuleTitle, Rules, mib, remove_column, row, shorten_column, shorten_header, table,
    width_of,
};
use cvc_image::{ImageTree, Role, TreeImage};
use serde_json::{Map, Value, json};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    path::Path,
};

/// What images belong to, such as a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Its identifier; its path, of a directory.
    pub name: String,
    /// What people call it, if that is something else.
    pub label: Option<String>,
}

/// Tells the group of the files of a directory; `None` if they belong to none.
pub type GroupOfDirectory<'a> = Box<dyn Fn(&Path) -> Option<Group> + 'a>;

/// A way to sum up images. Only the caller knows what directories mean.
pub struct Grouping<'a> {
    /// What a group is, in text and JSON: `run`.
    pub title: &'static str,
    /// Several of them, as a key of JSON: `runs`.
    pub key: &'static str,
    /// What belongs to which group.
    pub of_directory: GroupOfDirectory<'a>,
}

impl std::fmt::Debug for Grouping<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grouping")
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

/// Order of images and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Largest on disk first
    #[default]
    Size,
    /// By path
    Name,
}

/// How a tree is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub rules: Rules,
    pub sort: Sort,
    /// Most images to show one by one; the sums are of all.
    pub top: Option<usize>,
    /// Width of the terminal, if it is one.
    pub width: Option<usize>,
}

/// Sums of a group, bytes on disk.
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

/// Adds everything on disk to the sums that `of` finds for its directory.
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

/// Whether anything in the tree belongs to a group of this kind.
pub(super) fn applies(tree: &ImageTree, grouping: &Grouping<'_>) -> bool {
    let mut directories = tree
        .images
        .iter()
        .map(|i| &i.path)
        .chain(tree.broken.iter().map(|b| &b.path))
        .filter_map(|path| path.parent());
    directories.any(|directory| (grouping.of_directory)(directory).is_some())
}

/// The groups of a grouping in the order that was asked for; what belongs to none comes last.
fn grouped(tree: &ImageTree, grouping: &Grouping<'_>, sort: Sort) -> Vec<(Option<Group>, Sums)> {
    let mut groups: Vec<_> = add_up(tree, |directory| (grouping.of_directory)(directory))
        .into_iter()
        .collect();
    match sort {
        Sort::Size => groups.sort_by_key(|(group, sums)| (group.is_none(), Reverse(sums.stored()))),
        Sort::Name => groups.sort_by_key(|(group, _)| group.is_none()),
    }
    groups
}

fn total(tree: &ImageTree) -> Sums {
    add_up(tree, |_| ()).remove(&()).unwrap_or_default()
}

/// The images in the order that was asked for, and how many of them are not to be shown.
fn listed(tree: &ImageTree, shown: Shown) -> (Vec<&TreeImage>, usize) {
    let mut images: Vec<&TreeImage> = tree.images.iter().collect();
    match shown.sort {
        Sort::Size => images.sort_by(|a, b| {
            b.file_bytes
                .cmp(&a.file_bytes)
                .then_with(|| a.path.cmp(&b.path))
        }),
        Sort::Name => {}
    }
    let kept = shown.top.unwrap_or(images.len()).min(images.len());
    let left_out = images.len() - kept;
    images.truncate(kept);
    (images, left_out)
}

/// A path as it is below the tree.
pub(super) fn below(tree: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(tree).unwrap_or(path);
    if relative.as_os_str().is_empty() {
        ".".to_owned()
    } else {
        relative.display().to_string()
    }
}

/// Headings of columns of names.
const NAMES: [&str; 3] = ["image", "role", "program"];

/// Takes out of the rows what is the same in all of them, and says it: the directory, the program.
fn say_once(rows: &mut [Vec<String>]) -> String {
    let mut said = String::new();
    let Some((_, images)) = rows.split_first_mut() else {
        return said;
    };
    let parent = |row: &Vec<String>| {
        row.first()
            .and_then(|name| Some(name.rsplit_once('/')?.0.to_owned()))
    };
    let mut common = images.first().and_then(parent);
    for row in &*images {
        let of_row = parent(row).unwrap_or_default();
        while let Some(directory) = &common
            && of_row != *directory
            && !of_row.starts_with(&format!("{directory}/"))
        {
            common = directory
                .rsplit_once('/')
                .map(|(above, _)| above.to_owned());
        }
    }
    if let Some(directory) = common {
        said += &format!("\n  all in {directory}/");
        for name in images.iter_mut().filter_map(|row| row.first_mut()) {
            *name = name[directory.len() + 1..].to_owned();
        }
    }
    // all names of images are alike at both ends; what tells them apart is between
    for name in images.iter_mut().filter_map(|row| row.first_mut()) {
        let (directory, file) = match name.rsplit_once('/') {
            Some((directory, file)) => (format!("{directory}/"), file),
            None => (String::new(), name.as_str()),
        };
        let file = file.strip_prefix("ckpt_").unwrap_or(file);
        let file = file.strip_suffix(".dmtcp").unwrap_or(file);
        *name = format!("{directory}{file}");
    }
    let programs: BTreeSet<&String> = images.iter().filter_map(|row| row.get(2)).collect();
    if let (Some(program), 1) = (programs.first(), programs.len()) {
        said += &format!("\n  program {program}");
        remove_column(rows, "program");
    }
    said
}

/// The tree as text: image by image, sums by group, what could not be counted, the total.
pub(super) fn text(
    tree: &ImageTree,
    groupings: &[Grouping<'_>],
    shown: Shown,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", tree.path.display())?;
    let (images, left_out) = listed(tree, shown);
    let title = match shown.rules {
        Rules { owner: true, .. } => RuleTitle::Owner,
        Rules { literal: true, .. } => RuleTitle::Literal,
        Rules { .. } => RuleTitle::Structural,
    };
    if !images.is_empty() {
        let order = match shown.sort {
            Sort::Size => "largest first",
            Sort::Name => "by name",
        };
        let mut heading = format!("images, {order}; stored data {}, MiB", title.by());
        let mut rows = vec![row(["image", "role", "program"])];
        rows[0].extend(title.headings().map(str::to_owned));
        rows[0].extend(row(["uncompressed", "on disk"]));
        for image in images {
            let mut cells = vec![
                below(&tree.path, &image.path),
                image.role.as_str().to_owned(),
                image.program.clone(),
            ];
            cells.extend(
                title
                    .stored(&image.zones)
                    .into_iter()
                    .chain([image.uncompressed_bytes, image.file_bytes])
                    .map(mib),
            );
            rows.push(cells);
        }
        if shown.width.is_some_and(|width| width_of(&rows) > width) {
            heading += &say_once(&mut rows);
            heading += "\n  names without ckpt_ and .dmtcp";
            shorten_header(&mut rows, "uncompressed", "plain");
            shorten_column(&mut rows, 0, LEAST_NAME, shown.width);
        }
        writeln!(out, "\n{heading}")?;
        let names = rows.first().map_or(0, |header| {
            header
                .iter()
                .take_while(|cell| NAMES.contains(&cell.as_str()))
                .count()
        });
        table(out, names, &rows)?;
        if left_out > 0 {
            writeln!(out, "  and {left_out} more; the sums are of all")?;
        }
        if shown.rules.literal && shown.rules.structural {
            let differ = tree
                .images
                .iter()
                .filter(|image| image.zones.literal.stored != image.zones.structural.stored)
                .count();
            match differ {
                0 => writeln!(out, "  the structural rules give the same zones")?,
                _ => writeln!(
                    out,
                    "  the structural rules give other zones for {differ} image(s): see `--rules structural`"
                )?,
            }
        }
    }
    for grouping in groupings {
        writeln!(out, "\non disk by {}, MiB", grouping.title)?;
        let groups = grouped(tree, grouping, shown.sort);
        let has_labels = groups
            .iter()
            .flat_map(|(group, _)| group)
            .any(|group| group.label.is_some());
        let named = |name: String, label: &str| {
            if has_labels {
                vec![name, label.to_owned()]
            } else {
                vec![name]
            }
        };
        let mut header = named(grouping.title.to_owned(), "");
        header.extend(row([
            "images",
            "ranks",
            "launchers",
            "saved files",
            "stored",
        ]));
        let mut rows = vec![header];
        for (group, sums) in groups {
            let mut cells = match &group {
                Some(group) => named(group.name.clone(), group.label.as_deref().unwrap_or("")),
                None => named(format!("(no {})", grouping.title), ""),
            };
            cells.push(sums.images.to_string());
            cells.extend([sums.ranks, sums.launchers, sums.saved, sums.stored()].map(mib));
            rows.push(cells);
        }
        shorten_column(&mut rows, usize::from(has_labels), LEAST_NAME, shown.width);
        table(out, if has_labels { 2 } else { 1 }, &rows)?;
    }
    uncounted(tree, out)?;
    let sums = total(tree);
    let mut rows = vec![
        vec!["ranks".to_owned(), mib(sums.ranks)],
        vec!["launchers".to_owned(), mib(sums.launchers)],
        vec!["saved files".to_owned(), mib(sums.saved)],
    ];
    if !tree.broken.is_empty() {
        rows.push(vec!["broken".to_owned(), mib(sums.broken)]);
    }
    rows.push(vec!["total stored".to_owned(), mib(sums.stored())]);
    writeln!(out, "\non disk, {} image(s), MiB", sums.images)?;
    table(out, 1, &rows)
}

/// What is not, or not as an image, in the sums.
fn uncounted(tree: &ImageTree, out: &mut dyn Write) -> io::Result<()> {
    if !(tree.broken.is_empty()
        && tree.temporary.is_empty()
        && tree.named_like_images.is_empty()
        && tree.ended_at.is_none())
    {
        writeln!(out)?;
    }
    for broken in &tree.broken {
        writeln!(
            out,
            "  broken     {} ({} MiB): {}",
            below(&tree.path, &broken.path),
            mib(broken.file_bytes),
            broken.error.kind
        )?;
    }
    for (path, bytes) in &tree.temporary {
        writeln!(
            out,
            "  unfinished {} ({} MiB), not read, not in the sums",
            below(&tree.path, path),
            mib(*bytes)
        )?;
    }
    for path in &tree.named_like_images {
        writeln!(
            out,
            "  directory  {}/ is named like an image",
            below(&tree.path, path)
        )?;
    }
    if let Some(limit) = tree.ended_at {
        writeln!(out, "  incomplete: {limit}")?;
    }
    Ok(())
}

/// The tree as JSON.
pub(super) fn json(tree: &ImageTree, groupings: &[Grouping<'_>], shown: Shown) -> Value {
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
