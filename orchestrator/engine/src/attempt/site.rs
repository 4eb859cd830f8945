//! What a site has: cores, MPI libraries, DMTCP, programs. Runs depend on it, plans do not.

use crate::{
    ckpt::{self, Checkpointer, Search, checkpointer},
    kernels,
    mpi::{self, Missing, MpiInstall},
    render,
    run::SiteContext,
    tracer::{self, Tracer},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::{
    LoadedApp,
    descriptor::{Descriptor, not_copied, not_shared},
    template_values,
};
use cvc_core::campaign::{MpiSource, StorageKind};
use cvc_core::paths;
use cvc_core::point::{CheckpointerKind, Point};
use cvc_core::units::counted;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

/// Maximum number of processes for each core, where more than one may run on it: more are a typing error, and would stop the machine.
const MAX_LOAD: u32 = 256;

/// How far to prepare a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Only check, and start nothing that the campaign file names: it may be somebody else's. What it names is only looked for.
    Find,
    /// Only check.
    Look,
    /// Compile the built-in kernels for these MPI libraries where they are missing.
    Build(BTreeSet<String>),
}

impl Readiness {
    /// Ready for these points: only libraries with which one of them runs a built-in kernel need it.
    pub fn for_points<'p>(
        apps: &IndexMap<String, LoadedApp>,
        points: impl IntoIterator<Item = &'p Point>,
    ) -> Self {
        let is_kernel = |point: &&Point| {
            apps.get(&point.app)
                .is_some_and(|app| app.descriptor.kernel)
        };
        Self::Build(
            points
                .into_iter()
                .filter(is_kernel)
                .map(|point| point.mpi.clone())
                .collect(),
        )
    }
}

