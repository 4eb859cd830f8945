//! Tests of estimates for compressed images: compares them with the size after compressing the whole file.

use super::common;
use crate::{
    args::image::ImageArgs,
    command::image::run::{Caller, run},
    image_error::ImageCommandError,
};
use clap::Parser;
use cvc_image::{EstimateOptions, ImageEstimate, Method, OwnerZone, Part, estimate_image};
use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

fn estimate(path: &Path, sample_bytes: Option<u64>) -> ImageEstimate {
    estimate_image(
        path,
        &EstimateOptions {
            methods: vec![Method::Gzip],
            sample_bytes,
        },
        &|_, _| (),
    )
    .unwrap()
}

/// Returns the number of bytes after `gzip -1`.
fn gzipped(path: &Path) -> f64 {
    let output = Command::new("gzip")
        .args(["-1", "-c"])
        .stdin(File::open(path).unwrap())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
    output.stdout.len() as f64
}

/// Writes an image with the areas of a fixture. Its data are numbers of a slowly changing field, small integers, and noise, so that samples differ.
fn image_with_data(fixture: &str, to: &Path) {
    let image = cvc_image::read_image_with(
        &common::fixture(fixture),
        cvc_image::ReadOptions { areas: true },
    )
    .unwrap();
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(File::open(common::fixture(fixture)).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    let mut state = 7u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for area in &image.areas {
        let from = usize::try_from(area.file_offset).unwrap() + cvc_image::PAGE;
        let data = &mut bytes[from..from + usize::try_from(area.data_bytes).unwrap()];
        let is_file = !area.name.is_empty() && area.name.as_bytes()[0] == b'/';
        for (i, value) in data.chunks_exact_mut(8).enumerate() {
            let number = if is_file {
                random() & 0x0f0f_0f0f
            } else {
                // some megabytes of the field are smoother than others
                let digits = (i >> 18) % 5 * 10;
                ((i as f64 * 1e-5).sin().to_bits() >> 12 << 12) | (random() & ((1 << digits) - 1))
            };
            value.copy_from_slice(&number.to_le_bytes());
        }
    }
    File::create(to).unwrap().write_all(&bytes).unwrap();
}

#[test]
fn an_estimate_of_all_bytes_is_what_gzip_makes_of_the_file_within_three_percent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ckpt_x_1-2-3.dmtcp");
    image_with_data("mpich-btA-np4-rank0", &path);
    let whole = estimate(&path, None);
    assert_eq!(whole.sampled_bytes, whole.image.uncompressed_bytes);
    let (total, measured) = (whole.methods[0].total(), gzipped(&path));
    assert!(
        (total.compressed_bytes / measured - 1.0).abs() < 0.03,
        "{total:?} {measured}"
    );
    assert_eq!(
        (total.bytes, total.standard_error_bytes),
        (whole.image.uncompressed_bytes as f64, 0.0)
    );
    assert!(total.cpu_s > 0.0);
    // the bytes of each part equal those of the image's zones
    for part in Part::ALL {
        let stored = whole.image.zones.owner.stored.get(part) as f64;
        assert!(
            (whole.methods[0].part(part).bytes - stored).abs() < 1.0,
            "{part:?}"
        );
    }
}

#[test]
fn a_sample_is_near_the_file_and_tells_its_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ckpt_x_1-2-3.dmtcp");
    image_with_data("mpich-btB-np4-rank0", &path);
    let sampled = estimate(&path, Some(32 << 20));
    let (total, measured) = (sampled.methods[0].total(), gzipped(&path));
    assert!(
        sampled.sampled_bytes < sampled.image.uncompressed_bytes * 2 / 3,
        "{}",
        sampled.sampled_bytes
    );
    assert!(total.standard_error_bytes > 0.0);
    let error = (total.compressed_bytes - measured).abs();
    assert!(
        error < 0.03 * measured || error < 3.0 * total.standard_error_bytes,
        "{total:?} {measured}"
    );
    let again = estimate(&path, Some(32 << 20));
    assert_eq!(
        again.methods[0].total().compressed_bytes,
        total.compressed_bytes,
        "the same sample each time"
    );
}

