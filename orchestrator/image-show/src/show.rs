//! Images and directories as text for people.

use cvc_image::{
    Baseline, CheckpointDir, Family, Header, Image, ImageError, OwnerSums, OwnerZone, Part,
    RoleTotals, RuleSums, Zone, Zones,
};
use std::io::{self, Write};

const MIB: f64 = 1_048_576.0;

/// Whose zones are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub owner: bool,
    pub literal: bool,
    pub structural: bool,
}

pub(super) fn mib(bytes: u64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "two decimals of a MiB are shown"
    )]
    let bytes = bytes as f64;
    format!("{:.2}", bytes / MIB)
}

/// Rows of text as columns: the first `left` are set left, the others right.
pub(super) fn table(out: &mut dyn Write, left: usize, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line.push_str("  ");
            line.push_str(&if column < left {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            });
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Width of the widest row of a table.
pub(super) fn width_of(rows: &[Vec<String>]) -> usize {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            2 + cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .sum()
}

/// Shortens the cells of a column, down to `least` characters, so that the table gets as narrow as `width`.
pub(super) fn shorten_column(
    rows: &mut [Vec<String>],
    column: usize,
    least: usize,
    width: Option<usize>,
) {
    let Some(too_much) = width.map(|width| width_of(rows).saturating_sub(width)) else {
        return;
    };
    let cells = rows.iter().filter_map(|row| row.get(column));
    let now = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
    let room = now.saturating_sub(too_much).max(least);
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        *cell = shortened(cell, room);
    }
}

/// A text of at most `room` characters: what is too much is left out in the middle, because names differ at their ends.
fn shortened(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let head = kept / 4;
    let tail = kept - head;
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{begin}…{end}")
}

pub(super) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// An image: what its header says, zones, sub-zones.
pub(super) fn image(image: &Image, rules: Rules, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", image.path.display())?;
    let written_by = match image.format.family {
        Family::V4 => "DMTCP 4.x".to_owned(),
        Family::V2 => match &image.header {
            Header::V2(header) => format!("DMTCP {}", release(header.release)),
            Header::V4(_) => String::new(),
        },
    };
    let size = if image.gzip {
        format!(
            "{} MiB, gzip'd to {} MiB",
            mib(image.uncompressed_bytes),
            mib(image.file_bytes)
        )
    } else {
        format!("{} MiB, plain", mib(image.uncompressed_bytes))
    };
    let mut facts = vec![
        vec![
            "format".to_owned(),
            format!("{written_by}, area layout {:?}", image.format.area_layout),
        ],
        vec!["size".to_owned(), size],
        vec![
            "holds".to_owned(),
            format!(
                "{} regions, {} area headers, {} MiB of data",
                image.regions.len(),
                image.area_headers,
                mib(image.data_bytes)
            ),
        ],
    ];
    if let Header::V4(header) = &image.header {
        facts.insert(
            0,
            vec![
                "program".to_owned(),
                format!("{} ({})", header.procname, header.proc_self_exe),
            ],
        );
        facts.insert(
            1,
            vec![
                "process".to_owned(),
                format!("virtual pid {}, {} peers", header.pid, header.num_peers),
            ],
        );
    }
    table(out, 2, &facts)?;
    if rules.owner {
        writeln!(out, "\nzones by owner, MiB")?;
        owners(&image.zones.owner, image.fixed_overhead_bytes, out)?;
        writeln!(out, "\n{}", divided(image.baseline.as_ref()))?;
    }
    let differing: Vec<_> = image
        .regions
        .iter()
        .filter(|region| region.zone != region.literal)
        .collect();
    let agree = rules.literal && rules.structural && differing.is_empty();
    if agree {
        writeln!(
            out,
            "\nzones by the literal and the structural rules, which agree on every region, MiB"
        )?;
        zones(&image.zones.literal, image.fixed_overhead_bytes, out)?;
    }
    for (wanted, title, sums) in [
        (rules.literal, "literal", &image.zones.literal),
        (rules.structural, "structural", &image.zones.structural),
    ] {
        if wanted && !agree {
            writeln!(out, "\nzones by the {title} rules, MiB")?;
            zones(sums, image.fixed_overhead_bytes, out)?;
        }
    }
    if rules.literal && rules.structural {
        match differing.first() {
            None => {}
            Some(first) => {
                let stored: u64 = differing.iter().map(|region| region.stored).sum();
                writeln!(
                    out,
                    "\nthe rule sets differ on {} region(s), {} MiB of data; the first is {:#x} {}: {} by the literal rules, {}/{} by the structural",
                    differing.len(),
                    mib(stored),
                    first.start,
                    if first.name.is_empty() {
                        "(no name)".to_owned()
                    } else {
                        first.name.to_string()
                    },
                    first.literal.as_str(),
                    first.zone.as_str(),
                    first.sub.as_str(),
                )?;
            }
        }
    }
    if rules.structural {
        writeln!(out, "\nsub-zones (structural), MiB")?;
        let mut rows = vec![row(["sub-zone", "regions", "headers", "virtual", "stored"])];
        let mut subs = image.sub_zones.clone();
        subs.sort_by_key(|sum| (sum.zone, sum.sub));
        for sum in subs {
            let name = format!("{}/{}", sum.zone.as_str(), sum.sub.as_str());
            rows.push(vec![
                name,
                sum.n.to_string(),
                sum.headers.to_string(),
                mib(sum.r#virtual),
                mib(sum.stored),
            ]);
        }
        table(out, 1, &rows)?;
    }
    Ok(())
}

fn release(release: cvc_image::V2Release) -> &'static str {
    use cvc_image::V2Release;
    match release {
        V2Release::V2_4 => "2.1 to 2.4",
        V2Release::V2_6 => "2.5 or 2.6",
        V2Release::V3_0 => "3.0",
        V2Release::V3_2 => "3.2",
    }
}

