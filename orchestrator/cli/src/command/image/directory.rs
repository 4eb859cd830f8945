//! Output for a checkpoint directory: a line for each image, sums by role, saved files.

use super::zones::{RuleTitle, mib};
use crate::args::image::RuleSet;
use cvc_core::units::counted;
use cvc_image::{CheckpointDir, Role, RoleTotals};
use cvc_model::larger_group;
use cvc_show::{Blocks, Narrow, Table, fits_in, or_dash};

pub fn show(out: &mut Blocks, dir: &CheckpointDir, rules: RuleSet, width: Option<usize>) {
    out.line(dir.path.display().to_string());
    for (i, title) in RuleTitle::of(rules).iter().enumerate() {
        let same = |i: &cvc_image::DirImage| {
            i.image.zones.literal.stored == i.image.zones.structural.stored
        };
        if i > 0 && dir.images.iter().all(same) {
            out.heading("the structural rules give the same zones");
            continue;
        }
        out.heading(format!("stored data {}, MiB", title.by()));
        out.table(images(dir, *title, width));
    }
    others(out, dir);
    out.heading("on disk, MiB");
    out.table(sums(dir));
    if let Some(sentence) = larger(dir) {
        out.gap();
        out.line(sentence);
    }
}

/// Describes which ranks' files are larger than the others, as files of I/O aggregators may be.
fn larger(dir: &CheckpointDir) -> Option<String> {
    let ranks = dir.images.iter().filter(|of| of.role == Role::Rank);
    let (vpids, bytes): (Vec<Option<i32>>, Vec<f64>) = ranks
        .map(|of| (of.vpid, of.image.file_bytes as f64))
        .unzip();
    let group = larger_group(&bytes)?;
    let names: Vec<String> = group
        .places
        .iter()
        .map(|i| or_dash(vpids[*i], |vpid| vpid.to_string()))
        .collect();
    let count = group.places.len();
    Some(format!(
        "{count} of {} {} {} MiB larger than the others, as files of I/O aggregators are: {} {}",
        counted(bytes.len(), "file"),
        if count == 1 { "is" } else { "are" },
        mib(group.excess as u64),
        if count == 1 { "vpid" } else { "vpids" },
        names.join(", "),
    ))
}

fn images(dir: &CheckpointDir, title: RuleTitle, width: Option<usize>) -> Table {
    let header = ["role", "vpid", "program"];
    let header = header.into_iter().chain(title.headings());
    let header = header.chain(["overhead", "uncompressed", "on disk"]);
    let mut rows = Table::plain(header)
        .right_from(3)
        .narrow("program", Narrow::Shorten);
    for of in &dir.images {
        let names = [
            of.role.as_str().to_owned(),
            or_dash(of.vpid, |vpid| vpid.to_string()),
            of.program.clone(),
        ];
        let image = &of.image;
        let sizes = [
            image.uncompressed_bytes - image.data_bytes,
            image.uncompressed_bytes,
            image.file_bytes,
        ];
        let zones = title.stored(&image.zones).into_iter();
        rows.row(names.into_iter().chain(zones.chain(sizes).map(mib)));
    }
    let roles = [
        ("rank", &dir.totals.rank),
        ("launcher", &dir.totals.launcher),
    ];
    for (name, sums) in roles.into_iter().filter(|(_, sums)| sums.images > 0) {
        rows.row(role_sums(name, sums, title));
    }
    if width.is_some_and(|width| !fits_in(&rows, width)) {
        // drop columns that can be computed from others first
        rows = rows.without("overhead").renamed("uncompressed", "plain");
    }
    rows
}

fn role_sums(name: &str, sums: &RoleTotals, title: RuleTitle) -> Vec<String> {
    let mut cells = vec![
        format!("all {name}s"),
        String::new(),
        format!("{} image(s)", sums.images),
    ];
    let sizes = [
        sums.uncompressed_bytes - sums.data_bytes,
        sums.uncompressed_bytes,
        sums.file_bytes,
    ];
    let zones = title.stored(&sums.zones).into_iter();
    cells.extend(zones.chain(sizes).map(mib));
    cells
}

/// Prints the files that are not readable images.
fn others(out: &mut Blocks, dir: &CheckpointDir) {
    if !(dir.broken.is_empty()
        && dir.temporary.is_empty()
        && dir.files_dirs.is_empty()
        && dir.named_like_images.is_empty())
    {
        out.gap();
    }
    for broken in &dir.broken {
        let (file, size) = (&broken.file, mib(broken.file_bytes));
        out.line(format!(
            "  broken     {file} ({size} MiB): {}",
            broken.error.kind
        ));
    }
    for temporary in &dir.temporary {
        let (file, size) = (&temporary.file, mib(temporary.file_bytes));
        out.line(format!(
            "  unfinished {file} ({size} MiB), not read, not in the sums"
        ));
    }
    for files in &dir.files_dirs {
        let name = files.path.file_name().unwrap_or_default();
        let orphan = match files.has_image {
            true => "",
            false => ", its image is not here",
        };
        out.line(format!(
            "  saved      {}: {} file(s), {} MiB{orphan}",
            name.to_string_lossy(),
            files.files,
            mib(files.bytes)
        ));
    }
    for directory in &dir.named_like_images {
        out.line(format!(
            "  directory  {directory}/ is named like an image: not read, not in the sums"
        ));
    }
}

fn sums(dir: &CheckpointDir) -> Table {
    let totals = &dir.totals;
    let mut rows = Table::plain(["item", "files", "stored"]).right_from(1);
    let mut row = |name: &str, files: String, bytes: u64| {
        rows.row([name.to_owned(), files, mib(bytes)]);
    };
    let images = |n: u64| format!("{n} image(s)");
    row("ranks", images(totals.rank.images), totals.rank.file_bytes);
    row(
        "launchers",
        images(totals.launcher.images),
        totals.launcher.file_bytes,
    );
    let saved = &totals.files_dirs;
    row(
        "saved files",
        format!("{} file(s)", saved.files),
        saved.bytes,
    );
    if totals.broken_images > 0 {
        row(
            "broken",
            images(totals.broken_images),
            totals.broken_file_bytes,
        );
    }
    row("total stored", String::new(), totals.stored_bytes);
    rows
}
