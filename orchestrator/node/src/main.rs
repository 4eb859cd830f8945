//! `cvc-node`: the program that cvc copies to the machines of a cluster. It is not meant to be called by hand.

use camino::Utf8PathBuf;
use clap::Parser;
use cvc_agent as agent;
use cvc_core::log;
use cvc_core::visible::{Form, Visible, visible};
use cvc_image::{read_dir, read_image, write_listing};
use serde::Serialize;
use std::{
    error::Error,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Interval between heartbeats of a sentinel, seconds, until its agent sets another one.
const BEAT_S: f64 = 1.0;

/// The program that cvc copies to the machines of a cluster.
#[derive(Parser)]
#[command(name = "cvc-node", version)]
enum Command {
    /// Carry out the runs of a spool, until it is closed
    Agent {
        /// The spool
        dir: Utf8PathBuf,
    },
    /// Start the agent of a spool so that it outlives this connection, unless one is running
    Start {
        /// The spool
        dir: Utf8PathBuf,
    },
    /// Exit with 0 if the agent of a spool is running, here or on another machine, else with 1
    Alive {
        /// The spool
        dir: Utf8PathBuf,
    },
    /// End the remains of a spool's killed agents on this machine
    End {
        /// The spool
        dir: Utf8PathBuf,
    },
    /// Relay between standard streams and a spool
    Attach {
        /// The spool
        dir: Utf8PathBuf,
        /// Number of the last event that was received
        from: u64,
        /// The agent is on this machine: report whether it is alive
        #[arg(long)]
        agent_is_here: bool,
    },
    /// Answer the agent's requests about this node
    Sentinel {
        /// Seconds between heartbeats, until the agent sets another interval
        #[arg(long, default_value_t = BEAT_S)]
        beat_s: f64,
    },
    /// Start and watch the processes of one run
    Shepherd,
    /// Read a checkpoint image, or all images of a directory, and print them as JSON
    Image {
        /// The image or the directory
        path: PathBuf,
        /// Print the same as DMTCP's own `mtcp_restart --simulate`, without its first line
        #[arg(long)]
        listing: bool,
    },
}

fn main() -> ExitCode {
    let _failpoints = cvc_os::disk::failpoints();
    cvc_os::proc::reset_child_signal();
    match run(Command::parse()) {
        Ok(code) => code,
        Err(error) => {
            // the process that started this program reads the message
            let text = format!("error: {error}\n");
            let _ = io::stderr().write_all(visible(&text).as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// Returns the path of this program.
fn find_self() -> Result<Utf8PathBuf, Box<dyn Error>> {
    let path = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    Ok(Utf8PathBuf::from_path_buf(path).map_err(|p| format!("{}: not UTF-8", p.display()))?)
}

/// Carries out the command; the caller only prints the error.
fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Agent { dir } => {
            log::start(log::LevelFilter::OFF);
            log::to_file(agent::Spool::at(&dir).trace().as_std_path())
                .map_err(|e| format!("cannot open the log in {dir}: {e}"))?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(agent::serve(&find_self()?, &dir))?;
        }
        Command::Start { dir } => {
            agent::start(&find_self()?, &dir)?;
        }
        Command::Alive { dir } => {
            let spool = agent::Spool::at(&dir);
            let alive = spool.agent().is_some() || spool.agent_elsewhere().is_some();
            return Ok(if alive {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        Command::End { dir } => agent::end_leftovers(&dir)?,
        Command::Attach {
            dir,
            from,
            agent_is_here,
        } => agent::attach(&dir, from, agent_is_here)?,
        Command::Sentinel { beat_s } => cvc_probe::sentinel::main(beat_s)?,
        Command::Shepherd => cvc_probe::shepherd::main()?,
        Command::Image { path, listing } => match image(&path, listing) {
            Err(error) if is_broken_pipe(error.as_ref()) => {}
            ended => ended?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether the error means that the reader of the output closed it.
fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints an image, or all images of a directory. If some images cannot be read, fails after printing the others.
fn image(path: &Path, listing: bool) -> Result<(), Box<dyn Error>> {
    let form = if listing { Form::Text } else { Form::Json };
    let mut out = Visible::new(io::stdout().lock(), form);
    if listing {
        write_listing(&read_image(path).map_err(|e| e.with_hint())?, &mut out)?;
        out.flush()?;
    } else if !path.is_dir() {
        print(&read_image(path).map_err(|e| e.with_hint())?, &mut out)?;
    } else {
        let directory = read_dir(path).map_err(|e| e.with_hint())?;
        print(&directory, &mut out)?;
        let (read, broken) = (directory.images.len(), directory.broken);
        if let Some(first) = broken.first() {
            let (n, all) = (broken.len(), read + broken.len());
            let (path, first) = (path.display(), first.error.with_hint());
            Err(format!(
                "{path}: {n} of {all} image(s) cannot be read; the first: {first}"
            ))?;
        }
        if read == 0 {
            let path = path.display();
            Err(format!(
                "{path}: no images (`*.dmtcp`, `*.dmtcp.gz`) in this directory\n  hint: name the directory of a checkpoint"
            ))?;
        }
    }
    Ok(())
}

fn print(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    out.flush()
}
