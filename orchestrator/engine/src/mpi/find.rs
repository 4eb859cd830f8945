//! Finds an MPI library on this machine, and queries its properties.

use super::{
    launcher::{Ask, Features, Launcher, MpiInstall},
    missing::Missing,
};
use crate::host::{Host, LocalHost};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{MpiLibrary, MpiSource};
use cvc_core::paths::{expand, is_executable, on_path};
use std::{collections::BTreeMap, fmt::Display, time::Duration};

/// Time limit for loading a module.
const LIMIT: Duration = Duration::from_secs(20);

/// Finds a library of a site on this machine and queries its version, device and I/O layer.
///
/// # Errors
/// The library is not installed, is of another family, or lacks a requested feature.
pub async fn find(name: &str, library: &MpiLibrary) -> Result<MpiInstall, Missing> {
    find_with(super::registry::launcher(library.family), name, library).await
}

/// Finds a library like [`find`], but as a library of this family instead of the family in `library`.
///
/// # Errors
/// See [`find`].
pub async fn find_with(
    family: &'static dyn Launcher,
    name: &str,
    library: &MpiLibrary,
) -> Result<MpiInstall, Missing> {
    let mut env: BTreeMap<String, String> = library
        .env
        .iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let mpiexec = locate(family, name, library, &mut env).await?;
    let ask = Ask {
        name,
        mpiexec: &mpiexec,
        env: &env,
    };
    let answer = ask
        .try_run(&[mpiexec.as_str(), "--version"])
        .await
        .map_err(|e| ask.unusable(format_args!("the launcher does not work: {e}")))?;
    if !family.recognizes(&answer) {
        let first = answer.lines().next().unwrap_or_default();
        return Err(ask.unusable(format_args!(
            "{mpiexec} is not a launcher of {}: it reports `{first}`",
            family.launcher_title()
        )));
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

/// Returns whether the campaign file determines which command queries the library, because it names a program, or variables that change a program's
/// behaviour.
pub fn is_named(library: &MpiLibrary) -> bool {
    let is_usual = |program: &str| {
        super::registry::launcher(library.family)
            .programs()
            .contains(&program)
            || program == "mpiexec"
    };
    let names_program = match &library.source {
        MpiSource::Path => false,
        MpiSource::Mpiexec(program) => !is_usual(program),
        MpiSource::Prefix(_) | MpiSource::Module(_) => true,
    };
    names_program || !library.env.is_empty() || !library.environment.is_empty()
}

/// Finds a library like [`find`], but without starting anything, so that its properties stay unknown. Environment modules, and the programs in them,
/// are assumed to exist.
///
/// # Errors
/// The library's launcher is missing.
pub fn find_files(name: &str, library: &MpiLibrary) -> Result<MpiInstall, Missing> {
    let family = super::registry::launcher(library.family);
    let mpiexec = match &library.source {
        MpiSource::Path | MpiSource::Mpiexec(_) if !library.environment.is_empty() => {
            "mpiexec".into()
        }
        MpiSource::Module(_) => "mpiexec".into(),
        MpiSource::Path => {
            let programs: Vec<&str> = family
                .programs()
                .iter()
                .copied()
                .chain(["mpiexec"])
                .collect();
            on_path(&programs, &std::env::var("PATH").unwrap_or_default())
                .ok_or_else(|| not_on_path(family, name))?
        }
        source @ (MpiSource::Prefix(_) | MpiSource::Mpiexec(_)) => {
            let path = std::env::var("PATH").unwrap_or_default();
            locate_named(family, name, source, &path)?
        }
    };
    let features = Features::romio(None);
    Ok(MpiInstall {
        name: name.to_owned(),
        family,
        version: "unknown".into(),
        device: features.device,
        io: library.io.unwrap_or(features.io),
        romio_component: features.romio_component,
        ompio_parameters: features.ompio_parameters,
        args: library.args.clone(),
        mpiexec,
        env: library
            .env
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
    })
}

fn absent(name: &str, what: impl Display, hint: String) -> Missing {
    Missing {
        what: format!("MPI library `{name}` is not installed: {what}"),
        hint,
    }
}

fn not_on_path(family: &dyn Launcher, name: &str) -> Missing {
    absent(
        name,
        format_args!("no {} on PATH", family.programs().join(", ")),
        format!(
            "install it (Debian, Ubuntu: apt-get install {}; Spack: spack install {})",
            family.packages().0,
            family.name()
        ),
    )
}

/// Finds the launcher at a prefix, or by its name.
fn locate_named(
    family: &dyn Launcher,
    name: &str,
    source: &MpiSource,
    path: &str,
) -> Result<Utf8PathBuf, Missing> {
    match source {
        MpiSource::Prefix(prefix) => {
            let prefix = expand(prefix);
            ["mpiexec", "mpirun"]
                .iter()
                .map(|n| prefix.join("bin").join(n))
                .find(|p| is_executable(p))
                .ok_or_else(|| {
                    let hint = format!(
                        "install it there, or give another prefix (Spack: spack location -i {})",
                        family.name()
                    );
                    absent(name, format_args!("no bin/mpiexec below {prefix}"), hint)
                })
        }
        MpiSource::Mpiexec(program) => {
            let given = expand(program);
            let found = if given.as_str().contains('/') {
                Some(given).filter(|p| is_executable(p))
            } else {
                on_path(&[program], path)
            };
            found.ok_or_else(|| {
                absent(
                    name,
                    format_args!("no {program}"),
                    "give a launcher that exists, or a prefix".into(),
                )
            })
        }
        MpiSource::Path | MpiSource::Module(_) => Err(not_on_path(family, name)),
    }
}

async fn locate(
    family: &dyn Launcher,
    name: &str,
    library: &MpiLibrary,
    env: &mut BTreeMap<String, String>,
) -> Result<Utf8PathBuf, Missing> {
    // the library's own PATH takes precedence
    let path = match env.get("PATH") {
        Some(path) => path.clone(),
        None => std::env::var("PATH").unwrap_or_default(),
    };
    match &library.source {
        MpiSource::Path => match on_path(family.programs(), &path) {
            Some(found) => Ok(found),
            None => plain_mpiexec(family, name, &path, env)
                .await
                .ok_or_else(|| not_on_path(family, name)),
        },
        source @ (MpiSource::Prefix(_) | MpiSource::Mpiexec(_)) => {
            locate_named(family, name, source, &path)
        }
        MpiSource::Module(module) => load_module(name, module, env).await,
    }
}

/// Finds the library's launcher among all `mpiexec` on PATH, by querying each: a plain `mpiexec` may belong to any family.
async fn plain_mpiexec(
    family: &dyn Launcher,
    name: &str,
    path: &str,
    env: &BTreeMap<String, String>,
) -> Option<Utf8PathBuf> {
    for found in path
        .split(':')
        .map(|d| Utf8Path::new(d).join("mpiexec"))
        .filter(|p| is_executable(p))
    {
        let answer = Ask {
            name,
            mpiexec: &found,
            env,
        }
        .run(&[found.as_str(), "--version"])
        .await;
        if answer.is_some_and(|answer| family.recognizes(&answer)) {
            return Some(found);
        }
    }
    None
}

/// Loads an environment module, adds its settings for MPI to `env`, and returns its launcher.
async fn load_module(
    name: &str,
    module: &str,
    env: &mut BTreeMap<String, String>,
) -> Result<Utf8PathBuf, Missing> {
    let hint = format!(
        "see `module avail {}`",
        module.split('/').next().unwrap_or(module)
    );
    // `module` is a shell function, so a shell is needed; the module's name is passed as an argument, not inserted into the script
    let script = "module load \"$1\" >/dev/null 2>&1 || exit 9; command -v mpiexec || command -v mpirun || exit 8; env -0";
    let argv: Vec<String> = ["bash", "-lc", script, "module", module]
        .map(String::from)
        .into();
    let output = LocalHost
        .run(&argv, env, LIMIT)
        .await
        .map_err(|e| Missing {
            what: e.to_string(),
            hint: hint.clone(),
        })?;
    if output.code != Some(0) {
        return Err(Missing {
            what: format!(
                "MPI library `{name}`: module {module} cannot be loaded or has no mpiexec"
            ),
            hint,
        });
    }
    let (launcher, variables) = output
        .stdout
        .split_once('\n')
        .unwrap_or((&output.stdout, ""));
    for (key, value) in variables.split('\0').filter_map(|v| v.split_once('=')) {
        if matches!(key, "PATH" | "LD_LIBRARY_PATH" | "LIBRARY_PATH" | "MANPATH")
            || key.contains("MPI")
        {
            env.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(Utf8PathBuf::from(launcher.trim()))
}
