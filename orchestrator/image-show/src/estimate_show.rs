//! Estimates of compressed images as text and JSON.

use crate::show::table;
use cvc_image::{ImageEstimate, Method, MethodEstimate, OwnerZone, Part, PartEstimate};
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

const MIB: f64 = 1_048_576.0;

/// Estimates of one image, or of all below a directory.
#[derive(Debug, Default, Serialize)]
pub(super) struct Estimates {
    /// The image or directory.
    path: PathBuf,
    /// By path.
    images: Vec<Row>,
    /// All images together.
    total: Row,
}

/// One image, or all.
#[derive(Debug, Default, Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    uncompressed_bytes: u64,
    sampled_bytes: u64,
    #[serde(serialize_with = "by_program")]
    methods: Vec<MethodEstimate>,
}

impl Estimates {
    pub(super) fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, estimate: &ImageEstimate) {
        let image = &estimate.image;
        let row = Row {
            path: Some(image.path.clone()),
            uncompressed_bytes: image.uncompressed_bytes,
            sampled_bytes: estimate.sampled_bytes,
            methods: estimate.methods.clone(),
        };
        self.total.uncompressed_bytes += row.uncompressed_bytes;
        self.total.sampled_bytes += row.sampled_bytes;
        if self.total.methods.is_empty() {
            self.total.methods.clone_from(&row.methods);
        } else {
            self.total
                .methods
                .iter_mut()
                .zip(&row.methods)
                .for_each(|(total, of)| total.add(of));
        }
        self.images.push(row);
    }

    /// Zones of all together, below a line for each image if there are several.
    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.path.display())?;
        let total = &self.total;
        let sampled = if total.sampled_bytes < total.uncompressed_bytes {
            format!("of a sample of {} MiB", mib(total.sampled_bytes as f64))
        } else {
            "of all bytes".to_owned()
        };
        writeln!(
            out,
            "  {} MiB in {} image(s); estimated by compressing, {sampled}",
            mib(total.uncompressed_bytes as f64),
            self.images.len()
        )?;
        let methods = &total.methods;
        if self.images.len() > 1 {
            writeln!(out, "\nimages, MiB, and seconds of a processor")?;
            let mut rows = vec![headings("image", methods)];
            for image in &self.images {
                let path = image.path.as_deref().unwrap_or(&self.path);
                let name = path
                    .strip_prefix(&self.path)
                    .unwrap_or(path)
                    .display()
                    .to_string();
                rows.push(line(&name, &image.methods, MethodEstimate::total));
            }
            table(out, 1, &rows)?;
        }
        writeln!(out, "\nzones by owner, MiB, and seconds of a processor")?;
        let mut rows = vec![headings("zone", methods)];
        for zone in OwnerZone::ALL {
            rows.push(line(zone.as_str(), methods, |estimate| {
                of_zone(estimate, zone)
            }));
            for part in Part::ALL.into_iter().filter(|part| part.zone() == zone) {
                rows.push(line(&format!("  {}", part.as_str()), methods, |estimate| {
                    estimate.part(part)
                }));
            }
        }
        rows.push(line("headers", methods, MethodEstimate::headers));
        rows.push(line("sum", methods, MethodEstimate::total));
        table(out, 1, &rows)?;
        writeln!(out)?;
        for estimate in methods {
            let total = estimate.total();
            let sure = if total.standard_error_bytes > 0.0 {
                format!(
                    "; standard error of the sample {:.1} %",
                    100.0 * total.standard_error_bytes / total.compressed_bytes.max(1.0)
                )
            } else {
                String::new()
            };
            let rate = if total.cpu_s > 0.0 {
                format!(", {:.0} MiB/s on one core", total.bytes / MIB / total.cpu_s)
            } else {
                String::new()
            };
            writeln!(
                out,
                "{}: {:.3} of the size{rate}{sure}",
                estimate.method.command(),
                total.compressed_bytes / total.bytes.max(1.0)
            )?;
        }
        Ok(())
    }
}

fn mib(bytes: f64) -> String {
    format!("{:.2}", bytes / MIB)
}

fn headings(first: &str, methods: &[MethodEstimate]) -> Vec<String> {
    let mut row = vec![first.to_owned(), "stored".to_owned()];
    row.extend(
        methods
            .iter()
            .flat_map(|estimate| [estimate.method.command().to_owned(), "s".to_owned()]),
    );
    row
}

fn line(
    name: &str,
    methods: &[MethodEstimate],
    of: impl Fn(&MethodEstimate) -> PartEstimate,
) -> Vec<String> {
    let parts: Vec<PartEstimate> = methods.iter().map(of).collect();
    let mut row = vec![
        name.to_owned(),
        mib(parts.first().map_or(0.0, |part| part.bytes)),
    ];
    row.extend(
        parts
            .iter()
            .flat_map(|part| [mib(part.compressed_bytes), format!("{:.2}", part.cpu_s)]),
    );
    row
}

fn of_zone(estimate: &MethodEstimate, zone: OwnerZone) -> PartEstimate {
    let mut sum = PartEstimate::default();
    Part::ALL
        .into_iter()
        .filter(|part| part.zone() == zone)
        .for_each(|part| sum.add(&estimate.part(part)));
    sum
}

/// A part in JSON.
#[derive(Serialize)]
struct PartText {
    bytes: u64,
    compressed_bytes: u64,
    standard_error_bytes: u64,
    cpu_s: f64,
}

impl From<PartEstimate> for PartText {
    fn from(part: PartEstimate) -> Self {
        let whole = |bytes: f64| bytes.round().max(0.0) as u64;
        Self {
            bytes: whole(part.bytes),
            compressed_bytes: whole(part.compressed_bytes),
            standard_error_bytes: whole(part.standard_error_bytes),
            cpu_s: part.cpu_s,
        }
    }
}

/// A way to compress in JSON.
#[derive(Serialize)]
struct MethodText<'a> {
    command: &'static str,
    #[serde(flatten)]
    total: PartText,
    zones: Named<'a, OwnerZone>,
    parts: Named<'a, Part>,
    headers: PartText,
}

/// Numbers by the name of what they are of.
struct Named<'a, T>(
    &'a MethodEstimate,
    &'a [T],
    fn(T) -> &'static str,
    fn(&MethodEstimate, T) -> PartEstimate,
);

impl<T: Copy> Serialize for Named<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(estimate, all, name, of) = self;
        serializer.collect_map(
            all.iter()
                .map(|one| (name(*one), PartText::from(of(estimate, *one)))),
        )
    }
}

/// As an object with the programs as keys.
fn by_program<S: Serializer>(methods: &[MethodEstimate], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(methods.len()))?;
    for estimate in methods {
        let text = MethodText {
            command: Method::command(estimate.method),
            total: estimate.total().into(),
            zones: Named(estimate, &OwnerZone::ALL, OwnerZone::as_str, of_zone),
            parts: Named(estimate, &Part::ALL, Part::as_str, |estimate, part| {
                estimate.part(part)
            }),
            headers: estimate.headers().into(),
        };
        map.serialize_entry(estimate.method.program(), &text)?;
    }
    map.end()
}
