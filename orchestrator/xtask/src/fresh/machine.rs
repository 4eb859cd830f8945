//! The file system of a fresh machine: a cached minimal system, and disposable copies of it with the host's registry settings.

use crate::interrupt::Interrupts;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Prefix of the directories of copies.
const RUN: &str = "run-";

/// File that is locked while a copy is in use.
const IN_USE: &str = "in-use";

/// Environment variables with registry, proxy and certificate settings.
const SETTINGS: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_PROXY",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_RETRIES",
    "PIP_CERT",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// Prefixes of cargo's variables with such settings.
const SETTINGS_BY_PREFIX: &[&str] = &["CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_", "CARGO_REGISTRY_", "CARGO_SOURCE_"];

/// Packages of the minimal system, besides essential packages and apt.
const PACKAGES: &str = "ca-certificates,git";

/// apt settings that keep downloaded packages, overriding those of container images.
const KEEP_PACKAGES: &str = "#clear DPkg::Post-Invoke;\n#clear APT::Update::Post-Invoke;\n\
    APT::Keep-Downloaded-Packages \"true\";\nBinary::apt::APT::Keep-Downloaded-Packages \"true\";\n";

/// Minimal systems and downloaded packages, kept between calls.
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Opens `CVC_FRESH_CACHE`, or `cvc-fresh` in the user's cache.
    pub fn open() -> Result<Self, String> {
        let own = std::env::var_os("CVC_FRESH_CACHE").map(PathBuf::from);
        let users = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".cache")));
        let dir = own.or_else(|| Some(users()?.join("cvc-fresh"))).ok_or("no cache directory; hint: set CVC_FRESH_CACHE")?;
        fs::create_dir_all(dir.join("packages")).map_err(|e| format!("{}: {e}", dir.display()))?;
        let dir = dir.canonicalize().map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Self { dir })
    }

    /// Returns the minimal system, and makes it first if necessary.
    pub fn base(&self, interrupts: &Interrupts) -> Result<PathBuf, String> {
        let suite = codename()?;
        let base = self.dir.join(format!("base-{suite}"));
        let lock = lock(&self.dir.join("lock"))?;
        lock.lock().map_err(|e| format!("{}: {e}", self.dir.display()))?;
        if base.exists() {
            return Ok(base);
        }
        eprintln!("== making a minimal {suite} in {} (once)", base.display());
        let partial = self.dir.join("base.partial");
        remove(&partial)?;
        let made = interrupts
            .run(
                isolated()
                    .args(["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase"])
                    .arg(format!("--include={PACKAGES}"))
                    .arg(&suite)
                    .arg(&partial)
                    .args(sources())
                    .stdin(Stdio::null())
                    .stdout(Stdio::null()),
            )
            .and_then(|status| if status.success() { Ok(()) } else { Err(format!("mmdebstrap failed ({status}): its messages are above")) })
            .and_then(|()| fs::rename(&partial, &base).map_err(|e| format!("{}: {e}", base.display())));
        if made.is_err() {
            remove(&partial)?;
        }
        made.map(|()| base)
    }

    /// Copies the minimal system, after removing copies left by killed calls.
    pub fn copy(&self, base: &Path, interrupts: &Interrupts) -> Result<Copy, String> {
        self.remove_abandoned()?;
        let dir = self.dir.join(format!("{RUN}{}", std::process::id()));
        fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let in_use = lock(&dir.join(IN_USE))?;
        in_use.lock().map_err(|e| format!("{}: {e}", dir.display()))?;
        let copy = Copy { root: dir.join("root"), dir, packages: self.dir.join("packages"), _in_use: in_use };
        let status = interrupts.run(isolated().args(["cp", "-a", "--reflink=auto"]).arg(base).arg(&copy.root))?;
        if !status.success() {
            return Err(format!("cannot copy {}: cp: {status}", base.display()));
        }
        Ok(copy)
    }

    fn remove_abandoned(&self) -> Result<(), String> {
        let entries = fs::read_dir(&self.dir).map_err(|e| format!("{}: {e}", self.dir.display()))?;
        for dir in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(RUN)).map(|e| e.path()) {
            let Ok(in_use) = File::open(dir.join(IN_USE)) else { continue };
            if in_use.try_lock().is_ok() {
                eprintln!("== removing {}, left by an earlier call", dir.display());
                remove(&dir)?;
            }
        }
        Ok(())
    }
}

/// A disposable copy of the minimal system; removed when dropped.
pub struct Copy {
    /// Its root directory.
    pub root: PathBuf,
    dir: PathBuf,
    packages: PathBuf,
    _in_use: File,
}

