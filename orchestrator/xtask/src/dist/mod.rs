//! `cargo xtask dist`: a tarball that runs on any x86-64 Linux without Rust: static programs, completions, manual pages, campaign files, the
//! licences of all that is linked into the programs, an SBOM and checksums.

mod dependencies;
mod files;
mod licences;
mod sbom;
#[cfg(test)]
mod tests;

use crate::workspace;
use dependencies::Dependencies;
use files::{copy, output, told, write};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Linked with musl: needs no C library of the machine, and resolves names without its modules.
const TARGET: &str = "x86_64-unknown-linux-musl";
const PROGRAMS: [&str; 2] = ["cvc", "cvc-node"];
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/cvc"),
    ("zsh", "share/zsh/site-functions/_cvc"),
    ("fish", "share/fish/vendor_completions.d/cvc.fish"),
];
/// What goes along from the repository: (there, in the tarball).
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

/// Builds the programs and packs them; prints the path of the tarball and of its checksum.
///
/// # Errors
/// If musl is missing, or the build or the packing fails.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask dist".into());
    }
    let root = workspace::root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |dir| root.join(dir));
    let programs = build(&root, &target)?;
    let packed = pack(&root, &programs, &target.join("dist"))?;
    println!("{}\n{}.sha256", packed.display(), packed.display());
    Ok(())
}

/// Builds the programs statically and returns their directory.
fn build(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let musl = format!(
        "hint: `rustup target add {TARGET}`, and a C compiler for it (Debian, Ubuntu: musl-tools)"
    );
    if !Command::new("musl-gcc")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
    {
        return Err(format!("musl-gcc does not start\n{musl}"));
    }
    let status = workspace::cargo()
        .args(["build", "--release", "--locked", "--target", TARGET])
        .args(PROGRAMS.iter().flat_map(|p| ["--package", p]))
        .current_dir(root)
        .stdin(Stdio::null())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !status.success() {
        return Err(format!(
            "the programs cannot be built ({status}): the compiler's messages are above\n{musl}"
        ));
    }
    let programs = target.join(TARGET).join("release");
    for program in PROGRAMS {
        require_static(&programs.join(program))?;
    }
    Ok(programs)
}

/// A program that asks for an interpreter needs a C library of the machine.
fn require_static(program: &Path) -> Result<(), String> {
    let headers = output(Command::new("readelf").arg("-lW").arg(program))?;
    if String::from_utf8_lossy(&headers).contains("INTERP") {
        return Err(format!("{}: not linked statically", program.display()));
    }
    Ok(())
}

/// Packs `programs` with all that goes along into `cvc-VERSION-x86_64-linux.tar.gz` in the directory `into`, the same bytes from the same commit.
fn pack(root: &Path, programs: &Path, into: &Path) -> Result<PathBuf, String> {
    let time_s = output(
        Command::new("git")
            .args(["log", "-1", "--format=%ct"])
            .current_dir(root),
    )?;
    let time_s = String::from_utf8_lossy(&time_s).trim().to_owned();
    let dependencies = Dependencies::of(root, &PROGRAMS, TARGET)?;
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
    output(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
            .args(["--mode=u=rwX,go=rX", "--use-compress-program=gzip -9n"])
            .arg(format!("--mtime=@{time_s}"))
            .arg("-cf")
            .arg(&tarball)
            .arg("-C")
            .arg(into)
            .arg(&name),
    )?;
    let file = format!("{name}.tar.gz");
    let sum = output(Command::new("sha256sum").arg(&file).current_dir(into))?;
    write(&into.join(format!("{file}.sha256")), &sum)?;
    Ok(tarball)
}

/// Copies what git keeps of a file or directory of the repository.
fn copy_kept(root: &Path, from: &str, to: &Path) -> Result<(), String> {
    let kept = output(
        Command::new("git")
            .args(["ls-files", "-z", "--", from])
            .current_dir(root),
    )?;
    let kept = String::from_utf8_lossy(&kept).into_owned();
    let files: Vec<&str> = kept.split('\0').filter(|f| !f.is_empty()).collect();
    if files.is_empty() {
        return Err(format!("{from}: git knows no file there"));
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

/// One line for each file below `dir`, as `sha256sum --check` reads them there.
fn checksums(dir: &Path) -> Result<String, String> {
    let listed = output(
        Command::new("find")
            .args([".", "-type", "f", "-printf", "%P\\0"])
            .current_dir(dir),
    )?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let mut files: Vec<&str> = listed.split('\0').filter(|f| !f.is_empty()).collect();
    files.sort_unstable();
    let sums = output(Command::new("sha256sum").args(files).current_dir(dir))?;
    Ok(String::from_utf8_lossy(&sums).into_owned())
}
