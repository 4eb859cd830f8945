//! Errors of `cvc image`.

use cvc_image::{ImageError, Method};
use std::{io, path::PathBuf};

/// Why `cvc image` failed. `Display` gives the whole message with its hint. The parts that could be shown have been printed before.
#[derive(Debug, thiserror::Error)]
pub enum ImageCommandError {
    /// The image or the directory cannot be read.
    #[error("{}", .0.with_hint())]
    Image(#[from] ImageError),
    /// The compression program is missing or fails.
    #[error("cannot compress with {}: {error}\n  hint: {}", .method.program(), compressor_hint(*.method, .error))]
    Compressor {
        /// The compression program.
        method: Method,
        /// The error of the program.
        error: io::Error,
    },
    /// Some images of a directory cannot be read; the others were printed.
    #[error("{} of {} image(s) in {} cannot be read{}", .errors.len(), .images, .path.display(), listed(.errors))]
    BrokenImages {
        /// The directory.
        path: PathBuf,
        /// Number of all images, readable or not.
        images: usize,
        /// The error of each unreadable image.
        errors: Vec<ImageError>,
    },
    /// Some images or directories below a directory cannot be read; the others were printed.
    #[error("{} below {} cannot be read{}", unreadable(*.images, *.directories), .path.display(), listed(.errors))]
    BrokenTree {
        /// The directory.
        path: PathBuf,
        /// Number of images that cannot be read.
        images: usize,
        /// Number of directories that cannot be listed.
        directories: usize,
        /// The error of each.
        errors: Vec<ImageError>,
    },
    /// The directory has no images.
    #[error("{}: no images (`*.dmtcp`, `*.dmtcp.gz`) in this directory or below{}", .path.display(), instead(.named_like_images))]
    NoImages {
        /// The directory.
        path: PathBuf,
        /// Subdirectories that are named like images.
        named_like_images: Vec<PathBuf>,
    },
    /// `--listing` was given with a directory.
    #[error("{}: --listing needs one image, but this is a directory\n  hint: give an image, or leave out `--listing`", .0.display())]
    ListingOfDirectory(PathBuf),
    /// `--against` was given with a directory.
    #[error("{}: --against compares two images, but this is a directory\n  hint: give an image; `cvc image` with the directory lists them", .0.display())]
    AgainstDirectory(PathBuf),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

/// Maximum number of errors in a message; the output names all images.
const LISTED: usize = 20;

fn listed(errors: &[ImageError]) -> String {
    let first: String = errors
        .iter()
        .take(LISTED)
        .map(|error| format!("\n  {}", error.with_hint().replace('\n', "\n  ")))
        .collect();
    let more = errors.len().saturating_sub(LISTED);
    if more > 0 {
        format!("{first}\n  and {more} more")
    } else {
        first
    }
}

fn unreadable(images: usize, directories: usize) -> String {
    let parts = [(images, "image(s)"), (directories, "directories")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, of)| format!("{count} {of}"))
        .collect();
    parts.join(" and ")
}

fn instead(named_like_images: &[PathBuf]) -> String {
    let directory = named_like_images
        .first()
        .map(|path| format!("; {} is a directory", path.display()))
        .unwrap_or_default();
    format!("{directory}\n  hint: give the directory passed to DMTCP as `--ckptdir`")
}

fn compressor_hint(method: Method, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        format!(
            "install it (most distributions have a package {}), or leave it out of `--estimate`",
            method.program()
        )
    } else {
        "the estimate needs it to run; test it by hand".to_owned()
    }
}