impl Copy {
    /// Copies registry settings and links downloaded packages and crates, but no installed programs.
    pub fn equip(&self) -> Result<(), String> {
        for dir in ["opt/rust", "opt/cargo/registry", "opt/fresh", "target", "etc/apt/apt.conf.d"] {
            self.make_dir(dir)?;
        }
        self.write("opt/fresh/inside.sh", include_str!("inside.sh"))?;
        let hosts = fs::read_to_string("/etc/hosts").unwrap_or_else(|_| "127.0.0.1 localhost\n".into());
        self.write("etc/hosts", &format!("{hosts}\n127.0.1.1 fresh\n"))?;
        self.write("etc/hostname", "fresh\n")?;
        self.carry_content("/etc/resolv.conf")?;
        self.equip_apt()?;
        self.carry("/etc/ssl/certs")?;
        self.carry("/usr/local/share/ca-certificates")?;
        self.carry("/etc/pip.conf")?;
        for (_, value) in settings() {
            if value.starts_with('/') && Path::new(&value).is_file() {
                self.carry_content(&value)?;
            }
        }
        self.equip_cargo()
    }

    /// Copies sources, keys, preferences and `Acquire` settings. Other settings may refer to programs that are not installed there.
    fn equip_apt(&self) -> Result<(), String> {
        for listed in ["etc/apt/sources.list", "etc/apt/sources.list.d"] {
            remove(&self.root.join(listed))?;
        }
        let parts = [
            "sources.list",
            "sources.list.d",
            "auth.conf",
            "auth.conf.d",
            "keyrings",
            "trusted.gpg",
            "trusted.gpg.d",
            "preferences",
            "preferences.d",
        ];
        for part in parts {
            self.carry(&format!("/etc/apt/{part}"))?;
        }
        self.carry("/usr/share/keyrings")?;
        let dump = Command::new("apt-config").arg("dump").output().map_err(|e| format!("cannot start apt-config: {e}"))?;
        let dump = String::from_utf8_lossy(&dump.stdout).into_owned();
        let acquire: String = dump.lines().filter(|l| l.starts_with("Acquire::")).map(|l| format!("{l}\n")).collect();
        self.write("etc/apt/apt.conf.d/00acquire", &acquire)?;
        self.write("etc/apt/apt.conf.d/zz-keep-packages", KEEP_PACKAGES)?;
        link_all(&self.packages, &self.archives(), "deb")
    }

    /// Copies cargo's settings and links downloaded crates.
    fn equip_cargo(&self) -> Result<(), String> {
        let Some(ours) = cargo_home() else { return Ok(()) };
        let theirs = self.root.join("opt/cargo");
        for file in ["config.toml", "config", "credentials.toml"] {
            let from = ours.join(file);
            if from.is_file() {
                fs::copy(&from, theirs.join(file)).map_err(|e| format!("{}: {e}", from.display()))?;
            }
        }
        let index = ours.join("registry/index");
        if index.is_dir() {
            succeed(Command::new("cp").arg("-a").arg(&index).arg(theirs.join("registry")))?;
        }
        for registry in subdirectories(&ours.join("registry/cache")) {
            link_all(&registry, &theirs.join("registry/cache").join(name(&registry)), "crate")?;
        }
        Ok(())
    }

    /// Clones the checked-out commit of a repository.
    pub fn clone(&self, repository: &Path, home: &str) -> Result<(), String> {
        self.make_dir(home)?;
        let to = self.root.join(home).join("cvc");
        // without hard links, because the clone may change its owner
        succeed(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(repository).arg(to))
    }

    /// Keeps newly downloaded packages and crates for the next call.
    pub fn keep_downloads(&self) -> Result<(), String> {
        link_all(&self.archives(), &self.packages, "deb")?;
        let Some(ours) = cargo_home() else { return Ok(()) };
        for registry in subdirectories(&self.root.join("opt/cargo/registry/cache")) {
            link_all(&registry, &ours.join("registry/cache").join(name(&registry)), "crate")?;
        }
        Ok(())
    }

    fn archives(&self) -> PathBuf {
        self.root.join("var/cache/apt/archives")
    }

    fn make_dir(&self, dir: &str) -> Result<(), String> {
        let dir = self.root.join(dir);
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))
    }

    fn write(&self, file: &str, content: &str) -> Result<(), String> {
        let file = self.root.join(file);
        fs::write(&file, content).map_err(|e| format!("{}: {e}", file.display()))
    }

    /// Copies a file or directory of the host, if it exists, to the same path.
    fn carry(&self, path: &str) -> Result<(), String> {
        let to = self.root.join(path.trim_start_matches('/'));
        let (Some(parent), true) = (to.parent(), Path::new(path).exists()) else { return Ok(()) };
        fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
        succeed(Command::new("cp").arg("-a").arg(path).arg(parent))
    }

    /// Copies the content of a file of the host, following symbolic links.
    fn carry_content(&self, path: &str) -> Result<(), String> {
        let Ok(content) = fs::read(path) else { return Ok(()) };
        let to = self.root.join(path.trim_start_matches('/'));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
        }
        // not through a symbolic link, which would lead out of the copy
        remove(&to)?;
        fs::write(&to, content).map_err(|e| format!("{}: {e}", to.display()))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(problem) = remove(&self.dir) {
            eprintln!("warning: {problem}");
        }
    }
}

