//! `cvc try`: measures time and size of a checkpoint of one command, without a campaign file.
//!
//! | file | contents |
//! | --- | --- |
//! | `prepare.rs` | from the command to program, input files and MPI library |
//! | `descriptor.rs` | facts about the program, as a descriptor |
//! | `measure.rs` | the runs: small campaigns in one directory |
//! | `runs.rs` | the runs of one campaign, from its index |
//! | `results.rs` | evaluation of the measurements |
//! | `compare.rs` | comparison of several commands |
//! | `show.rs` | the output |
//! | `write.rs` | writes a campaign file that measures the command with more runs |

mod compare;
mod descriptor;
mod measure;
mod prepare;
mod results;
mod runs;
mod show;
mod write;

use crate::{
    args::{TryArgs, Where},
    command::{init::refuse_existing, temporary},
    exit_status::ExitStatus,
    failure::Failure,
    machine::{machine, runtime},
    output,
};
use compare::{SCHEMA, TryCompareOutput};
use cvc_core::words;
use cvc_session::Scratch;
use measure::{Limits, Measured, Trier};
use prepare::{Prepared, prepare, refused};
use results::{TryResult, evaluate};

pub fn try_command(args: &TryArgs) -> Result<ExitStatus, Failure> {
    let commands = match args.compare.as_slice() {
        [] => vec![args.command.clone()],
        several => several
            .iter()
            .map(|line| {
                words::split(line)
                    .map_err(|problem| refused(format!("`{line}`: {problem}"), "close the quotes"))
            })
            .collect::<Result<_, _>>()?,
    };
    if let Some(file) = &args.write {
        refuse_existing(file, args.force)?;
    }
    let scratch = match &args.dir {
        Some(dir) => kept(dir)?,
        None => Scratch::new("cvc-try-")?,
    };
    let base = machine(&Where {
        campaigns: "campaigns".into(),
    })
    .options()?;
    let (tried, failure) = runtime()?.block_on(async {
        let interrupted = temporary::listen();
        // prepare all commands before the first one runs
        let mut prepared = Vec::new();
        for (place, words) in commands.iter().enumerate() {
            let store = scratch.path().join(format!("inputs-{}", place + 1));
            prepared.push(prepare(words, &store).await?);
        }
        if let (Some(file), Some(first)) = (&args.write, prepared.first()) {
            let descriptor = write::descriptor_of(file, &first.own.name);
            refuse_existing(&descriptor, args.force)?;
        }
        let mut tried: Vec<(Prepared, Measured)> = Vec::new();
        for (place, prepared) in prepared.into_iter().enumerate() {
            let trier = Trier {
                scratch: &scratch,
                base: &base,
                interrupted: &interrupted,
                limits: Limits {
                    repeats: args.repeats,
                    timeout_s: args.timeout,
                },
                prefix: &if commands.len() > 1 {
                    format!("{}-", place + 1)
                } else {
                    String::new()
                },
            };
            if commands.len() > 1 {
                output::note(format_args!("{}: {}", show::letter(place), prepared.typed));
            }
            match trier.measure(&prepared).await {
                Ok(measured) => tried.push((prepared, measured)),
                // show the results of the previous commands, which took minutes
                Err(failure) if !tried.is_empty() => return Ok((tried, Some(failure))),
                Err(failure) => return Err(failure),
            }
        }
        Ok::<_, Failure>((tried, None))
    })?;
    let results: Vec<TryResult> = tried
        .iter()
        .map(|(prepared, measured)| evaluate(prepared, measured, args.mtbf))
        .collect::<Result<_, _>>()?;
    let printed = TryCompareOutput {
        schema: SCHEMA,
        comparisons: compare::compare_all(&results),
        commands: results,
    };
    output::answer(args.json, &printed, |out| show::show(out, &printed))?;
    if let (Some(file), Some((prepared, measured))) = (&args.write, tried.first()) {
        write::write(file, prepared, measured)?;
    }
    scratch.close()?;
    failure.map_or(Ok(ExitStatus::Done), Err)
}

/// Returns the directory that the user names; it must be empty or not exist.
fn kept(dir: &camino::Utf8Path) -> Result<Scratch, Failure> {
    let is_used = dir
        .read_dir_utf8()
        .is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        return Err(refused(
            format!("{dir} is not empty"),
            "give a new directory",
        ));
    }
    Ok(Scratch::kept(dir)?)
}
