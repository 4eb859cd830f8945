//! `cargo xtask dist`: builds a tarball that runs on any x86-64 Linux without Rust. It contains static programs, completions, manual pages, campaign
//! files, the licences of all code that is linked into the programs, an SBOM, and checksums. A wheel and a Debian package are made from it.

mod dependencies;
mod files;
mod licences;
mod packages;
mod recipes;
mod sbom;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

use crate::workspace;
use dependencies::Dependencies;
use files::{PROGRAMS, below, copy, output, tar, told, write};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The target of releases: with musl a program needs no C library of the machine, and no modules of that library to resolve names.
const TARGET: &str = "x86_64-unknown-linux-musl";
const MUSL: &str = "hint: `rustup target add x86_64-unknown-linux-musl`, and a C compiler for it (Debian, Ubuntu: musl-tools)";
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/cvc"),
    ("zsh", "share/zsh/site-functions/_cvc"),
    ("fish", "share/fish/vendor_completions.d/cvc.fish"),
];
/// Files of the repository that the tarball contains: (path in the repository, path in the tarball).
const FILES: [(&str, &str); 9] = [
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("CITATION.cff", "CITATION.cff"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("docs", "docs"),
    ("examples", "examples"),
    ("experiments", "experiments"),
    ("ansible/README.md", "ansible/README.md"),
];

/// The kind of build.
#[derive(Clone, Copy)]
enum Build {
    /// For users: with musl, optimized, with EC2.
    Release,
    /// To try the packages: takes a tenth of the time; with this machine's C library, without EC2.
    Quick,
}

impl Build {
    const fn target(self) -> &'static str {
        match self {
            Self::Release => TARGET,
            Self::Quick => "x86_64-unknown-linux-gnu",
        }
    }

    /// Returns cargo's options for features.
    const fn features(self) -> &'static [&'static str] {
        match self {
            Self::Release => &[],
            Self::Quick => &["--no-default-features", "--features", "cvc/parquet"],
        }
    }

    /// Returns the name of cargo's profile.
    const fn profile(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
        }
    }

    /// Returns the directory of the packages, below cargo's target directory.
    const fn directory(self) -> &'static str {
        match self {
            Self::Release => "dist",
            Self::Quick => "dist-quick",
        }
    }
}

/// Builds and packs the programs, and prints the paths of the packages and of their checksums.
///
/// # Errors
/// musl is missing, or the build or the packing fails.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let how = match arguments {
        [] => Build::Release,
        [one] if one == "--quick" => Build::Quick,
        _ => return Err("usage: cargo xtask dist [--quick]".into()),
    };
    let root = workspace::root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |dir| root.join(dir));
    let programs = build(&root, &target, how)?;
    let into = target.join(how.directory());
    let mut packed = pack(&root, &programs, &into, how)?;
    if let Build::Release = how {
        let sources = recipes::sources(&root, &into, &commit_time(&root)?)?;
        write_sum(&sources, &into)?;
        recipes::spack(&sources, &into)?;
        packed.push(sources);
    }
    for path in packed {
        println!("{}\n{}.sha256", path.display(), path.display());
    }
    Ok(())
}

/// Builds the programs statically and returns their directory.
fn build(root: &Path, target: &Path, how: Build) -> Result<PathBuf, String> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--locked", "--profile", how.profile()]);
    cargo.args(how.features());
    let hint = match how {
        Build::Release => {
            require_musl()?;
            MUSL
        }
        Build::Quick => {
            cargo.env(
                "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
                "-C target-feature=+crt-static -C relocation-model=static",
            );
            "hint: static linking needs the C library's libc.a (Debian, Ubuntu: libc6-dev)"
        }
    };
    let status = cargo
        .args(["--target", how.target()])
        .args(PROGRAMS.iter().flat_map(|p| ["--package", p]))
        .current_dir(root)
        .stdin(Stdio::null())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !status.success() {
        return Err(format!(
            "the programs cannot be built ({status}): the compiler's messages are above\n{hint}"
        ));
    }
    let programs = target.join(how.target()).join(how.profile());
    for program in PROGRAMS {
        require_static(&programs.join(program))?;
    }
    Ok(programs)
}

/// Returns an error if the machine has no C compiler for musl.
fn require_musl() -> Result<(), String> {
    let version = Command::new("musl-gcc")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match version {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("musl-gcc does not start\n{MUSL}")),
    }
}