/// The software of a site.
#[derive(Debug)]
pub struct ReadySite {
    /// What its runs depend on.
    pub context: Arc<SiteContext>,
    /// Cores of a node.
    pub cores: u32,
    /// Node names, in the order of mappings.
    pub hosts: Vec<String>,
    /// MPI libraries and checkpointers of which only the files were looked for.
    pub not_started: Vec<String>,
    /// MPI libraries by name.
    pub mpi: IndexMap<String, Result<MpiInstall, Missing>>,
    /// Checkpointers, with what is installed of them.
    pub checkpointers: Vec<(&'static dyn Checkpointer, Result<ckpt::Install, Missing>)>,
    /// Tracers, with their program or library.
    pub tracers: Vec<(&'static dyn Tracer, Result<Utf8PathBuf, Missing>)>,
    /// Directories with the built-in kernels, by MPI library; only those of [`Readiness::Build`].
    pub kernels: IndexMap<String, Result<Utf8PathBuf, Missing>>,
    /// Directories where programs are searched.
    pub app_dirs: Vec<Utf8PathBuf>,
}

impl ReadySite {
    /// Checks this machine, whatever the kind of the site.
    pub async fn ask(
        context: Arc<SiteContext>,
        readiness: Readiness,
        mut note: impl FnMut(String),
    ) -> Self {
        let site = &context.site;
        let mut mpi = IndexMap::new();
        let mut not_started = Vec::new();
        for (library, entry) in &site.mpi {
            let is_named = readiness == Readiness::Find && mpi::is_named(entry);
            let found = if is_named {
                mpi::find_files(library, entry)
            } else {
                mpi::find(library, entry).await
            };
            not_started.extend((is_named && found.is_ok()).then(|| library.clone()));
            mpi.insert(library.clone(), found);
        }
        let search = if readiness == Readiness::Find {
            Search::Files
        } else {
            Search::Start
        };
        let mut checkpointers = Vec::new();
        for checkpointer in ckpt::all() {
            let found = checkpointer.find(site, search).await;
            let unstarted = found.as_ref().is_ok_and(|install| install.is_unstarted());
            not_started.extend(unstarted.then(|| checkpointer.title().to_owned()));
            checkpointers.push((checkpointer, found));
        }
        let mut kernels = IndexMap::new();
        if let Readiness::Build(libraries) = readiness {
            for (library, install) in mpi
                .iter()
                .filter(|(library, _)| libraries.contains(*library))
            {
                if let Ok(install) = install {
                    kernels.insert(library.clone(), kernels::ensure(install, &mut note).await);
                }
            }
        }
        Self {
            cores: cores(),
            hosts: vec!["localhost".into()],
            mpi,
            checkpointers,
            not_started,
            tracers: tracer::all().map(|t| (t, t.find())).collect(),
            kernels,
            app_dirs: site
                .app_dirs
                .iter()
                .map(|d| paths::expand_below(&context.base, d))
                .collect(),
            context,
        }
    }

    /// Returns what is installed of a checkpointer.
    ///
    /// # Errors
    /// When it is not installed, or does not work.
    pub fn checkpointer(&self, kind: CheckpointerKind) -> Result<&ckpt::Install, &Missing> {
        static NOTHING: LazyLock<ckpt::Install> = LazyLock::new(ckpt::Install::default);
        let name = checkpointer(kind).name();
        let found = self
            .checkpointers
            .iter()
            .find(|(checkpointer, _)| checkpointer.name() == name);
        found.map_or(Ok(&*NOTHING), |(_, found)| found.as_ref())
    }

    /// Returns what is missing of the checkpointers that cvc asks for checkpoints; `None` if all of them are there.
    pub fn missing_driven_checkpointer(&self) -> Option<&Missing> {
        let driven = CheckpointerKind::ALL.iter().filter(|kind| kind.is_driven());
        driven
            .copied()
            .find_map(|kind| self.checkpointer(kind).err())
    }

    /// Returns the program or library of the point's tracer; it is empty where that needs none.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn tracer(&self, point: &Point) -> Result<&Utf8Path, &Missing> {
        let wanted = tracer::tracer(self.context.trace.of(point)).name();
        match self
            .tracers
            .iter()
            .find(|(tracer, _)| tracer.name() == wanted)
        {
            Some((_, found)) => found.as_ref().map(Utf8PathBuf::as_path),
            None => Ok(Utf8Path::new("")),
        }
    }

    /// The program of an application for this point.
    pub fn program(&self, app: &Descriptor, point: &Point) -> Result<Utf8PathBuf, Missing> {
        let values = template_values(app, point, "", "", "");
        let mut names = Vec::new();
        for template in &app.program.names {
            names.push(
                render::render_text(&format!("{}: program.names", app.name), template, &values)
                    .map_err(|e| Missing {
                        what: e.to_string(),
                        hint: "fix the descriptor".into(),
                    })?,
            );
        }
        if let Some(name) = names.iter().find(|n| n.starts_with('/')) {
            let path = Utf8PathBuf::from(name);
            return if paths::is_executable(&path) {
                Ok(path)
            } else if path.is_file() {
                Err(not_executable(&path))
            } else {
                Err(Missing {
                    what: format!("{} is not installed: no program {path}", app.name),
                    hint: install_hint(app),
                })
            };
        }
        let mut directories = Vec::new();
        if app.kernel {
            match self.kernels.get(&point.mpi) {
                Some(Ok(directory)) => directories.push(directory.clone()),
                Some(Err(missing)) => return Err(missing.clone()),
                // only checked: it matters whether they can be compiled
                None => {
                    if let Some(Ok(install)) = self.mpi.get(&point.mpi) {
                        // a module that was not loaded does not tell where its compiler is
                        let is_module = matches!(
                            self.context.site.mpi.get(&point.mpi).map(|l| &l.source),
                            Some(MpiSource::Module(_))
                        );
                        if is_module && self.not_started.contains(&point.mpi) {
                            return Ok("mpicc".into());
                        }
                        return kernels::mpicc(install);
                    }
                }
            }
        }
        for directory in &self.app_dirs {
            directories.push(directory.join(&point.mpi));
            directories.push(directory.clone());
        }
        for name in &names {
            if let Some(found) = directories
                .iter()
                .map(|d| d.join(name))
                .find(|p| paths::is_executable(p))
            {
                return Ok(paths::make_absolute(found));
            }
            if let Some(found) =
                paths::on_path(&[name.as_str()], &std::env::var("PATH").unwrap_or_default())
            {
                return Ok(found);
            }
        }
        let mut places = names
            .iter()
            .flat_map(|name| directories.iter().map(move |d| d.join(name)));
        if let Some(found) = places.find(|path| path.is_file()) {
            return Err(not_executable(&found));
        }
        let places: Vec<String> = self
            .app_dirs
            .iter()
            .map(ToString::to_string)
            .chain(["PATH".to_owned()])
            .collect();
        Err(Missing {
            what: format!(
                "{} is not installed: no {} in {}",
                app.name,
                names.join(" or "),
                places.join(", ")
            ),
            hint: install_hint(app),
        })
    }

    /// The reason why a point cannot run here: everything that is missing, with hints.
    pub fn obstacle(&self, point: &Point) -> Option<String> {
        let missing = self.obstacles(point);
        (!missing.is_empty()).then(|| {
            missing
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        })
    }

    /// Everything that keeps a point from running here, each with its remedy: the program first.
    pub fn obstacles(&self, point: &Point) -> Vec<Missing> {
        let library = match self.mpi.get(&point.mpi) {
            Some(Ok(_)) => None,
            Some(Err(m)) => Some(m.clone()),
            None => Some(Missing {
                what: format!(
                    "site {} has no MPI library `{}`",
                    self.context.name, point.mpi
                ),
                hint: format!(
                    "add [sites.{}.mpi.{}] to the campaign file",
                    self.context.name, point.mpi
                ),
            }),
        };
        let mut missing = Vec::new();
        // report a missing library once, not again for the kernels that it would compile
        if let Some(app) = self
            .context
            .apps
            .get(&point.app)
            .filter(|app| library.is_none() || !app.descriptor.kernel)
        {
            missing.extend(self.program(&app.descriptor, point).err());
        }
        missing.extend(library);
        missing.extend(self.checkpointer(point.checkpointer).err().cloned());
        missing.extend(
            checkpointer(point.checkpointer)
                .compressor(point.compression)
                .err(),
        );
        missing.extend(self.tracer(point).err().cloned());
        let own_checkpoint = point.checkpointer.has_own_files();
        let is_apart = point.mapping.nodes() > 1
            && self
                .context
                .site
                .storage
                .get(&point.storage)
                .is_some_and(|a| a.kind == StorageKind::NodeLocal);
        if let Some(app) = self.context.apps.get(&point.app).filter(|_| is_apart) {
            let (name, mapping, storage) = (&point.app, &point.mapping, &point.storage);
            let shares = app.descriptor.shares_files(own_checkpoint);
            let reasons = [
                shares.then(|| not_shared(name, mapping, storage)),
                (!app.sources.is_empty()).then(|| not_copied(name, mapping, storage)),
            ];
            missing.extend(reasons.into_iter().flatten().map(|what| Missing {
                what,
                hint: "give the site a storage area with kind = \"shared\"".into(),
            }));
        }
        let most = point.mapping.node_loads().max().unwrap_or(0);
        if most > self.cores.saturating_mul(MAX_LOAD) {
            let what = format!(
                "{} puts {most} processes on a node with {}, more than {MAX_LOAD} on each",
                point.mapping,
                counted(self.cores, "core")
            );
            missing.push(Missing {
                what,
                hint: "is the number a typing error?".into(),
            });
        } else if !self.context.site.oversubscribe && most > self.cores {
            missing.push(Missing {
                what: format!(
                    "{} puts more processes on a node than its {} cores",
                    point.mapping, self.cores
                ),
                hint: "set oversubscribe = true for the site to allow it".into(),
            });
        }
        missing
    }
}

fn cores() -> u32 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|n| u32::try_from(n.get()).ok())
        .unwrap_or(1)
}

