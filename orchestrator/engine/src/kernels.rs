//! The built-in kernels: real MPI programs whose sources are part of cvc, so that every machine can run something. The compiler of each MPI library
//! compiles them; the results are cached by a digest of sources and compiler.

use crate::{
    host::{Host, LocalHost},
    mpi::{Missing, MpiInstall},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::embedded::replace_directory;
use cvc_core::ids::hex_prefix;
use cvc_core::paths::{self, is_executable, on_path};
use std::{collections::BTreeMap, time::Duration};

/// The sources, which are the files of the Ansible role `kernels`.
const SOURCES: [(&str, &str); 21] = [
    (
        "Makefile",
        include_str!("../../../ansible/roles/kernels/files/Makefile"),
    ),
    (
        "kernel-common.h",
        include_str!("../../../ansible/roles/kernels/files/kernel-common.h"),
    ),
    (
        "kernel-common.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-common.c"),
    ),
    (
        "kernel-track.h",
        include_str!("../../../ansible/roles/kernels/files/kernel-track.h"),
    ),
    (
        "kernel-track.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-track.c"),
    ),
    (
        "kernel-ways.h",
        include_str!("../../../ansible/roles/kernels/files/kernel-ways.h"),
    ),
    (
        "kernel-ways.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-ways.c"),
    ),
    (
        "kernel-layout.h",
        include_str!("../../../ansible/roles/kernels/files/kernel-layout.h"),
    ),
    (
        "kernel-layout.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-layout.c"),
    ),
    (
        "kernel-delegate.h",
        include_str!("../../../ansible/roles/kernels/files/kernel-delegate.h"),
    ),
    (
        "kernel-delegate.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-delegate.c"),
    ),
    (
        "kernel-log.h",
        include_str!("../../../ansible/roles/kernels/files/kernel-log.h"),
    ),
    (
        "kernel-log.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-log.c"),
    ),
    (
        "kernel-block.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-block.c"),
    ),
    (
        "kernel-stencil.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-stencil.c"),
    ),
    (
        "kernel-front.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-front.c"),
    ),
    (
        "kernel-amr.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-amr.c"),
    ),
    (
        "kernel-overlap.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-overlap.c"),
    ),
    (
        "kernel-idle.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-idle.c"),
    ),
    (
        "kernel-replay.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-replay.c"),
    ),
    (
        "trace-mpi-io.c",
        include_str!("../../../ansible/roles/kernels/files/trace-mpi-io.c"),
    ),
];

/// Number of hexadecimal digits of the digest in the name of the kernels' directory.
const DIGITS: usize = 12;

const COMPILE_LIMIT: Duration = Duration::from_secs(300);

fn hashed_sources() -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    for (name, text) in SOURCES {
        hasher
            .update(name.as_bytes())
            .update(&[0])
            .update(text.as_bytes())
            .update(&[0]);
    }
    hasher
}

/// Returns the digest (hexadecimal BLAKE3) of this version's kernel sources.
pub fn sources_digest() -> String {
    hashed_sources().finalize().to_hex().to_string()
}

fn write_sources(directory: &Utf8Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    SOURCES
        .iter()
        .try_for_each(|(name, text)| std::fs::write(directory.join(name), text))
}

/// Returns the compiler wrapper of a launcher: `mpicc` with the same suffix, in the same directory.
pub fn mpicc(install: &MpiInstall) -> Result<Utf8PathBuf, Missing> {
    install.companion("mpicc").ok_or_else(|| Missing {
        what: format!(
            "no mpicc next to {}: the built-in kernels cannot be compiled for `{}`",
            install.mpiexec, install.name
        ),
        hint: format!(
            "install the library's development package (Debian, Ubuntu: apt-get install {})",
            install.family.packages().1
        ),
    })
}

