//! `cvc image FILE|DIR`: zones of an image, of a checkpoint directory, or of all images below a directory.

use super::{
    against::SideBySide,
    directory,
    estimate::Estimates,
    file,
    tree::{self, Group, Grouping, Shown},
};
use crate::{args::image::ImageArgs, image_error::ImageCommandError, output::versioned};
use cvc_image::{
    CheckpointDir, EstimateError, EstimateOptions, Method, estimate_image, find_images, read_dir,
    read_image, read_tree, write_listing,
};
use cvc_show::{Blocks, text};
use serde::Serialize;
use std::{
    io::{self, Write},
    path::Path,
};

/// Callbacks and settings that the caller of the command provides.
#[derive(Default)]
pub struct Caller<'a> {
    /// Receives the number of images read so far and the total number. It is called from several threads.
    pub progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
    /// Receives the volume that an estimate has read so far, and the total, MiB.
    pub estimating: Option<&'a dyn Fn(u64, u64)>,
    /// Width of the terminal, if the output is one; tables are narrowed to it.
    pub width: Option<usize>,
    /// Groupings of the images below the directory, in addition to the one by directory.
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

/// Runs the command and writes to `out`. A closed pipe (`cvc image ... | head`) is not an error.
pub fn run(
    args: &ImageArgs,
    caller: Caller<'_>,
    out: &mut dyn Write,
) -> Result<(), ImageCommandError> {
    if !args.estimate.is_empty() {
        return run_estimate(args, &caller, out);
    }
    if !args.path.is_dir() {
        return run_file(args, caller.width, out);
    }
    if args.against.is_some() {
        return Err(ImageCommandError::AgainstDirectory(args.path.clone()));
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

fn run_file(
    args: &ImageArgs,
    width: Option<usize>,
    out: &mut dyn Write,
) -> Result<(), ImageCommandError> {
    let image = read_image(&args.path)?;
    if let Some(other) = &args.against {
        let other = read_image(other)?;
        let both = SideBySide::new(&image, &other);
        return answer(args, width, out, &both, |out| both.show(out));
    }
    if args.listing {
        return written(write_listing(&image, out).and_then(|()| out.flush()));
    }
    answer(args, None, out, &image, |out| {
        file::show(out, &image, args.rules);
    })
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
        let report = caller.estimating.unwrap_or(&|_, _| ());
        // the bytes of a gzip'd image are more than those of its file, so scale them
        let passed = |bytes: u64, of: u64| {
            report(
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
    answer(args, caller.width, out, &estimates, |out| {
        estimates.show(out);
    })?;
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

/// Returns the length of a file in MiB for the progress, 0 for a missing file, which is reported when it is read.
fn file_mib(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len() >> 20)
}

fn run_dir(
    args: &ImageArgs,
    dir: CheckpointDir,
    width: Option<usize>,
    out: &mut dyn Write,
) -> Result<(), ImageCommandError> {
    answer(args, width, out, &dir, |out| {
        directory::show(out, &dir, args.rules, width);
    })?;
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
            name: tree::below(path, directory),
            label: None,
        })
    };
    let by_directory = Grouping {
        title: "directory",
        key: "directories",
        of_directory: Box::new(of_directory),
    };
    groupings.retain(|grouping| tree::applies(&tree, grouping));
    // the caller's groupings have better names than directories; JSON has both
    if groupings.is_empty() || args.json {
        groupings.insert(0, by_directory);
    }
    let shown = Shown {
        rules: args.rules,
        sort: args.sort.unwrap_or_default(),
        top: args.top,
        width,
    };
    let json = args.json.then(|| tree::json(&tree, &groupings, shown));
    answer(args, width, out, &json, |out| {
        tree::text(out, &tree, &groupings, shown);
    })?;
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

/// Writes the answer as JSON or as text.
fn answer(
    args: &ImageArgs,
    width: Option<usize>,
    out: &mut dyn Write,
    json: &impl Serialize,
    show: impl FnOnce(&mut Blocks),
) -> Result<(), ImageCommandError> {
    let text = if args.json {
        serde_json::to_string_pretty(&versioned(json)).map(|text| text + "\n")
    } else {
        let mut answer = Blocks::default();
        show(&mut answer);
        Ok(text(&answer.0, width))
    };
    let text = text.map_err(io::Error::from);
    written(text.and_then(|text| out.write_all(text.as_bytes()).and_then(|()| out.flush())))
}

/// Converts the result of writing: a closed pipe is not an error.
fn written(result: io::Result<()>) -> Result<(), ImageCommandError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(ImageCommandError::Output(error)),
        Ok(()) => Ok(()),
    }
}
