//! The resources of a site: cores, MPI libraries, DMTCP, programs. Runs depend on these resources, plans do not.

use super::setup::{self, Variables};
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
use cvc_core::campaign::{
    MpiLibrary, MpiSource, RunEnvironment, SiteApp, StorageKind, TraceSettings,
};
use cvc_core::paths;
use cvc_core::point::{CheckpointerKind, Point};
use cvc_core::units::counted;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

/// Maximum number of processes for each core, where oversubscription is allowed. More are assumed to be a typing error, and would overload the
/// machine.
const MAX_LOAD: u32 = 256;

/// How thoroughly to prepare a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Only check, and start no program that the campaign file names, because the file may come from another user: check only that such programs
    /// exist.
    Find,
    /// Only check; programs may be started for that.
    Look,
    /// Check, and compile the built-in kernels for these MPI libraries where they are missing.
    Build(BTreeSet<String>),
}

impl Readiness {
    /// Returns the preparation that these points need: kernels only for MPI libraries with which a point runs a built-in kernel, or is traced by
    /// cvc's own library.
    pub fn for_points<'p>(
        apps: &IndexMap<String, LoadedApp>,
        trace: &TraceSettings,
        points: impl IntoIterator<Item = &'p Point>,
    ) -> Self {
        Self::Build(
            points
                .into_iter()
                .filter(|point| trace.needs_kernels(apps, point))
                .map(|point| point.mpi.clone())
                .collect(),
        )
    }
}

/// Whether cvc's own C programs for an MPI library are compiled, and where.
enum Compiled<'s> {
    /// They are compiled, and in this directory.
    In(&'s Utf8Path),
    /// They are not compiled yet; this compiler can compile them.
    By(Utf8PathBuf),
}

