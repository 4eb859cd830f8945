//! `cvc image FILE|DIR`: zones of an image or of a checkpoint directory.

use super::{
    dir::{CheckpointDir, read_dir},
    error::ImageError,
    filename::PREFIX,
    listing::write_listing,
    model::Image,
    reader::read_image,
    show::{self, Rules},
};
use serde::Serialize;
use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// The zone rules to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RuleSet {
    /// By the order of the listing: everything up to `[heap]` is application data
    Literal,
    /// By the kind of each region
    Structural,
    /// Both, and where they differ
    #[default]
    Both,
}

/// Show the zones of a DMTCP checkpoint image, or of all images of a checkpoint directory.
#[derive(Clone, Debug, clap::Args)]
pub struct ImageArgs {
    /// An image (ckpt_*.dmtcp, plain or gzip'd), or a directory of images
    pub path: PathBuf,
    /// Print everything as JSON, with both rule sets
    #[arg(long, conflicts_with = "listing")]
    pub json: bool,
    /// Print what DMTCP's own `mtcp_restart --simulate` prints, without its first line (images only)
    #[arg(long)]
    pub listing: bool,
    /// Zone rules to show as text
    #[arg(long, value_enum, default_value_t)]
    pub rules: RuleSet,
}

/// The reason why the command failed. `Display` gives the whole message, hint included; everything that could be shown was written before.
#[derive(Debug, thiserror::Error)]
pub enum ImageCommandError {
    /// The image or the directory cannot be read.
    #[error("{}", show::error(.0))]
    Image(#[from] ImageError),
    /// Some images of a directory cannot be read; the others were shown.
    #[error("{} of {} image(s) in {} cannot be read{}", .errors.len(), .images, .path.display(), listed(.errors))]
    BrokenImages {
        /// The directory.
        path: PathBuf,
        /// All images, readable or not.
        images: usize,
        /// The problem of each.
        errors: Vec<ImageError>,
    },
    /// There is nothing to show.
    #[error("{}: no images (`ckpt_*.dmtcp`) in this directory{}", .path.display(), within(.subdirectory.as_deref()))]
    NoImages {
        /// The directory.
        path: PathBuf,
        /// One of its directories that may hold them.
        subdirectory: Option<PathBuf>,
    },
    /// `--listing` was asked of a directory.
    #[error("{}: a listing is of one image, and this is a directory\n  hint: name an image, or leave out `--listing`", .0.display())]
    ListingOfDirectory(PathBuf),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

impl ImageCommandError {
    /// Exit code of the process: 2 for a wrong command line, 6 for input that cannot be read, 7 for output.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::ListingOfDirectory(_) => 2,
            Self::Image(_) | Self::BrokenImages { .. } | Self::NoImages { .. } => 6,
            Self::Output(_) => 7,
        }
    }
}

fn listed(errors: &[ImageError]) -> String {
    errors.iter().map(|error| format!("\n  {}", show::error(error).replace('\n', "\n  "))).collect()
}

fn within(subdirectory: Option<&Path>) -> String {
    match subdirectory {
        Some(dir) => format!("\n  hint: there may be some in {}", dir.display()),
        None => "\n  hint: give the directory that was passed to DMTCP as `--ckptdir`".to_owned(),
    }
}

/// Runs the command, writing to `out`. A reader that goes away (`cvc image ... | head`) is not an error.
///
/// # Errors
/// [`ImageCommandError`], to be printed as it is.
pub fn run(args: &ImageArgs, out: &mut dyn Write) -> Result<(), ImageCommandError> {
    if args.path.is_dir() { run_dir(args, out) } else { run_file(args, out) }
}

fn run_file(args: &ImageArgs, out: &mut dyn Write) -> Result<(), ImageCommandError> {
    let image = read_image(&args.path)?;
    written(show_image(args, &image, out))
}

fn show_image(args: &ImageArgs, image: &Image, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    if args.json {
        json(image, &mut out)?;
    } else if args.listing {
        write_listing(image, &mut out)?;
    } else {
        show::image(image, rules(args.rules), &mut out)?;
    }
    out.flush()
}

fn run_dir(args: &ImageArgs, out: &mut dyn Write) -> Result<(), ImageCommandError> {
    if args.listing {
        return Err(ImageCommandError::ListingOfDirectory(args.path.clone()));
    }
    let dir = read_dir(&args.path)?;
    if dir.images.is_empty() && dir.broken.is_empty() && dir.temporary.is_empty() {
        return Err(ImageCommandError::NoImages { subdirectory: checkpoint_below(&args.path), path: args.path.clone() });
    }
    written(show_dir(args, &dir, out))?;
    if dir.broken.is_empty() {
        return Ok(());
    }
    let images = dir.images.len() + dir.broken.len();
    Err(ImageCommandError::BrokenImages { path: dir.path, images, errors: dir.broken.into_iter().map(|broken| broken.error).collect() })
}

fn show_dir(args: &ImageArgs, dir: &CheckpointDir, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    if args.json {
        json(dir, &mut out)?;
    } else {
        show::dir(dir, rules(args.rules), &mut out)?;
    }
    out.flush()
}

/// How far below a directory images are looked for: in a campaign they lie in `work/RUN/ckpt`.
const DEPTH: u32 = 4;

/// The last directory below, by name and as near as there is one, that holds images. With the "unique-ckpt" plugin every checkpoint has a
/// directory of its own, named like an image.
fn checkpoint_below(path: &Path) -> Option<PathBuf> {
    let mut level = vec![path.to_owned()];
    for _ in 0..DEPTH {
        let below = |dir: &PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect::<Vec<_>>();
        let is_named = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        level = level.iter().flat_map(below).filter(|path| path.is_dir() && !path.is_symlink()).collect();
        let holds = |dir: &&PathBuf| is_named(dir) || below(dir).iter().any(|path| is_named(path) && path.is_file());
        if let Some(found) = level.iter().filter(holds).max() {
            return Some(found.clone());
        }
    }
    None
}

fn rules(rules: RuleSet) -> Rules {
    match rules {
        RuleSet::Literal => Rules { literal: true, structural: false },
        RuleSet::Structural => Rules { literal: false, structural: true },
        RuleSet::Both => Rules { literal: true, structural: true },
    }
}

fn json<T: Serialize>(value: &T, out: &mut dyn Write) -> io::Result<()> {
    // serde_json wraps the error of the writer; unwrap it, so that a broken pipe is still seen as one.
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)
}

/// Distinguishes a reader that went away from an output that cannot be written.
fn written(result: io::Result<()>) -> Result<(), ImageCommandError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(ImageCommandError::Output(error)),
        Ok(()) => Ok(()),
    }
}
