//! Finds an MPI library on this machine and asks it for its properties.

use super::{
    launcher::{Ask, Launcher, MpiInstall},
    missing::Missing,
};
use crate::host::{Host, LocalHost};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    campaign::{MpiLibrary, MpiSource},
    paths::{expand, is_executable, on_path},
};
use std::{collections::BTreeMap, time::Duration};

/// Time limit for loading a module.
const LIMIT: Duration = Duration::from_secs(20);

/// Finds a library of a site on this machine and asks it for its version, device and I/O layer.
///
/// # Errors
/// When it is not installed, is of another family, or lacks what the campaign asks for.
pub async fn find(name: &str, library: &MpiLibrary) -> Result<MpiInstall, Missing> {
    find_with(super::registry::launcher(library.family), name, library).await
}

/// Finds a library as [`find`] does, by this launcher instead of that of its family.
///
/// # Errors
/// As [`find`].
pub async fn find_with(family: &'static dyn Launcher, name: &str, library: &MpiLibrary) -> Result<MpiInstall, Missing> {
    let mut env: BTreeMap<String, String> = library.env.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let mpiexec = locate(family, name, library, &mut env).await?;
    let ask = Ask { name, mpiexec: &mpiexec, env: &env };
    let answer =
        ask.try_run(&[mpiexec.as_str(), "--version"]).await.map_err(|e| ask.unusable(format_args!("the launcher does not work: {e}")))?;
    if !family.recognizes(&answer) {
        let first = answer.lines().next().unwrap_or_default();
        return Err(ask.unusable(format_args!("{mpiexec} is not a launcher of {}: it reports `{first}`", family.launcher_title())));
    }
    let features = family.ask_features(&ask, &answer, library).await?;
    Ok(MpiInstall {
        name: name.to_owned(),
        family,
        version: family.version_or_unknown(&answer),
        device: features.device,
        io: features.io,
        romio_component: features.romio_component,
        ompio_parameters: features.ompio_parameters,
        args: library.args.clone(),
        mpiexec,
        env,
    })
}

async fn locate(
    family: &dyn Launcher,
    name: &str,
    library: &MpiLibrary,
    env: &mut BTreeMap<String, String>,
) -> Result<Utf8PathBuf, Missing> {
    let path = std::env::var("PATH").unwrap_or_default();
    let absent = |what: String, hint: String| Missing { what: format!("MPI library `{name}` is not installed: {what}"), hint };
    match &library.source {
        MpiSource::Path => match on_path(family.programs(), &path) {
            Some(found) => Ok(found),
            None => plain_mpiexec(family, name, &path, env).await.ok_or_else(|| {
                absent(
                    format!("no {} on PATH", family.programs().join(", ")),
                    format!("install it (Debian, Ubuntu: apt-get install {}; Spack: spack install {})", family.packages().0, family.name()),
                )
            }),
        },
        MpiSource::Prefix(prefix) => {
            let prefix = expand(prefix);
            ["mpiexec", "mpirun"].iter().map(|n| prefix.join("bin").join(n)).find(|p| is_executable(p)).ok_or_else(|| {
                let hint = format!("install it there, or give another prefix (Spack: spack location -i {})", family.name());
                absent(format!("no bin/mpiexec below {prefix}"), hint)
            })
        }
        MpiSource::Mpiexec(program) => {
            let given = expand(program);
            let found = if given.as_str().contains('/') { Some(given).filter(|p| is_executable(p)) } else { on_path(&[program], &path) };
            found.ok_or_else(|| absent(format!("no {program}"), "give a launcher that exists, or a prefix".into()))
        }
        MpiSource::Module(module) => load_module(name, module, env).await,
    }
}

/// A plain `mpiexec` may belong to any family: each on PATH is asked.
async fn plain_mpiexec(family: &dyn Launcher, name: &str, path: &str, env: &BTreeMap<String, String>) -> Option<Utf8PathBuf> {
    for found in path.split(':').map(|d| Utf8Path::new(d).join("mpiexec")).filter(|p| is_executable(p)) {
        let answer = Ask { name, mpiexec: &found, env }.run(&[found.as_str(), "--version"]).await;
        if answer.is_some_and(|answer| family.recognizes(&answer)) {
            return Some(found);
        }
    }
    None
}

/// Loads an environment module, takes over what it sets for MPI, and returns the launcher that it brings.
async fn load_module(name: &str, module: &str, env: &mut BTreeMap<String, String>) -> Result<Utf8PathBuf, Missing> {
    let hint = format!("see `module avail {}`", module.split('/').next().unwrap_or(module));
    // `module` is a shell function, so this one goes through a shell; the module's name is an argument, not text of the script
    let script = "module load \"$1\" >/dev/null 2>&1 || exit 9; command -v mpiexec || command -v mpirun || exit 8; env -0";
    let argv: Vec<String> = ["bash", "-lc", script, "module", module].map(String::from).into();
    let output = LocalHost.run(&argv, env, LIMIT).await.map_err(|e| Missing { what: e.to_string(), hint: hint.clone() })?;
    if output.code != Some(0) {
        return Err(Missing { what: format!("MPI library `{name}`: module {module} cannot be loaded or has no mpiexec"), hint });
    }
    let (launcher, variables) = output.stdout.split_once('\n').unwrap_or((&output.stdout, ""));
    for (key, value) in variables.split('\0').filter_map(|v| v.split_once('=')) {
        if matches!(key, "PATH" | "LD_LIBRARY_PATH" | "LIBRARY_PATH" | "MANPATH") || key.contains("MPI") {
            env.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(Utf8PathBuf::from(launcher.trim()))
}