/// The software of a site.
#[derive(Debug)]
pub struct ReadySite {
    /// The context of the site's runs.
    pub context: Arc<SiteContext>,
    /// Cores of a node.
    pub cores: u32,
    /// Names of nodes, in the order in which mappings use them.
    pub hosts: Vec<String>,
    /// Names of MPI libraries and checkpointers whose files were found but not started.
    pub not_started: Vec<String>,
    /// MPI libraries by name in the campaign.
    pub mpi: IndexMap<String, Result<MpiInstall, Missing>>,
    /// Checkpointers, with their installations.
    pub checkpointers: Vec<(&'static dyn Checkpointer, Result<ckpt::Install, Missing>)>,
    /// Tracers, each with its program or library.
    pub tracers: Vec<(&'static dyn Tracer, Result<Utf8PathBuf, Missing>)>,
    /// Directories with the built-in kernels, by MPI library; only for the libraries in [`Readiness::Build`].
    pub kernels: IndexMap<String, Result<Utf8PathBuf, Missing>>,
    /// Environment variables that the site's setup (modules, prologue) for an application sets, by the names of MPI library and application.
    pub entered: IndexMap<(String, String), Result<BTreeMap<String, String>, Missing>>,
    /// Directories in which programs are searched.
    pub app_dirs: Vec<Utf8PathBuf>,
}

impl ReadySite {
    /// Checks the software of this machine, which is the site itself or a cluster's head node.
    pub async fn ask(
        context: Arc<SiteContext>,
        readiness: Readiness,
        mut note: impl FnMut(String),
    ) -> Self {
        let site = &context.site;
        let mut entered = EnteredEnvironments::of(&context);
        let mut mpi = IndexMap::new();
        let mut not_started = Vec::new();
        let starts = readiness != Readiness::Find;
        for (library, entry) in &site.mpi {
            let environment = site.run_environment(library, None);
            // no program that the file names is started: treat the whole environment as named by the library
            let entry = MpiLibrary {
                environment: environment.clone(),
                ..entry.clone()
            };
            let is_named = !starts && mpi::is_named(&entry);
            let found = if is_named {
                mpi::find_files(library, &entry)
            } else if environment.is_empty() {
                mpi::find(library, &entry).await
            } else {
                match entered.enter(&environment).await {
                    Ok(set) => mpi::find(library, &setup::library_in(&entry, &set)).await,
                    Err(missing) => Err(missing),
                }
            };
            not_started.extend((is_named && found.is_ok()).then(|| library.clone()));
            mpi.insert(library.clone(), found);
        }
        let search = if readiness == Readiness::Find {
            Search::Files
        } else {
            Search::Start
        };
        let apps = if starts {
            enter_apps(&context, &mut entered).await
        } else {
            IndexMap::new()
        };
        let set = if starts {
            entered.enter(&site.environment).await
        } else {
            Ok(Variables::new())
        };
        // if a site's environment cannot be set up, each of its libraries reports that
        let inside = setup::site_in(site, &set.unwrap_or_default());
        let mut checkpointers = Vec::new();
        for checkpointer in ckpt::all() {
            let found = checkpointer.find(&inside, search).await;
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
            entered: apps,
            app_dirs: site
                .app_dirs
                .iter()
                .map(|d| paths::expand_below(&context.base, d))
                .collect(),
            context,
        }
    }

    /// Returns the installation of a checkpointer.
    ///
    /// # Errors
    /// The checkpointer is not installed, or does not work.
    pub fn checkpointer(&self, kind: CheckpointerKind) -> Result<&ckpt::Install, &Missing> {
        static NOTHING: LazyLock<ckpt::Install> = LazyLock::new(ckpt::Install::default);
        let name = checkpointer(kind).name();
        let found = self
            .checkpointers
            .iter()
            .find(|(checkpointer, _)| checkpointer.name() == name);
        found.map_or(Ok(&*NOTHING), |(_, found)| found.as_ref())
    }

    /// Returns what is missing for the first unusable checkpointer among those that cvc itself controls; `None` if all of them are installed.
    pub fn missing_driven_checkpointer(&self) -> Option<&Missing> {
        let driven = CheckpointerKind::ALL.iter().filter(|kind| kind.is_driven());
        driven
            .copied()
            .find_map(|kind| self.checkpointer(kind).err())
    }

    /// Returns the program or library of the point's tracer. The path is empty if the tracer needs none, or if its library is not compiled yet.
    ///
    /// # Errors
    /// The tracer is not installed, or cannot be compiled.
    pub fn tracer(&self, point: &Point) -> Result<Utf8PathBuf, Missing> {
        let wanted = tracer::tracer(self.context.trace.of(point));
        if let Some(library) = wanted.compiled() {
            return Ok(match self.compiled(point)? {
                Some(Compiled::In(directory)) => directory.join(library),
                Some(Compiled::By(_)) | None => Utf8PathBuf::new(),
            });
        }
        let is_wanted = |(tracer, _): &&(&dyn Tracer, _)| tracer.name() == wanted.name();
        match self.tracers.iter().find(is_wanted) {
            Some((_, found)) => found.clone(),
            None => Ok(Utf8PathBuf::new()),
        }
    }

    /// Returns where cvc's own C programs for a point's MPI library come from; `None` if the library is not installed.
    ///
    /// # Errors
    /// The programs cannot be compiled.
    fn compiled(&self, point: &Point) -> Result<Option<Compiled<'_>>, Missing> {
        if let Some(found) = self.kernels.get(&point.mpi) {
            return match found {
                Ok(directory) => Ok(Some(Compiled::In(directory))),
                Err(missing) => Err(missing.clone()),
            };
        }
        let Some(Ok(install)) = self.mpi.get(&point.mpi) else {
            return Ok(None);
        };
        // the compiler's path in a module that was not loaded is unknown
        let library = self.context.site.mpi.get(&point.mpi);
        let is_module = library.is_some_and(|of| matches!(of.source, MpiSource::Module(_)));
        let is_unstarted = self.not_started.contains(&point.mpi);
        if is_module && is_unstarted || self.assumes_environment(point) {
            return Ok(Some(Compiled::By("mpicc".into())));
        }
        kernels::mpicc(install).map(|compiler| Some(Compiled::By(compiler)))
    }

    /// Returns the environment variables that the site's setup for the point's application sets, in addition to the variables of its MPI library.
    ///
    /// # Errors
    /// The environment could not be set up.
    pub fn entered(&self, point: &Point) -> Result<&BTreeMap<String, String>, &Missing> {
        static NOTHING: LazyLock<BTreeMap<String, String>> = LazyLock::new(BTreeMap::new);
        let key = (point.mpi.clone(), point.app.clone());
        self.entered.get(&key).map_or(Ok(&*NOTHING), Result::as_ref)
    }

    /// Returns whether the campaign file has modules or a prologue for the point that were not run. The software that they provide is then assumed to
    /// exist.
    fn assumes_environment(&self, point: &Point) -> bool {
        let site = &self.context.site;
        self.not_started.contains(&point.mpi)
            && !site
                .run_environment(&point.mpi, Some(&point.app))
                .is_empty()
    }

    /// Returns the value of PATH for a point: the directories in which its programs are searched last.
    fn path(&self, point: &Point) -> String {
        let of_app = self.entered(point).ok().and_then(|set| set.get("PATH"));
        let of_library = || self.mpi.get(&point.mpi)?.as_ref().ok()?.env.get("PATH");
        let set = of_app.or_else(of_library).cloned();
        set.unwrap_or_else(|| std::env::var("PATH").unwrap_or_default())
    }

    /// Returns the path of an application's program for this point.
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
            match self.compiled(point)? {
                Some(Compiled::In(directory)) => directories.push(directory.to_owned()),
                // only check whether the programs can be compiled
                Some(Compiled::By(compiler)) => return Ok(compiler),
                None => {}
            }
        }
        let path = self.path(point);
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
            if let Some(found) = paths::on_path(&[name.as_str()], &path) {
                return Ok(found);
            }
        }
        let mut places = names
            .iter()
            .flat_map(|name| directories.iter().map(move |d| d.join(name)));
        if let Some(found) = places.find(|path| path.is_file()) {
            return Err(not_executable(&found));
        }
        if self.assumes_environment(point)
            && let Some(name) = names.first()
        {
            return Ok(name.into());
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

    /// Returns the reason why a point cannot run here: everything that is missing, with hints; `None` if it can run.
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

    /// Returns all obstacles to running a point here, each with a hint; missing programs come first.
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
        // report a missing library once, not again for the kernels that need its compiler
        if let Some(app) = self
            .context
            .apps
            .get(&point.app)
            .filter(|app| library.is_none() || !app.descriptor.kernel)
        {
            missing.extend(self.program(&app.descriptor, point).err());
        }
        missing.extend(library);
        missing.extend(self.entered(point).err().cloned());
        match self.checkpointer(point.checkpointer) {
            Ok(install) => {
                let checkpointer = checkpointer(point.checkpointer);
                missing.extend(checkpointer.check_strategy(install, point.strategy).err());
            }
            Err(absent) => missing.push(absent.clone()),
        }
        missing.extend(
            checkpointer(point.checkpointer)
                .compressor(point.compression)
                .err(),
        );
        match (self.tracer(point), self.mpi.get(&point.mpi)) {
            (Err(absent), _) => missing.push(absent),
            (Ok(tool), Some(Ok(install))) if tool != "" => {
                let tracer = tracer::tracer(self.context.trace.of(point));
                missing.extend(tracer.check_family(&tool, install.family).err());
            }
            (Ok(_), _) => {}
        }
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
            let shares = app.descriptor.shares_files(own_checkpoint, point);
            let reasons = [
                shares.then(|| not_shared(name, mapping, storage)),
                (!app.sources.is_empty()).then(|| not_copied(name, mapping, storage)),
            ];
            missing.extend(reasons.into_iter().flatten().map(|what| Missing {
                what,
                hint: "give the site a storage area with kind = \"shared\"".into(),
            }));
        }
        let area = self.context.site.storage.get(&point.storage);
        let is_shared = area.is_some_and(|area| area.kind == StorageKind::Shared);
        if self.context.checkpoint.levels_of(point).is_some() && is_shared {
            missing.push(Missing {
                what: format!(
                    "strategy = \"{}\" keeps checkpoints on each node, but all nodes see the same files in `{}`",
                    point.strategy, point.storage
                ),
                hint: "give the site a storage area on the nodes' own disks, with kind = \"node-local\"".into(),
            });
        }
        let (most, workers) = (
            point.mapping.node_cores().max().unwrap_or(0),
            point.mapping.workers(),
        );
        if most > self.cores.saturating_mul(MAX_LOAD) {
            let what = format!(
                "{} puts {most} {workers} on a node with {}, more than {MAX_LOAD} on each",
                point.mapping,
                counted(self.cores, "core")
            );
            missing.push(Missing {
                what,
                hint: "check the number".into(),
            });
        } else if !self.context.site.oversubscribe && most > self.cores {
            missing.push(Missing {
                what: format!(
                    "{} puts more {workers} on a node than its {} cores",
                    point.mapping, self.cores
                ),
                hint: "set oversubscribe = true for the site to allow it".into(),
            });
        }
        missing
    }
}

