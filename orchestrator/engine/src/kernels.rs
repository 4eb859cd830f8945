//! The built-in kernels: real MPI programs whose sources cvc carries, so that a fresh machine has work to do. They are compiled by the
//! compiler of each MPI library and kept by digest of sources and compiler.

use crate::{
    host::{Host, LocalHost},
    mpi::{Missing, MpiInstall},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::embedded::replace_directory;
use cvc_core::ids::hex_prefix;
use cvc_core::paths::{self, is_executable, on_path};
use std::{collections::BTreeMap, time::Duration};

/// The sources, as the role `kernels` has them.
const SOURCES: [(&str, &str); 10] = [
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
        "kernel-idle.c",
        include_str!("../../../ansible/roles/kernels/files/kernel-idle.c"),
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

/// Digest (hexadecimal BLAKE3) of the kernels' sources of this version.
pub fn sources_digest() -> String {
    hashed_sources().finalize().to_hex().to_string()
}

/// The compiler wrapper that belongs to a launcher: `mpicc` with the same suffix, in the same directory.
pub fn mpicc(install: &MpiInstall) -> Result<Utf8PathBuf, Missing> {
    install.companion("mpicc").ok_or_else(|| Missing {
        what: format!(
            "no mpicc beside {}: the built-in kernels cannot be compiled for `{}`",
            install.mpiexec, install.name
        ),
        hint: format!(
            "install the library's development package (Debian, Ubuntu: apt-get install {})",
            install.family.packages().1
        ),
    })
}

/// Returns the directory with the kernels for this library: compiled earlier, or now, on this machine. Compiling takes a few seconds, once, and
/// is told before.
///
/// # Errors
/// When the library has no compiler wrapper, or the kernels do not compile with it.
pub async fn ensure(
    install: &MpiInstall,
    tell: impl FnOnce(String),
) -> Result<Utf8PathBuf, Missing> {
    let mpicc = mpicc(install)?;
    let mut hasher = hashed_sources();
    // those without a list were made by earlier versions
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
    tell(format!(
        "compiling the built-in kernels for {}",
        install.name
    ));
    let failed = |what: String| Missing {
        what,
        hint: "see the compiler's message; the sources are in ansible/roles/kernels/files".into(),
    };
    // built beside and renamed, so that a cut-off compilation never looks like a finished one
    let staging = Utf8PathBuf::from(format!("{directory}.{}", std::process::id()));
    let sources = staging.join("src");
    let put = || -> std::io::Result<()> {
        std::fs::create_dir_all(&sources)?;
        SOURCES
            .iter()
            .try_for_each(|(name, text)| std::fs::write(sources.join(name), text))
    };
    put().map_err(|e| {
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

/// Lists the kernels of a directory with their digests, in this file of it.
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

/// Whether all kernels are there as they were compiled: after a loss of power, files may be empty that seemed to be written.
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

/// Compiler and linker flags of the parallel HDF5 that was built with this library, as its own wrapper shows them.
async fn hdf5_flags(install: &MpiInstall) -> Option<(String, String)> {
    let h5pcc = install.companion("h5pcc").or_else(|| {
        let name = format!("h5pcc.{}", install.family.name());
        // the distribution's HDF5 belongs to the distribution's MPI, not to one at a prefix
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
