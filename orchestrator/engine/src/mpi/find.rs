//! Where an MPI library is, and what it says about itself.

use crate::host::Host;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{MpiFamily, MpiIo, MpiLibrary, MpiSource};
use cvc_core::paths::is_executable;
use cvc_core::paths::on_path;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

const LIMIT: Duration = Duration::from_secs(20);

/// An MPI library that was found, with what it says about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MpiInstall {
    /// Its name in the campaign.
    pub name: String,
    /// Which launcher.
    pub family: MpiFamily,
    /// The launcher.
    pub mpiexec: Utf8PathBuf,
    /// Version.
    pub version: String,
    /// MPICH's device (`ch3:nemesis`, `ch4:ucx`), if it says so.
    pub device: Option<String>,
    /// The I/O layer that runs use.
    pub io: MpiIo,
    /// Name of Open MPI's ROMIO component (`romio321`), if it has one.
    pub romio_component: Option<String>,
    /// Names of OMPIO's parameters, without `io_ompio_`.
    pub ompio_parameters: Vec<String>,
    /// Extra environment: the campaign's, and a module's.
    pub env: BTreeMap<String, String>,
    /// Extra arguments of the launcher.
    pub args: Vec<String>,
}

impl MpiInstall {
    /// One line for people and for the facts of a run.
    pub fn describe(&self) -> String {
        let family = match self.family {
            MpiFamily::Mpich => "MPICH",
            MpiFamily::OpenMpi => "Open MPI",
        };
        let device = self.device.as_ref().map(|d| format!(" ({d})")).unwrap_or_default();
        let io = match self.io {
            MpiIo::Ompio => "OMPIO",
            MpiIo::Romio => "ROMIO",
        };
        format!("{family} {}{device}, {io}", self.version)
    }
}

/// Something that is not installed, what it costs, how to get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {hint}")]
pub struct Missing {
    /// What is missing, and where it was looked for.
    pub what: String,
    /// How to get it.
    pub hint: String,
}

/// Finds a library of a site and asks it for its version, device and I/O layer.
pub async fn find(host: &dyn Host, name: &str, library: &MpiLibrary) -> Result<MpiInstall, Missing> {
    let mut env: BTreeMap<String, String> = library.env.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let mpiexec = locate(host, name, library, &mut env).await?;
    let missing = |what: String| Missing { what, hint: "check the library's entry in the campaign file".into() };
    let run = |argv: Vec<String>| {
        let env = env.clone();
        async move { host.run(&argv, &env, LIMIT).await.map(|o| format!("{}\n{}", o.stdout, o.stderr)) }
    };
    let said = run(vec![mpiexec.to_string(), "--version".into()])
        .await
        .map_err(|e| missing(format!("`{name}`: the launcher does not work: {e}")))?;
    let is_openmpi = said.contains("Open MPI") || said.contains("OpenRTE") || said.contains("PRRTE");
    let is_hydra = said.contains("HYDRA");
    let (is, other) = match library.family {
        MpiFamily::Mpich => (is_hydra, "MPICH (Hydra)"),
        MpiFamily::OpenMpi => (is_openmpi, "Open MPI"),
    };
    if !is {
        let first = said.lines().next().unwrap_or_default();
        return Err(missing(format!("`{name}`: {mpiexec} is no launcher of {other}: it says `{first}`")));
    }
    let beside = |program: &str| mpiexec.parent().map(|d| d.join(program)).filter(|p| is_executable(p));
    match library.family {
        MpiFamily::Mpich => {
            let version = version_said(library.family, &said);
            let mut device = said.split("--with-device=").nth(1).map(|d| d.chars().take_while(|c| !"' \n".contains(*c)).collect());
            if device.is_none()
                && let Some(tool) = beside("mpichversion")
                && let Ok(said) = run(vec![tool.into_string()]).await
            {
                device = field(&said, "MPICH Device:");
            }
            Ok(MpiInstall {
                name: name.to_owned(),
                family: library.family,
                mpiexec,
                version,
                device,
                io: MpiIo::Romio,
                romio_component: None,
                ompio_parameters: Vec::new(),
                env,
                args: library.args.clone(),
            })
        }
        MpiFamily::OpenMpi => {
            let version = version_said(library.family, &said);
            let info =
                beside("ompi_info").or_else(|| beside("ompi_info.openmpi")).map(Utf8PathBuf::into_string).unwrap_or("ompi_info".into());
            let parameters =
                run([&info, "--parsable", "--param", "io", "ompio", "--level", "9"].map(str::to_owned).into()).await.unwrap_or_default();
            let mut ompio_parameters: Vec<String> = parameters
                .lines()
                .filter_map(|l| l.trim().strip_prefix("mca:io:ompio:param:io_ompio_")?.split(':').next())
                .map(str::to_owned)
                .collect();
            ompio_parameters.dedup();
            let components = run(vec![info, "--parsable".into(), "--component".into(), "io:all".into()]).await.unwrap_or_default();
            let components = if components.contains("mca:io:") {
                components
            } else {
                run(vec!["ompi_info".into(), "--parsable".into()]).await.unwrap_or_default()
            };
            let romio_component = components
                .lines()
                .filter_map(|l| l.trim().strip_prefix("mca:io:")?.split(':').next())
                .find(|c| c.starts_with("romio"))
                .map(str::to_owned);
            let io = library.io.unwrap_or(MpiIo::Ompio);
            if io == MpiIo::Romio && romio_component.is_none() {
                return Err(missing(format!("`{name}`: this Open MPI has no ROMIO component, and the campaign asks for `io = \"romio\"`")));
            }
            Ok(MpiInstall {
                name: name.to_owned(),
                family: library.family,
                mpiexec,
                version,
                device: None,
                io,
                romio_component,
                ompio_parameters,
                env,
                args: library.args.clone(),
            })
        }
    }
}