/// Sets up a site's environments for applications, with each MPI library.
async fn enter_apps(
    context: &SiteContext,
    entered: &mut EnteredEnvironments<'_>,
) -> IndexMap<(String, String), Result<Variables, Missing>> {
    let mut of_apps = IndexMap::new();
    let site = &context.site;
    let with_own = |(_, app): &(&String, &SiteApp)| !app.environment.is_empty();
    for (app, _) in site.apps.iter().filter(with_own) {
        for library in site.mpi.keys() {
            let environment = site.run_environment(library, Some(app));
            let set = entered.enter(&environment).await;
            of_apps.insert((library.clone(), app.clone()), set);
        }
    }
    of_apps
}

/// Environments of a site that were set up. Each is set up only once, because that starts a login shell.
struct EnteredEnvironments<'a> {
    context: &'a SiteContext,
    known: Vec<(RunEnvironment, Result<Variables, Missing>)>,
}

impl<'a> EnteredEnvironments<'a> {
    fn of(context: &'a SiteContext) -> Self {
        Self {
            context,
            known: Vec::new(),
        }
    }

    /// Sets up an environment, and returns the variables that it sets.
    async fn enter(&mut self, environment: &RunEnvironment) -> Result<Variables, Missing> {
        if let Some((_, set)) = self.known.iter().find(|(of, _)| of == environment) {
            return set.clone();
        }
        let set = setup::enter(environment, &self.context.site, &self.context.base).await;
        self.known.push((environment.clone(), set.clone()));
        set
    }
}

fn cores() -> u32 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|n| u32::try_from(n.get()).ok())
        .unwrap_or(1)
}

/// An installed component of a site, such as a library or a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundComponent {
    /// Version; `None` if it was not queried.
    pub version: Option<String>,
    /// Path; `None` if it is irrelevant.
    pub path: Option<String>,
    /// Digest of the kernels' sources; `None` for other components.
    pub digest: Option<String>,
}

/// The checked components of a site by name; `None` for a component that is not installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundComponents(pub BTreeMap<String, Option<FoundComponent>>);

impl FoundComponents {
    /// Returns the components of a site.
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
/// Returns the error for a file that exists but is not executable.
fn not_executable(path: &Utf8Path) -> Missing {
    Missing {
        what: format!("{path} is not executable"),
        hint: format!("chmod +x {}", render::shell_quote(path.as_str())),
    }
}

/// Returns the hint how to install an application whose descriptor has no such hint.
fn install_hint(app: &Descriptor) -> String {
    if app.program.install.is_empty() {
        "put it there, or name its directory in the site's `app_dirs`".to_owned()
    } else {
        app.program.install.clone()
    }
}
