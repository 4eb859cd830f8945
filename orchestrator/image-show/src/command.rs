//! `cvc image FILE|DIR`: zones of an image, of a checkpoint directory, or of all images below a directory.

use crate::{
    estimate_show::Estimates,
    show::{self, Rules},
    tree_show::{self, Group, Grouping, Shown, Sort},
};
use cvc_image::{
    CheckpointDir, EstimateError, EstimateOptions, Image, ImageError, ImageTree, Method,
    estimate_image, find_images, read_dir, read_image, read_tree, write_listing,
};
use serde::Serialize;
use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// The zone rules to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RuleSet {
    /// By whose the memory is: the program's (static, heap, allocated), libraries', really shared
    #[default]
    Owner,
    /// By the order of the listing: everything up to `[heap]` is application data
    Literal,
    /// By the kind of each region
    Structural,
    /// Literal and structural, and where they differ
    Both,
}

/// A way to compress an image, as it is named in commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MethodName {
    /// `gzip -1`: what DMTCP itself pipes images through
    Gzip,
    /// `zstd -3`: the default of zstd, on one thread
    Zstd,
    /// `lz4 -1`: the default of lz4
    Lz4,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Gzip => Self::Gzip,
            MethodName::Zstd => Self::Zstd,
            MethodName::Lz4 => Self::Lz4,
        }
    }
}

/// Show the zones of a DMTCP checkpoint image, of all images of a checkpoint directory, or of all below a directory, such as a campaign's.
#[derive(Clone, Debug, clap::Args)]
pub struct ImageArgs {
    /// An image (ckpt_*.dmtcp, plain or gzip'd), a directory of images, or one with images somewhere below, such as a campaign's
    pub path: PathBuf,
    /// Print everything as JSON, with all rule sets
    #[arg(long, conflicts_with = "listing")]
    pub json: bool,
    /// Print what DMTCP's own `mtcp_restart --simulate` prints, without its first line (images only)
    #[arg(long)]
    pub listing: bool,
    /// Zone rules to show as text
    #[arg(long, value_enum, default_value_t)]
    pub rules: RuleSet,
    /// Look for images in all directories below, also if the directory itself has some
    #[arg(long, short)]
    pub recursive: bool,
    /// Order of the images below a directory and of their sums [default: size]
    #[arg(long, value_enum, value_name = "BY", conflicts_with = "listing")]
    pub sort: Option<Sort>,
    /// Show only the first N images below a directory; sums are of all
    #[arg(long, value_name = "N", conflicts_with = "listing")]
    pub top: Option<usize>,
    /// Estimate what the image, or all images below a directory, would take if they were compressed, by zone, and how long that takes a core
    #[arg(long, value_enum, value_name = "METHOD", value_delimiter = ',', conflicts_with_all = ["listing", "rules", "sort", "top"])]
    pub estimate: Vec<MethodName>,
    /// How much of each image is compressed for an estimate, about; 0 for all of it
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "estimate")]
    pub sample: u64,
}

/// What the caller of the command adds to it.
#[derive(Default)]
pub struct Caller<'a> {
    /// Is told how many images of how many are read, by several threads.
    pub progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
    /// Is told how many MiB of how many an estimate has passed over.
    pub estimating: Option<&'a dyn Fn(u64, u64)>,
    /// Width of the terminal on which text is shown, if it is one: tables get as narrow, as far as they can.
    pub width: Option<usize>,
    /// By what images below the directory are summed up, beside their directories.
    pub groupings: Vec<Grouping<'a>>,
}

impl std::fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("width", &self.width)
            .field("groupings", &self.groupings)
            .finish_non_exhaustive()
    }
}

