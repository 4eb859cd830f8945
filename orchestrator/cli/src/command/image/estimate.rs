//! Output of estimates for compressed images, as text and JSON.

use cvc_core::units::MIB;
use cvc_image::{ImageEstimate, Method, MethodEstimate, OwnerZone, Part, PartEstimate};
use cvc_show::{Blocks, Table, format::mib};
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::path::{Path, PathBuf};

/// Estimates of one image, or of all below a directory.
#[derive(Debug, Default, Serialize)]
pub struct Estimates {
    /// The image or directory.
    path: PathBuf,
    /// The estimate of each image.
    images: Vec<ImageEstimateRow>,
    /// The sum over all images.
    total: ImageEstimateRow,
}

/// Estimate for one image, or the sum over all.
#[derive(Debug, Default, Serialize)]
struct ImageEstimateRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    uncompressed_bytes: u64,
    sampled_bytes: u64,
    #[serde(serialize_with = "by_program")]
    methods: Vec<MethodEstimate>,
}

impl Estimates {
    pub fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::default()
        }
    }

    pub fn add(&mut self, estimate: &ImageEstimate) {
        let image = &estimate.image;
        let row = ImageEstimateRow {
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

    /// Prints the zones of all images together, after one line for each image if there are several.
    pub fn show(&self, out: &mut Blocks) {
        out.line(self.path.display().to_string());
        let total = &self.total;
        let sampled = if total.sampled_bytes < total.uncompressed_bytes {
            format!("of a sample of {} MiB", mib(total.sampled_bytes as f64))
        } else {
            "of all bytes".to_owned()
        };
        out.line(format!(
            "  {} MiB in {} image(s); estimated by compressing, {sampled}",
            mib(total.uncompressed_bytes as f64),
            self.images.len()
        ));
        let methods = &total.methods;
        if self.images.len() > 1 {
            out.heading("images, MiB, and seconds of a processor");
            let mut rows = table("image", methods);
            for image in &self.images {
                let path = image.path.as_deref().unwrap_or(&self.path);
                let name = path.strip_prefix(&self.path).unwrap_or(path).display();
                rows.row(line(
                    &name.to_string(),
                    &image.methods,
                    MethodEstimate::total,
                ));
            }
            out.table(rows);
        }
        out.heading("zones by owner, MiB, and seconds of a processor");
        let mut rows = table("zone", methods);
        for zone in OwnerZone::ALL {
            rows.row(line(zone.as_str(), methods, |estimate| {
                of_zone(estimate, zone)
            }));
            for part in Part::ALL.into_iter().filter(|part| part.zone() == zone) {
                let name = format!("  {}", part.as_str());
                rows.row(line(&name, methods, |estimate| estimate.part(part)));
            }
        }
        rows.row(line("headers", methods, MethodEstimate::headers));
        rows.row(line("sum", methods, MethodEstimate::total));
        out.table(rows);
        out.gap();
        for estimate in methods {
            let total = estimate.total();
            let mut text = format!(
                "{}: {:.3} of the size",
                estimate.method.command(),
                total.compressed_bytes / total.bytes.max(1.0)
            );
            if total.cpu_s > 0.0 {
                let rate = total.bytes / MIB / total.cpu_s;
                text += &format!(", {rate:.0} MiB/s on one core");
            }
            if total.standard_error_bytes > 0.0 {
                let pct = 100.0 * total.standard_error_bytes / total.compressed_bytes.max(1.0);
                text += &format!("; standard error of the sample {pct:.1} %");
            }
            out.line(text);
        }
    }
}

fn table(first: &'static str, methods: &[MethodEstimate]) -> Table {
    let of_methods = methods.iter().flat_map(|of| [of.method.command(), "s"]);
    Table::plain([first, "stored"].into_iter().chain(of_methods)).right_from(1)
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

/// Estimate for a part of an image, in JSON.
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

/// Estimate for a compression program, in JSON.
#[derive(Serialize)]
struct MethodText<'a> {
    command: &'static str,
    #[serde(flatten)]
    total: PartText,
    zones: Named<'a, OwnerZone>,
    parts: Named<'a, Part>,
    headers: PartText,
}

/// A JSON object with one entry for each zone or part.
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

/// Serializes estimates as an object with the compression programs as keys.
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