/// Returns a command prefix that runs a program in namespaces of its own. All its processes end with it, and it ends with this program.
pub fn isolated() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]);
    command
}

/// Returns the environment variables with registry, proxy and certificate settings.
pub fn settings() -> Vec<(String, String)> {
    let wanted = |name: &str| SETTINGS.contains(&name) || SETTINGS_BY_PREFIX.iter().any(|p| name.starts_with(p));
    std::env::vars().filter(|(name, _)| wanted(name)).collect()
}

/// Returns apt's source lists, in either format.
fn sources() -> Vec<PathBuf> {
    let mut sources: Vec<PathBuf> = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|e| e.path()).collect();
    sources.push("/etc/apt/sources.list".into());
    sources.retain(|path| path.is_file() && path.extension().is_some_and(|e| e == "list" || e == "sources"));
    sources.sort();
    sources
}

/// Returns the codename of the distribution's release.
fn codename() -> Result<String, String> {
    let release = fs::read_to_string("/etc/os-release").map_err(|e| format!("/etc/os-release: {e}"))?;
    let name = release.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME=")).map(|n| n.trim_matches('"').to_owned());
    name.filter(|n| !n.is_empty())
        .ok_or_else(|| "/etc/os-release has no VERSION_CODENAME; hint: `cargo xtask fresh` needs Debian or Ubuntu".into())
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from)
}

fn cargo_home() -> Option<PathBuf> {
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".cargo")))
}

fn lock(path: &Path) -> Result<File, String> {
    File::options().create(true).append(true).open(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect()
}

fn name(path: &Path) -> &std::ffi::OsStr {
    path.file_name().unwrap_or_default()
}

/// Links the files with an extension into another directory, or copies them across file systems.
fn link_all(from: &Path, to: &Path, extension: &str) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    for file in fs::read_dir(from).into_iter().flatten().flatten().map(|e| e.path()) {
        let target = to.join(name(&file));
        if file.extension().is_some_and(|e| e == extension) && !target.exists() && fs::hard_link(&file, &target).is_err() {
            // renamed once complete
            let partial = to.join(format!("{}.partial-{}", name(&file).display(), std::process::id()));
            fs::copy(&file, &partial).and_then(|_| fs::rename(&partial, &target)).map_err(|e| format!("{}: {e}", target.display()))?;
        }
    }
    Ok(())
}

/// Removes a file or directory, but nothing mounted below it.
fn remove(path: &Path) -> Result<(), String> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    succeed(Command::new("rm").args(["-rf", "--one-file-system"]).arg(path))
}

/// Runs a program; fails unless it succeeds.
fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("cannot start {name}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status}): its messages are above")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_are_shared_by_links() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to/deeper"));
        fs::create_dir(&from).expect("from");
        for file in ["a.deb", "b.deb", "lock"] {
            fs::write(from.join(file), file).expect("a file");
        }
        link_all(&from, &to, "deb").expect("linked");
        fs::write(from.join("a.deb"), "changed").expect("a file");
        link_all(&from, &to, "deb").expect("linked again");
        let mut linked: Vec<_> = fs::read_dir(&to).expect("to").flatten().map(|e| e.file_name()).collect();
        linked.sort();
        assert_eq!(linked, ["a.deb", "b.deb"]);
        assert_eq!(fs::read_to_string(to.join("a.deb")).expect("a.deb"), "changed", "it is the same file");
        link_all(&dir.path().join("missing"), &to, "deb").expect("nothing to link");
    }

    #[test]
    fn abandoned_copies_are_removed_and_those_in_use_are_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = Cache { dir: dir.path().to_path_buf() };
        let turns = ["run-1", "run-2"].map(|run| {
            fs::create_dir(dir.path().join(run)).expect("a copy");
            let file = lock(&dir.path().join(run).join(IN_USE)).expect("a lock file");
            file.lock().expect("a lock");
            file
        });
        let [gone, _turn] = turns;
        drop(gone);
        cache.remove_abandoned().expect("removed");
        assert!(!dir.path().join("run-1").exists() && dir.path().join("run-2").exists());
    }
}