/// An installed component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundComponent {
    /// Version; `None` if it was not asked for.
    pub version: Option<String>,
    /// Where it is; `None` if that does not matter.
    pub path: Option<String>,
    /// Digest of the sources, of the kernels.
    pub digest: Option<String>,
}

/// The components of a site that were checked; `None` if not installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found(pub BTreeMap<String, Option<FoundComponent>>);

impl Found {
    /// The components of a site.
    pub fn of(site: &ReadySite) -> Self {
        let mut found = BTreeMap::new();
        for (name, install) in &site.mpi {
            let one = install.as_ref().ok().map(|i| FoundComponent {
                version: Some(i.version.clone()),
                path: Some(i.mpiexec.to_string()),
                digest: None,
            });
            found.insert(format!("mpi/{name}"), one);
        }
        for (checkpointer, install) in &site.checkpointers {
            let programs = install
                .as_ref()
                .map(|install| checkpointer.node_programs(install))
                .unwrap_or_default();
            let one = install.as_ref().ok().map(|install| FoundComponent {
                version: install.version.clone(),
                path: programs.first().map(ToString::to_string),
                digest: None,
            });
            if install.is_err() || !programs.is_empty() {
                found.insert(checkpointer.name().into(), one);
            }
        }
        Self(found)
    }
}
/// A program that is there, and must not be started.
fn not_executable(path: &Utf8Path) -> Missing {
    Missing {
        what: format!("{path} is not executable"),
        hint: format!("chmod +x {}", render::shell_quote(path.as_str())),
    }
}

/// How to get a program, if its descriptor does not say so.
fn install_hint(app: &Descriptor) -> String {
    if app.program.install.is_empty() {
        "put it there, or name its directory in the site's `app_dirs`".to_owned()
    } else {
        app.program.install.clone()
    }
}