/// The reason why the command failed. `Display` gives the whole message, hint included; everything that could be shown was written before.
#[derive(Debug, thiserror::Error)]
pub enum ImageCommandError {
    /// The image or the directory cannot be read.
    #[error("{}", show::error(.0))]
    Image(#[from] ImageError),
    /// The program that compresses is missing or fails.
    #[error("cannot compress with {}: {error}\n  hint: {}", .method.program(), compressor_hint(*.method, .error))]
    Compressor {
        /// Which.
        method: Method,
        /// What is wrong.
        error: io::Error,
    },
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
    /// Some images or directories below a directory cannot be read; the others were shown.
    #[error("{} below {} cannot be read{}", unreadable(*.images, *.directories), .path.display(), listed(.errors))]
    BrokenTree {
        /// The directory.
        path: PathBuf,
        /// Images that cannot be read.
        images: usize,
        /// Directories that cannot be listed.
        directories: usize,
        /// The problem of each.
        errors: Vec<ImageError>,
    },
    /// There is nothing to show.
    #[error("{}: no images (`*.dmtcp`, `*.dmtcp.gz`) in this directory or below{}", .path.display(), instead(.named_like_images))]
    NoImages {
        /// The directory.
        path: PathBuf,
        /// Directories below that are named like images.
        named_like_images: Vec<PathBuf>,
    },
    /// `--listing` was asked of a directory.
    #[error("{}: a listing is of one image, and this is a directory\n  hint: name an image, or leave out `--listing`", .0.display())]
    ListingOfDirectory(PathBuf),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

/// Most errors that a message lists; the output names all images.
const LISTED: usize = 20;

fn listed(errors: &[ImageError]) -> String {
    let first: String = errors
        .iter()
        .take(LISTED)
        .map(|error| format!("\n  {}", show::error(error).replace('\n', "\n  ")))
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
    format!("{directory}\n  hint: give the directory that was passed to DMTCP as `--ckptdir`")
}

fn compressor_hint(method: Method, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        format!(
            "install it (most distributions have a package {}), or leave it out of `--estimate`",
            method.program()
        )
    } else {
        "the estimate is made by running it; try it by hand".to_owned()
    }
}

/// Runs the command, writing to `out`. A reader that goes away (`cvc image ... | head`) is not an error.
///
/// # Errors
/// [`ImageCommandError`], to be printed as it is.
pub fn run(args: &ImageArgs, out: &mut dyn Write) -> Result<(), ImageCommandError> {
    run_for(args, Caller::default(), out)
}

/// Runs the command for a caller that shows progress or knows what directories mean.
///
/// # Errors
/// As [`run`].
pub fn run_for(
    args: &ImageArgs,
    caller: Caller<'_>,
    out: &mut dyn Write,
) -> Result<(), ImageCommandError> {
    if !args.estimate.is_empty() {
        return run_estimate(args, &caller, out);
    }
    if !args.path.is_dir() {
        return run_file(args, out);
    }
    if args.listing {
        return Err(ImageCommandError::ListingOfDirectory(args.path.clone()));
    }
    if args.recursive || args.sort.is_some() || args.top.is_some() {
        return run_tree(args, caller, out);
    }
    let dir = read_dir(&args.path)?;
    if dir.images.is_empty() && dir.broken.is_empty() && dir.temporary.is_empty() {
        run_tree(args, caller, out)
    } else {
        run_dir(args, dir, caller.width, out)
    }
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

fn run_estimate(
    args: &ImageArgs,
    caller: &Caller<'_>,
    out: &mut dyn Write,
) -> Result<(), ImageCommandError> {
    let mut methods: Vec<Method> = args
        .estimate
        .iter()
        .map(|name| Method::from(*name))
        .collect();
    methods.sort_unstable();
    methods.dedup();
    let options = EstimateOptions {
        methods,
        sample_bytes: (args.sample > 0).then_some(args.sample << 20),
    };
    let (files, mut unlisted) = if args.path.is_dir() {
        let found = find_images(&args.path)?;
        if found.files.is_empty() && found.unlisted.is_empty() {
            return Err(ImageCommandError::NoImages {
                path: args.path.clone(),
                named_like_images: found.named_like_images,
            });
        }
        (found.files, found.unlisted)
    } else {
        (vec![args.path.clone()], Vec::new())
    };
    let all: u64 = files.iter().map(|file| file_mib(file)).sum();
    let mut done = 0;
    let mut estimates = Estimates::of(&args.path);
    let mut broken = Vec::new();
    for file in &files {
        let of_file = file_mib(file);
        let tell = caller.estimating.unwrap_or(&|_, _| ());
        // a gzip'd image has more bytes than its file
        let passed = |bytes: u64, of: u64| {
            tell(
                done + (of_file as f64 * bytes as f64 / of.max(1) as f64) as u64,
                all + 1,
            )
        };
        match estimate_image(file, &options, &passed) {
            Ok(estimate) => estimates.add(&estimate),
            Err(EstimateError::Image(error)) if args.path.is_dir() => broken.push(error),
            Err(EstimateError::Image(error)) => return Err(error.into()),
            Err(EstimateError::Program { method, error }) => {
                return Err(ImageCommandError::Compressor { method, error });
            }
        }
        done += of_file;
    }
    caller.estimating.unwrap_or(&|_, _| ())(all + 1, all + 1);
    written(show_estimates(args, &estimates, out))?;
    let (images, directories) = (broken.len(), unlisted.len());
    if images + directories == 0 {
        return Ok(());
    }
    unlisted.extend(broken);
    Err(ImageCommandError::BrokenTree {
        path: args.path.clone(),
        images,
        directories,
        errors: unlisted,
    })
}

/// Length of a file for progress; one that is gone is told when it is read.
fn file_mib(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len() >> 20)
}

fn show_estimates(args: &ImageArgs, estimates: &Estimates, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    if args.json {
        json(estimates, &mut out)?;
    } else {
        estimates.text(&mut out)?;
    }
    out.flush()
}

fn run_dir(
    args: &ImageArgs,
    dir: CheckpointDir,
    width: Option<usize>,
    out: &mut dyn Write,
) -> Result<(), ImageCommandError> {
    written(show_dir(args, &dir, width, out))?;
    if dir.broken.is_empty() {
        return Ok(());
    }
    let images = dir.images.len() + dir.broken.len();
    Err(ImageCommandError::BrokenImages {
        path: dir.path,
        images,
        errors: dir.broken.into_iter().map(|broken| broken.error).collect(),
    })
}

fn show_dir(
    args: &ImageArgs,
    dir: &CheckpointDir,
    width: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    if args.json {
        json(dir, &mut out)?;
    } else {
        show::dir(dir, rules(args.rules), width, &mut out)?;
    }
    out.flush()
}

fn run_tree(
    args: &ImageArgs,
    caller: Caller<'_>,
    out: &mut dyn Write,
) -> Result<(), ImageCommandError> {
    let Caller {
        progress,
        mut groupings,
        width,
        ..
    } = caller;
    let path = &args.path;
    let mut tree = read_tree(path, progress.unwrap_or(&|_, _| ()))?;
    if tree.images.is_empty()
        && tree.broken.is_empty()
        && tree.temporary.is_empty()
        && tree.unlisted.is_empty()
    {
        return Err(ImageCommandError::NoImages {
            path: tree.path,
            named_like_images: tree.named_like_images,
        });
    }
    let of_directory = |directory: &Path| {
        Some(Group {
            name: tree_show::below(path, directory),
            label: None,
        })
    };
    let by_directory = Grouping {
        title: "directory",
        key: "directories",
        of_directory: Box::new(of_directory),
    };
    groupings.retain(|grouping| tree_show::applies(&tree, grouping));
    // a caller that knows more has better names than those of directories; scripts may want both
    if groupings.is_empty() || args.json {
        groupings.insert(0, by_directory);
    }
    written(show_tree(args, &tree, &groupings, width, out))?;
    let (images, directories) = (tree.broken.len(), tree.unlisted.len());
    if images + directories == 0 {
        return Ok(());
    }
    let mut errors = std::mem::take(&mut tree.unlisted);
    errors.extend(tree.broken.into_iter().map(|broken| broken.error));
    Err(ImageCommandError::BrokenTree {
        path: tree.path,
        images,
        directories,
        errors,
    })
}

fn show_tree(
    args: &ImageArgs,
    tree: &ImageTree,
    groupings: &[Grouping<'_>],
    width: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let shown = Shown {
        rules: rules(args.rules),
        sort: args.sort.unwrap_or_default(),
        top: args.top,
        width,
    };
    if args.json {
        json(&tree_show::json(tree, groupings, shown), &mut out)?;
    } else {
        tree_show::text(tree, groupings, shown, &mut out)?;
    }
    out.flush()
}

fn rules(rules: RuleSet) -> Rules {
    match rules {
        RuleSet::Owner => Rules {
            owner: true,
            literal: false,
            structural: false,
        },
        RuleSet::Literal => Rules {
            owner: false,
            literal: true,
            structural: false,
        },
        RuleSet::Structural => Rules {
            owner: false,
            literal: false,
            structural: true,
        },
        RuleSet::Both => Rules {
            owner: false,
            literal: true,
            structural: true,
        },
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