#[test]
fn a_gzipped_image_is_estimated_as_if_it_were_plain() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, gzip) = (
        dir.path().join("ckpt_x_1-2-3.dmtcp"),
        dir.path().join("ckpt_y_1-2-3.dmtcp"),
    );
    image_with_data("v3-single-process", &plain);
    assert!(
        Command::new("gzip")
            .args(["-1", "-c"])
            .stdin(File::open(&plain).unwrap())
            .stdout(File::create(&gzip).unwrap())
            .status()
            .unwrap()
            .success()
    );
    let of = |path: &Path| {
        estimate(path, Some(16 << 20)).methods[0]
            .total()
            .compressed_bytes
    };
    assert_eq!(of(&plain), of(&gzip));
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: ImageArgs,
}

fn command(path: &Path, flags: &[&str]) -> (String, Result<(), ImageCommandError>) {
    let arguments = ["image".into(), path.to_owned()]
        .into_iter()
        .chain(flags.iter().map(PathBuf::from));
    let mut out = Vec::new();
    let result = run(
        &Cli::try_parse_from(arguments).unwrap().args,
        Caller::default(),
        &mut out,
    );
    (String::from_utf8(out).unwrap(), result)
}

#[test]
fn the_command_shows_zones_and_sums_of_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    for (fixture, name) in [
        ("v3-single-process", "ckpt_a_1-2-3.dmtcp"),
        ("mpich-btW-np4-mpiexec", "below/ckpt_b_1-2-4.dmtcp"),
    ] {
        fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        fs::copy(common::fixture(fixture), dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("ckpt_c_1-2-5.dmtcp"), b"oops").unwrap();
    let (text, result) = command(dir.path(), &["--estimate", "gzip"]);
    let error = result.unwrap_err();
    assert!(
        matches!(error, ImageCommandError::BrokenTree { .. })
            && error.to_string().contains("ckpt_c_1-2-5"),
        "{error}"
    );
    for expected in [
        "in 2 image(s); estimated by compressing, of all bytes",
        "\nbelow/ckpt_b_1-2-4.dmtcp ",
        "\nDTAPP ",
        "\n  allocated ",
        "\ngzip -1: 0.0",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    let (text, _) = command(dir.path(), &["--estimate", "gzip", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |of: &serde_json::Value, key: &str| {
        of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
    };
    let gzip = &json["total"]["methods"]["gzip"];
    assert_eq!(
        (gzip["command"].as_str(), number(gzip, "bytes")),
        (
            Some("gzip -1"),
            number(&json["total"], "uncompressed_bytes")
        )
    );
    let of_images: u64 = json["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| number(&i["methods"]["gzip"], "compressed_bytes"))
        .sum();
    assert!(
        of_images.abs_diff(number(gzip, "compressed_bytes")) <= 1,
        "{json}"
    );
    let zones: u64 = OwnerZone::ALL
        .iter()
        .map(|zone| number(&gzip["zones"][zone.as_str()], "bytes"))
        .sum();
    let parts: u64 = Part::ALL
        .iter()
        .map(|part| number(&gzip["parts"][part.as_str()], "bytes"))
        .sum();
    assert!(
        zones.abs_diff(parts) <= 8
            && zones + number(&gzip["headers"], "bytes") >= number(gzip, "bytes") - 8,
        "{json}"
    );
}

#[test]
fn impossible_estimates_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = command(dir.path(), &["--estimate", "gzip"]).1.unwrap_err();
    assert!(
        matches!(error, ImageCommandError::NoImages { .. }),
        "{error}"
    );
    let error = command(&dir.path().join("absent"), &["--estimate", "gzip"])
        .1
        .unwrap_err();
    assert!(matches!(error, ImageCommandError::Image(_)), "{error}");
    let path = common::fixture("v3-single-process");
    let path = path.to_str().unwrap();
    assert!(Cli::try_parse_from(["image", path, "--estimate", "bzip2"]).is_err());
    assert!(Cli::try_parse_from(["image", path, "--sample", "3"]).is_err());
    assert!(Cli::try_parse_from(["image", path, "--estimate", "gzip", "--listing"]).is_err());
}
