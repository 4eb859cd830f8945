//! `cargo xtask fresh`: runs a command in a clone of this repository on a machine with nothing but a minimal system, Rust and git. A command
//! that fails there fails for every newcomer.

mod machine;

use crate::{interrupt::Interrupts, workspace};
use machine::{Cache, isolated, settings};
use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

const USAGE: &str = "\
usage: cargo xtask fresh [--user] [--target DIR] COMMAND [ARGUMENT...]

Runs a command in a clone of the checked-out commit on a disposable machine: a minimal system of the distribution with Rust and git, in mount,
pid, uts and ipc namespaces of its own, with this machine's network. Needs root, mmdebstrap and git.

  --user        run as an ordinary user with sudo, instead of as root without sudo
  --target DIR  use DIR as cargo's target directory, and keep it for the next call

The machine gets the registry settings of apt, pip and cargo and the packages and crates already downloaded, but no program installed here.
The minimal system and downloaded packages are kept in CVC_FRESH_CACHE (default: cvc-fresh in the user's cache); delete it to start over.";

/// Name of the ordinary user.
const NEWCOMER: &str = "newcomer";

/// Exit code after an interrupt.
const INTERRUPTED: u8 = 130;

/// The arguments.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    user: bool,
    target: Option<PathBuf>,
    command: Vec<String>,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut wanted = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--user" => wanted.user = true,
                "--target" => wanted.target = Some(rest.next().ok_or("--target needs a directory")?.into()),
                option if option.starts_with('-') => return Err(format!("unknown option `{option}`\n\n{USAGE}")),
                command => {
                    wanted.command.push(command.to_owned());
                    wanted.command.extend(rest.by_ref().cloned());
                }
            }
        }
        if wanted.command.is_empty() { Err(USAGE.into()) } else { Ok(wanted) }
    }
}

/// Runs the command and returns its exit code.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let wanted = Wanted::parse(arguments)?;
    check()?;
    let repository = workspace::root()?;
    let toolchain = toolchain(&repository)?;
    let target = wanted.target.as_deref().map(directory).transpose()?.unwrap_or_default();
    let interrupts = Interrupts::listen()?;
    let result = on_a_machine(&wanted, &repository, &toolchain, &target, &interrupts);
    if interrupts.interrupted() {
        eprintln!("== interrupted; the machine is removed");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    result
}

fn on_a_machine(wanted: &Wanted, repository: &Path, toolchain: &Path, target: &Path, interrupts: &Interrupts) -> Result<ExitCode, String> {
    let cache = Cache::open()?;
    let base = cache.base(interrupts)?;
    eprintln!("== a fresh machine with {}", describe(repository)?);
    let home = if wanted.user { format!("home/{NEWCOMER}") } else { "root".into() };
    let copy = cache.copy(&base, interrupts)?;
    copy.equip()?;
    copy.clone(repository, &home)?;
    eprintln!("== {}, {}", wanted.command.join(" "), if wanted.user { "as a user with sudo" } else { "as root without sudo" });
    let began = Instant::now();
    let mut command = isolated();
    command.args(["/bin/bash", "-c", include_str!("enter.sh"), "enter.sh"]).args(&wanted.command);
    command
        .env_clear()
        .envs(settings())
        .envs(["TERM", "CI"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LANG", "C.UTF-8")
        .env("CARGO_HOME", "/opt/cargo")
        .env("ROOT", &copy.root)
        .env("TOOLCHAIN", toolchain)
        .env("TARGET", target)
        .env("NEWCOMER", if wanted.user { NEWCOMER } else { "" });
    let status = interrupts.run(&mut command)?;
    let seconds = began.elapsed().as_secs();
    copy.keep_downloads()?;
    drop(copy);
    if !interrupts.interrupted() {
        eprintln!("== {status} after {} min {:02} s; the machine is removed", seconds / 60, seconds % 60);
    }
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).and_then(|c| u8::try_from(c).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// Checks the requirements on this machine.
fn check() -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("`cargo xtask fresh` needs root, for mounts and namespaces; hint: sudo env PATH=\"$PATH\" cargo xtask fresh …".into());
    }
    for (program, package) in
        [("mmdebstrap", "mmdebstrap"), ("git", "git"), ("unshare", "util-linux"), ("setpriv", "util-linux"), ("apt-config", "apt")]
    {
        let found = std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
        if !found {
            return Err(format!("`cargo xtask fresh` needs {program}; hint: apt-get install {package}"));
        }
    }
    Ok(())
}

/// Returns the directory of the Rust toolchain, which is mounted read-only.
fn toolchain(repository: &Path) -> Result<PathBuf, String> {
    let printed = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(repository))?;
    let sysroot = PathBuf::from(printed);
    if sysroot == Path::new("/usr") || sysroot == Path::new("/usr/local") || !sysroot.join("bin/cargo").is_file() {
        return Err(format!(
            "{} does not hold only a Rust toolchain; hint: install Rust with rustup (https://rustup.rs)",
            sysroot.display()
        ));
    }
    Ok(sysroot)
}

/// Describes the commit, and says how many uncommitted files it lacks.
fn describe(repository: &Path) -> Result<String, String> {
    let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(repository).args(arguments));
    let commit = git(&["log", "-1", "--format=%h (%s)"])?;
    let changes = git(&["status", "--porcelain"])?.lines().count();
    Ok(match changes {
        0 => commit,
        1 => format!("{commit}; 1 uncommitted file is not included"),
        _ => format!("{commit}; {changes} uncommitted files are not included"),
    })
}

fn directory(path: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(path).and_then(|()| path.canonicalize()).map_err(|e| format!("{}: {e}", path.display()))
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("cannot start {name}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Wanted, String> {
        Wanted::parse(&arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_after_the_command_belong_to_the_command() {
        let wanted = parse(&["--target", "kept", "--user", "./test", "--user", "-p", "cvc"]).expect("arguments");
        assert_eq!(
            wanted,
            Wanted { user: true, target: Some("kept".into()), command: ["./test", "--user", "-p", "cvc"].map(str::to_owned).into() }
        );
    }

    #[test]
    fn the_usage_is_shown_without_a_command_and_for_unknown_options() {
        for wrong in [&[] as &[&str], &["--user"], &["--users", "./test"]] {
            assert!(parse(wrong).expect_err("wrong").contains("usage: cargo xtask fresh"), "{wrong:?}");
        }
        assert_eq!(parse(&["--target"]), Err("--target needs a directory".into()));
    }
}