/// Returns an error if a program requests an interpreter, because then it needs a C library of the machine.
fn require_static(program: &Path) -> Result<(), String> {
    let headers = output(Command::new("readelf").arg("-lW").arg(program))?;
    if String::from_utf8_lossy(&headers).contains("INTERP") {
        return Err(format!("{}: not linked statically", program.display()));
    }
    Ok(())
}

/// Packs `programs` and their accompanying files into the directory `into`: as a tarball `cvc-VERSION-x86_64-linux.tar.gz`, a wheel, and a Debian
/// package, each with its checksum in a file next to it. The same commit gives the same bytes.
fn pack(root: &Path, programs: &Path, into: &Path, how: Build) -> Result<Vec<PathBuf>, String> {
    let time_s = commit_time(root)?;
    let dependencies = Dependencies::of(root, &PROGRAMS, how.target(), how.features())?;
    let name = format!("cvc-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let dir = into.join(&name);
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(|e| told(&dir, &e))?;
    }

    for program in PROGRAMS {
        let to = dir.join("bin").join(program);
        copy(&programs.join(program), &to)?;
        output(Command::new("strip").arg(&to))?;
    }
    let cvc = dir.join("bin/cvc");
    for (shell, file) in COMPLETIONS {
        let script = output(Command::new(&cvc).args(["completions", shell]))?;
        write(&dir.join(file), &script)?;
    }
    let man = dir.join("share/man/man1");
    fs::create_dir_all(&man).map_err(|e| told(&man, &e))?;
    output(Command::new(&cvc).arg("reference").arg("--man").arg(&man))?;
    for (from, to) in FILES {
        copy_kept(root, from, &dir.join(to))?;
    }
    licences::write_texts(&dependencies, &dir.join("licences"))?;
    let sbom = sbom::cyclonedx(&dependencies, &time_s)?;
    write(&dir.join("sbom.cdx.json"), sbom.as_bytes())?;
    write(&dir.join("SHA256SUMS"), checksums(&dir)?.as_bytes())?;

    let tarball = into.join(format!("{name}.tar.gz"));
    tar(into, &name, &time_s, &tarball)?;
    let mut packed = vec![tarball, packages::wheel(&dir, into)?];
    if packages::can_make_deb() {
        let deb = packages::deb(&dir, into, &time_s)?;
        recipes::container(&deb, into)?;
        packed.push(deb);
    } else {
        eprintln!("the Debian package is left out: dpkg-deb does not start");
    }
    for path in &packed {
        write_sum(path, into)?;
    }
    Ok(packed)
}

/// Returns the time of the checked-out commit, in seconds since 1970.
fn commit_time(root: &Path) -> Result<String, String> {
    let time_s = output(
        Command::new("git")
            .args(["log", "-1", "--format=%ct"])
            .current_dir(root),
    )?;
    Ok(String::from_utf8_lossy(&time_s).trim().to_owned())
}

/// Writes the checksum of a package into a file next to it.
fn write_sum(path: &Path, into: &Path) -> Result<(), String> {
    let file = path.file_name().unwrap_or_default();
    let sum = output(Command::new("sha256sum").arg(file).current_dir(into))?;
    let name = format!("{}.sha256", file.to_string_lossy());
    write(&into.join(name), &sum)
}

/// Copies the files that git tracks below a path of the repository.
fn copy_kept(root: &Path, from: &str, to: &Path) -> Result<(), String> {
    let kept = output(
        Command::new("git")
            .args(["ls-files", "-z", "--", from])
            .current_dir(root),
    )?;
    let kept = String::from_utf8_lossy(&kept).into_owned();
    let files: Vec<&str> = kept.split('\0').filter(|f| !f.is_empty()).collect();
    if files.is_empty() {
        return Err(format!("{from}: git tracks no file there"));
    }
    for file in files {
        let inside = Path::new(file).strip_prefix(from).unwrap_or(Path::new(""));
        let to = if inside.as_os_str().is_empty() {
            to.to_path_buf()
        } else {
            to.join(inside)
        };
        copy(&root.join(file), &to)?;
    }
    Ok(())
}

/// Returns a line for each file below `dir`, in the format of `sha256sum --check` in that directory.
fn checksums(dir: &Path) -> Result<String, String> {
    let files = below(dir)?;
    let sums = output(Command::new("sha256sum").args(files).current_dir(dir))?;
    Ok(String::from_utf8_lossy(&sums).into_owned())
}