/// Returns the directory with the kernels for this library on this machine. If they are not compiled yet, announces that, and compiles them once,
/// which takes a few seconds.
///
/// # Errors
/// The library has no compiler wrapper, or the kernels do not compile with it.
pub async fn ensure(
    install: &MpiInstall,
    report: impl FnOnce(String),
) -> Result<Utf8PathBuf, Missing> {
    let mpicc = mpicc(install)?;
    let mut hasher = hashed_sources();
    // directories without a list of digests come from earlier versions
    hasher
        .update(mpicc.as_str().as_bytes())
        .update(install.version.as_bytes())
        .update(LIST.as_bytes());
    let directory = paths::cache().join("kernels").join(format!(
        "{}-{}",
        install.name,
        hex_prefix(&hasher.finalize(), DIGITS)
    ));
    if is_whole(&directory) {
        return Ok(directory);
    }
    report(format!(
        "compiling the built-in kernels for {}",
        install.name
    ));
    let failed = |what: String| Missing {
        what,
        hint: "see the compiler's message; the sources are in ansible/roles/kernels/files".into(),
    };
    // compile in a temporary directory and rename it, so that an interrupted compilation never looks complete
    let staging = Utf8PathBuf::from(format!("{directory}.{}", std::process::id()));
    let sources = staging.join("src");
    write_sources(&sources).map_err(|e| {
        failed(format!(
            "cannot write the kernels' sources to {sources}: {e}"
        ))
    })?;
    let mut argv = vec![
        "make".to_owned(),
        "-C".into(),
        sources.to_string(),
        format!("MPICC={mpicc}"),
        format!("BINDIR={staging}"),
    ];
    if let Some((cflags, libs)) = hdf5_flags(install).await {
        argv.push(format!("HDF5_CFLAGS={cflags}"));
        argv.push(format!("HDF5_LIBS={libs}"));
    }
    let message = LocalHost
        .run(&argv, &install.env, COMPILE_LIMIT)
        .await
        .map_err(|e| failed(e.to_string()))?;
    if message.code != Some(0) {
        let end: Vec<&str> = message.stderr.lines().rev().take(6).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        return Err(failed(format!(
            "the built-in kernels do not compile with {mpicc}: {}",
            end.join(" | ")
        )));
    }
    write_list(&staging).map_err(|e| failed(format!("cannot write {LIST} in {staging}: {e}")))?;
    if is_whole(&directory) {
        // the agent of another site on this machine was faster
        let _ = std::fs::remove_dir_all(&staging);
        return Ok(directory);
    }
    replace_directory(&staging, &directory);
    if is_whole(&directory) {
        Ok(directory)
    } else {
        Err(failed(format!("cannot rename {staging} to {directory}")))
    }
}

/// File name of the library that traces MPI-IO, as in the Makefile.
pub const TRACER: &str = "libtrace-mpi-io.so";

/// Returns the path of the library that traces MPI-IO, for programs that use the MPI library of the compiler `mpicc`. Compiles the library if
/// necessary.
///
/// # Errors
/// The library does not compile.
pub async fn mpi_io_tracer(mpicc: &str) -> Result<Utf8PathBuf, Missing> {
    let mut hasher = hashed_sources();
    hasher.update(mpicc.as_bytes());
    let name = hex_prefix(&hasher.finalize(), DIGITS);
    let directory = paths::cache().join("tracer").join(name);
    let library = directory.join(TRACER);
    if library.is_file() {
        return Ok(library);
    }
    let failed = |what: String| Missing {
        what,
        hint: "give the compiler of the program's MPI library, as in mpicc.mpich".into(),
    };
    let staging = Utf8PathBuf::from(format!("{directory}.{}", std::process::id()));
    write_sources(&staging).map_err(|e| failed(format!("cannot write to {staging}: {e}")))?;
    let argv = [
        "make".to_owned(),
        "-C".into(),
        staging.to_string(),
        format!("MPICC={mpicc}"),
        "BINDIR=.".into(),
        format!("./{TRACER}"),
    ];
    let made = LocalHost
        .run(&argv, &BTreeMap::new(), COMPILE_LIMIT)
        .await
        .map_err(|e| failed(e.to_string()))?;
    if made.code != Some(0) {
        let end = made
            .stderr
            .trim_end()
            .lines()
            .next_back()
            .unwrap_or_default();
        let _ = std::fs::remove_dir_all(&staging);
        return Err(failed(format!(
            "the tracer does not compile with {mpicc}: {end}"
        )));
    }
    replace_directory(&staging, &directory);
    Ok(library)
}