/// The version in what a launcher says to `--version`; `unknown` where there is none.
pub fn version_said(family: MpiFamily, said: &str) -> String {
    let version = match family {
        MpiFamily::Mpich => field(said, "Version:"),
        MpiFamily::OpenMpi => {
            let mut words = said.split_whitespace();
            words.find(|w| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.')).map(str::to_owned)
        }
    };
    version.unwrap_or_else(|| "unknown".into())
}

fn field(said: &str, name: &str) -> Option<String> {
    said.lines().find_map(|l| l.trim().strip_prefix(name)).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty())
}

async fn locate(host: &dyn Host, name: &str, library: &MpiLibrary, env: &mut BTreeMap<String, String>) -> Result<Utf8PathBuf, Missing> {
    let path = std::env::var("PATH").unwrap_or_default();
    match &library.source {
        MpiSource::Path => {
            let (names, package): (&[&str], _) = match library.family {
                MpiFamily::Mpich => (&["mpiexec.mpich", "mpiexec.hydra"], "mpich"),
                MpiFamily::OpenMpi => (&["mpirun.openmpi", "mpiexec.openmpi"], "openmpi-bin"),
            };
            if let Some(found) = on_path(names, &path) {
                return Ok(found);
            }
            // a plain mpiexec may belong to either family: ask it
            for found in path.split(':').map(|d| Utf8Path::new(d).join("mpiexec")).filter(|p| is_executable(p)) {
                let said = host.run(&[found.to_string(), "--version".into()], env, LIMIT).await;
                let hydra = said.as_ref().is_ok_and(|o| o.stdout.contains("HYDRA"));
                if hydra == (library.family == MpiFamily::Mpich) && said.is_ok() {
                    return Ok(found);
                }
            }
            Err(Missing {
                what: format!("MPI library `{name}` is not installed: no {} on PATH", names.join(", ")),
                hint: format!("install it (Debian, Ubuntu: apt-get install {package}; Spack: spack install {})", family(library)),
            })
        }
        MpiSource::Prefix(prefix) => {
            let prefix = cvc_core::paths::expand(prefix);
            ["mpiexec", "mpirun"].iter().map(|n| prefix.join("bin").join(n)).find(|p| is_executable(p)).ok_or_else(|| Missing {
                what: format!("MPI library `{name}` is not installed: no bin/mpiexec below {prefix}"),
                hint: format!("install it there, or give another prefix (Spack: spack location -i {})", family(library)),
            })
        }
        MpiSource::Mpiexec(program) => {
            let given = cvc_core::paths::expand(program);
            let found = if given.as_str().contains('/') { Some(given).filter(|p| is_executable(p)) } else { on_path(&[program], &path) };
            found.ok_or_else(|| Missing {
                what: format!("MPI library `{name}` is not installed: there is no {program}"),
                hint: "give a launcher that exists, or a prefix".into(),
            })
        }
        MpiSource::Module(module) => {
            let hint = format!("see `module avail {}`", module.split('/').next().unwrap_or(module));
            // `module` is a shell function, so this one goes through a shell; the module's name is an argument, not text of the script
            let script = "module load \"$1\" >/dev/null 2>&1 || exit 9; command -v mpiexec || command -v mpirun || exit 8; env -0";
            let argv: Vec<String> = ["bash", "-lc", script, "module", module].map(String::from).into();
            let output = host.run(&argv, env, LIMIT).await.map_err(|e| Missing { what: e.to_string(), hint: hint.clone() })?;
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
    }
}

fn family(library: &MpiLibrary) -> &'static str {
    match library.family {
        MpiFamily::Mpich => "mpich",
        MpiFamily::OpenMpi => "openmpi",
    }
}
