//! `cvc-node`: the program that cvc copies to the machines of a cluster. It is not meant to be called by hand.

use camino::Utf8PathBuf;
use clap::Parser;
use cvc_agent as agent;
use cvc_core::log;
use cvc_core::visible::{Form, Visible, visible};
use std::{error::Error, process::ExitCode};

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
    /// End what agents of a spool that were killed left on this machine
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
    /// Answer the agent's questions about this node
    Sentinel {
        /// Seconds between heartbeats, until the agent sets another interval
        #[arg(long, default_value_t = BEAT_S)]
        beat_s: f64,
    },
    /// Start and watch the processes of one run
    Shepherd,
    /// Read checkpoint images
    Image(cvc_image_show::command::ImageArgs),
}

fn main() -> ExitCode {
    let _failpoints = cvc_os::disk::failpoints();
    cvc_os::proc::heed_children();
    match run(Command::parse()) {
        Ok(code) => code,
        Err(error) => {
            // read by whoever started this program
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("error: {error}\n").as_bytes(),
            );
            ExitCode::FAILURE
        }
    }
}

/// The path of this program.
fn find_self() -> Result<Utf8PathBuf, Box<dyn Error>> {
    let path = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    Ok(Utf8PathBuf::from_path_buf(path).map_err(|p| format!("{}: not UTF-8", p.display()))?)
}

/// Does what the command says. An error is only told.
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
        Command::Image(args) => {
            let form = if args.json { Form::Json } else { Form::Text };
            if let Err(error) = cvc_image_show::command::run(
                &args,
                &mut Visible::new(std::io::stdout().lock(), form),
            ) {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    visible(&format!("error: {error}\n")).as_bytes(),
                );
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