/// Sums of a rule set, and what is missing from them to the length of the image.
fn zones(sums: &RuleSums, fixed: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = vec![row([
        "zone",
        "virtual",
        "accessible",
        "stored",
        "with headers",
    ])];
    for zone in Zone::ALL {
        rows.push(vec![
            zone.as_str().to_owned(),
            mib(sums.r#virtual.get(zone)),
            mib(sums.accessible.get(zone)),
            mib(sums.stored.get(zone)),
            mib(sums.stored_with_headers.get(zone)),
        ]);
    }
    rows.push(vec![
        "file header, end".to_owned(),
        String::new(),
        String::new(),
        String::new(),
        mib(fixed),
    ]);
    rows.push(vec![
        "sum".to_owned(),
        mib(sums.r#virtual.sum()),
        mib(sums.accessible.sum()),
        mib(sums.stored.sum()),
        mib(sums.stored_with_headers.sum() + fixed),
    ]);
    table(out, 1, &rows)
}

/// Sums of the owner rules with their parts.
fn owners(sums: &OwnerSums, fixed: u64, out: &mut dyn Write) -> io::Result<()> {
    let figures = [
        &sums.r#virtual,
        &sums.accessible,
        &sums.stored,
        &sums.stored_with_headers,
    ];
    let mut rows = vec![row([
        "zone",
        "virtual",
        "accessible",
        "stored",
        "with headers",
    ])];
    let mut add = |name: String, bytes: [u64; 4]| {
        rows.push([name].into_iter().chain(bytes.map(mib)).collect())
    };
    for zone in OwnerZone::ALL {
        add(
            zone.as_str().to_owned(),
            figures.map(|bytes| bytes.zone(zone)),
        );
        let parts: Vec<Part> = Part::ALL
            .into_iter()
            .filter(|part| part.zone() == zone)
            .collect();
        for part in parts.iter().filter(|_| parts.len() > 1) {
            add(
                format!("  {}", part.as_str()),
                figures.map(|bytes| bytes.get(*part)),
            );
        }
    }
    rows.push(vec![
        "file header, end".to_owned(),
        String::new(),
        String::new(),
        String::new(),
        mib(fixed),
    ]);
    let [of_virtual, accessible, stored, with_headers] = figures.map(|bytes| bytes.sum());
    rows.push(vec![
        "sum".to_owned(),
        mib(of_virtual),
        mib(accessible),
        mib(stored),
        mib(with_headers.saturating_add(fixed)),
    ]);
    table(out, 1, &rows)
}

/// How private anonymous memory was divided.
fn divided(baseline: Option<&Baseline>) -> String {
    let Some(baseline) = baseline else {
        return "allocated includes what libraries allocated: no baseline is known for this DMTCP"
            .to_owned();
    };
    let of = match baseline.processes {
        Some(1) => "1 process".to_owned(),
        Some(processes) => format!("{processes} processes"),
        None => "1 process (the image does not tell how many)".to_owned(),
    };
    format!(
        "library-memory of a small program, {}, {of}: {} MiB [{}, {}] stored\n({})",
        baseline.library.title(),
        mib(baseline.stored_bytes),
        mib(baseline.stored_low_bytes),
        mib(baseline.stored_high_bytes),
        baseline.source,
    )
}

/// A directory: a line per image, sums by role, saved files.
pub(super) fn dir(
    dir: &CheckpointDir,
    rules: Rules,
    width: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", dir.path.display())?;
    let chosen = [
        (rules.owner, RuleTitle::Owner),
        (rules.literal, RuleTitle::Literal),
        (rules.structural, RuleTitle::Structural),
    ];
    for (i, (_, title)) in chosen.into_iter().filter(|(wanted, _)| *wanted).enumerate() {
        let same = i > 0
            && dir.images.iter().all(|image| {
                image.image.zones.literal.stored == image.image.zones.structural.stored
            });
        if same {
            writeln!(out, "\nthe structural rules give the same zones")?;
            continue;
        }
        writeln!(out, "\nstored data {}, MiB", title.by())?;
        let mut rows = vec![row(["role", "vpid", "program"])];
        rows[0].extend(title.headings().map(str::to_owned));
        rows[0].extend(row(["overhead", "uncompressed", "on disk"]));
        for image in &dir.images {
            let mut cells = vec![
                image.role.as_str().to_owned(),
                image
                    .vpid
                    .map_or_else(|| "-".to_owned(), |vpid| vpid.to_string()),
                image.program.clone(),
            ];
            cells.extend(title.stored(&image.image.zones).into_iter().map(mib));
            let sizes = [
                image.image.uncompressed_bytes - image.image.data_bytes,
                image.image.uncompressed_bytes,
                image.image.file_bytes,
            ];
            cells.extend(sizes.map(mib));
            rows.push(cells);
        }
        for (name, sums) in [
            ("rank", &dir.totals.rank),
            ("launcher", &dir.totals.launcher),
        ] {
            if sums.images > 0 {
                rows.push(role_sums(name, sums, &title.stored(&sums.zones)));
            }
        }
        if width.is_some_and(|width| width_of(&rows) > width) {
            // what follows from the other columns gives way first
            remove_column(&mut rows, "overhead");
            shorten_header(&mut rows, "uncompressed", "plain");
            shorten_column(&mut rows, 2, LEAST_NAME, width);
        }
        table(out, 3, &rows)?;
    }
    if !(dir.broken.is_empty()
        && dir.temporary.is_empty()
        && dir.files_dirs.is_empty()
        && dir.named_like_images.is_empty())
    {
        writeln!(out)?;
    }
    for broken in &dir.broken {
        writeln!(
            out,
            "  broken     {} ({} MiB): {}",
            broken.file,
            mib(broken.file_bytes),
            broken.error.kind
        )?;
    }
    for temporary in &dir.temporary {
        writeln!(
            out,
            "  unfinished {} ({} MiB), not read, not in the sums",
            temporary.file,
            mib(temporary.file_bytes)
        )?;
    }
    for files in &dir.files_dirs {
        let name = files
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let orphan = if files.has_image {
            ""
        } else {
            ", its image is not here"
        };
        writeln!(
            out,
            "  saved      {name}: {} file(s), {} MiB{orphan}",
            files.files,
            mib(files.bytes)
        )?;
    }
    for directory in &dir.named_like_images {
        writeln!(
            out,
            "  directory  {directory}/ is named like an image: not read, not in the sums"
        )?;
    }
    let totals = &dir.totals;
    let mut rows = vec![
        vec![
            "ranks".to_owned(),
            format!("{} image(s)", totals.rank.images),
            mib(totals.rank.file_bytes),
        ],
        vec![
            "launchers".to_owned(),
            format!("{} image(s)", totals.launcher.images),
            mib(totals.launcher.file_bytes),
        ],
        vec![
            "saved files".to_owned(),
            format!("{} file(s)", totals.files_dirs.files),
            mib(totals.files_dirs.bytes),
        ],
    ];
    if totals.broken_images > 0 {
        rows.push(vec![
            "broken".to_owned(),
            format!("{} image(s)", totals.broken_images),
            mib(totals.broken_file_bytes),
        ]);
    }
    rows.push(vec![
        "total stored".to_owned(),
        String::new(),
        mib(totals.stored_bytes),
    ]);
    writeln!(out, "\non disk, MiB")?;
    table(out, 1, &rows)
}

/// Fewest characters that are left of a name.
pub(super) const LEAST_NAME: usize = 12;

/// Removes the column with this heading.
pub(super) fn remove_column(rows: &mut [Vec<String>], heading: &str) {
    let found = rows
        .first()
        .and_then(|header| header.iter().position(|cell| cell == heading));
    if let Some(column) = found {
        for row in rows.iter_mut().filter(|row| row.len() > column) {
            row.remove(column);
        }
    }
}

/// Gives a column a shorter heading.
pub(super) fn shorten_header(rows: &mut [Vec<String>], heading: &str, shorter: &str) {
    let header = rows.first_mut().into_iter().flatten();
    if let Some(cell) = header.into_iter().find(|cell| *cell == heading) {
        shorter.clone_into(cell);
    }
}

fn role_sums(name: &str, sums: &RoleTotals, zones: &[u64]) -> Vec<String> {
    let mut cells = vec![
        format!("all {name}s"),
        String::new(),
        format!("{} image(s)", sums.images),
    ];
    cells.extend(zones.iter().copied().map(mib));
    cells.extend(
        [
            sums.uncompressed_bytes - sums.data_bytes,
            sums.uncompressed_bytes,
            sums.file_bytes,
        ]
        .map(mib),
    );
    cells
}

/// A rule set in tables of several images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleTitle {
    Owner,
    Literal,
    Structural,
}

impl RuleTitle {
    /// In headings: `by the literal rules`.
    pub(super) fn by(self) -> &'static str {
        match self {
            Self::Owner => "by owner",
            Self::Literal => "by the literal rules",
            Self::Structural => "by the structural rules",
        }
    }

    /// Headings of the zones.
    pub(super) fn headings(self) -> impl Iterator<Item = &'static str> {
        let rest = (self == Self::Owner).then_some(OwnerZone::Rest.as_str());
        Zone::ALL.into_iter().map(Zone::as_str).chain(rest)
    }

    /// Stored bytes of the zones, in the order of the headings.
    pub(super) fn stored(self, zones: &Zones) -> Vec<u64> {
        match self {
            Self::Owner => OwnerZone::ALL
                .map(|zone| zones.owner.stored.zone(zone))
                .to_vec(),
            Self::Literal => Zone::ALL
                .map(|zone| zones.literal.stored.get(zone))
                .to_vec(),
            Self::Structural => Zone::ALL
                .map(|zone| zones.structural.stored.get(zone))
                .to_vec(),
        }
    }
}

/// An error with its hint, as the command prints it.
pub(super) fn error(error: &ImageError) -> String {
    format!("{error}\n  hint: {}", error.hint())
}

#[cfg(test)]
mod tests {
    use super::{remove_column, row, shorten_column, shortened, width_of};

    #[test]
    fn long_names_keep_their_ends_and_tables_get_as_narrow_as_they_can() {
        assert_eq!(
            shortened("ckpt_bt.A.x_1f-41000-6a.dmtcp", 13),
            "ckp…-6a.dmtcp"
        );
        assert_eq!(shortened("bt.A.x", 6), "bt.A.x");
        let mut rows = vec![
            row(["image", "role", "on disk"]),
            row(["a/very/long/path/to/an/image", "rank", "10.00"]),
        ];
        shorten_column(&mut rows, 0, 8, Some(30));
        assert_eq!(width_of(&rows), 30);
        shorten_column(&mut rows, 0, 8, Some(3));
        assert_eq!(rows[1][0].chars().count(), 8);
        remove_column(&mut rows, "role");
        assert_eq!(rows[1].len(), 2);
    }
}