/// File in a kernels' directory that lists the kernels with their digests.
const LIST: &str = "kernels.blake3";

fn digest_of(path: &Utf8Path) -> std::io::Result<String> {
    Ok(blake3::hash(&std::fs::read(path)?).to_hex().to_string())
}

fn write_list(directory: &Utf8Path) -> std::io::Result<()> {
    let mut list = String::new();
    for entry in directory.read_dir_utf8()? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            list.push_str(&format!(
                "{}  {}\n",
                digest_of(entry.path())?,
                entry.file_name()
            ));
        }
    }
    std::fs::write(directory.join(LIST), list)
}

/// Returns whether all kernels exist with the digests from their compilation: after a loss of power, files may be empty although they seemed to be
/// written.
fn is_whole(directory: &Utf8Path) -> bool {
    let Ok(list) = std::fs::read_to_string(directory.join(LIST)) else {
        return false;
    };
    let is_same = |line: &str| {
        line.split_once("  ").is_some_and(|(digest, name)| {
            digest_of(&directory.join(name)).is_ok_and(|found| found == digest)
        })
    };
    list.ends_with('\n')
        && list.lines().all(is_same)
        && is_executable(&directory.join("kernel-stencil"))
}

/// Returns the compiler and linker flags of the parallel HDF5 built with this library, as its compiler wrapper prints them.
async fn hdf5_flags(install: &MpiInstall) -> Option<(String, String)> {
    let h5pcc = install.companion("h5pcc").or_else(|| {
        let name = format!("h5pcc.{}", install.family.name());
        // the distribution's HDF5 was built with the distribution's MPI, not with a library at a prefix
        let distribution = install
            .mpiexec
            .parent()
            .is_some_and(|d| d == Utf8Path::new("/usr/bin"));
        on_path(&[name.as_str()], &std::env::var("PATH").unwrap_or_default())
            .filter(|_| distribution)
    })?;
    let message = LocalHost
        .run(
            &[h5pcc.into_string(), "-show".into()],
            &BTreeMap::new(),
            Duration::from_secs(20),
        )
        .await
        .ok()?;
    let words: Vec<&str> = message
        .stdout
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .collect();
    let cflags: Vec<&str> = words
        .iter()
        .filter(|w| w.starts_with("-I") || w.starts_with("-D"))
        .copied()
        .collect();
    let is_lib = |w: &str| {
        ["-L", "-l", "-Wl,-rpath"].iter().any(|p| w.starts_with(p))
            || w.ends_with(".a")
            || w.ends_with(".so")
    };
    let libs: Vec<&str> = words.iter().filter(|w| is_lib(w)).copied().collect();
    if libs.is_empty() {
        None
    } else {
        Some((cflags.join(" "), libs.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::{is_whole, write_list};
    use camino::Utf8Path;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn kernels_that_a_loss_of_power_emptied_are_not_believed() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = Utf8Path::from_path(dir.path()).expect("UTF-8");
        for name in ["kernel-stencil", "kernel-amr"] {
            fs::write(dir.join(name), name).expect("writes");
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755))
                .expect("executable");
        }
        assert!(!is_whole(dir), "without a list");
        write_list(dir).expect("writes");
        assert!(is_whole(dir));
        fs::write(dir.join("kernel-amr"), "").expect("writes");
        assert!(!is_whole(dir), "an empty program");
        fs::write(dir.join("kernel-amr"), "kernel-amr").expect("writes");
        assert!(is_whole(dir));
        fs::write(dir.join("kernels.blake3"), "").expect("writes");
        assert!(!is_whole(dir), "an empty list");
    }
}
