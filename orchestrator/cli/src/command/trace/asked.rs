//! Options of `cvc trace` that name further files: thresholds, images.

use crate::{exit_status::ExitStatus, failure::Failure};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::point::CheckpointerKind;
use cvc_trace::ZoneSink;
use cvc_trace::findings::Thresholds;
use std::{fs, path::Path};

/// Reads thresholds from a TOML file; thresholds that it does not set keep their defaults.
pub fn thresholds(path: Option<&Utf8Path>) -> Result<Thresholds, Failure> {
    let Some(path) = path else {
        return Ok(Thresholds::default());
    };
    let wrong = |message: String, hint: &str| Failure::Other {
        status: ExitStatus::Usage,
        message,
        hint: Some(hint.into()),
    };
    let text = fs::read_to_string(path).map_err(|e| {
        wrong(
            format!("cannot read {path}: {e}"),
            "give a TOML file with --thresholds",
        )
    })?;
    toml::from_str(&text).map_err(|e| {
        let names = toml::Value::try_from(Thresholds::default())
            .ok()
            .and_then(|v| v.as_table().map(|t| t.keys().cloned().collect::<Vec<_>>()))
            .unwrap_or_default();
        wrong(
            format!("{path}: {}", e.to_string().trim_end()),
            &format!("thresholds are {}", names.join(", ")),
        )
    })
}

/// Opens the images whose writes are searched in the trace: files, or the images of checkpoint directories.
pub fn zones(paths: &[Utf8PathBuf]) -> Result<Option<ZoneSink>, Failure> {
    if paths.is_empty() {
        return Ok(None);
    }
    let mut images = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = path.read_dir_utf8().and_then(Iterator::collect);
            let mut entries: Vec<camino::Utf8DirEntry> =
                entries.map_err(|e| unreadable(format!("cannot read {path}: {e}"), None))?;
            entries.sort_by(|a, b| a.file_name().cmp(b.file_name()));
            images.extend(
                entries
                    .into_iter()
                    .filter(|e| {
                        let name = e.file_name();
                        CheckpointerKind::all_driven().any(|(_, of)| of.is_image(name))
                    })
                    .map(camino::Utf8DirEntry::into_path),
            );
        } else {
            images.push(path.clone());
        }
    }
    if images.is_empty() {
        let hint = "give an image, or a directory with ckpt_*.dmtcp; `keep_images = true` in [run] keeps those of campaigns";
        return Err(unreadable("--images: there is no image".into(), Some(hint)));
    }
    let paths: Vec<&Path> = images.iter().map(|p| p.as_std_path()).collect();
    let (sink, gzip) = ZoneSink::of(&paths).map_err(|e| unreadable(e.to_string(), None))?;
    if let Some(first) = gzip.first() {
        return Err(unreadable(
            format!(
                "{first} is gzip'd: its process wrote through a pipe, so its writes show no zones"
            ),
            Some("trace a run with `compression = \"none\"`"),
        ));
    }
    Ok(Some(sink))
}

fn unreadable(message: String, hint: Option<&str>) -> Failure {
    Failure::Other {
        status: ExitStatus::Unreadable,
        message,
        hint: hint.map(str::to_owned),
    }
}
