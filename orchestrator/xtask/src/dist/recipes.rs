//! Recipes next to the packages: a tarball with the sources and all crates that they need, a Spack package that builds these sources without a
//! network, and a container with the Debian package.

use super::files::{output, tar, told, write};
use super::packages::{ABOUT, VERSION};
use sha2::{Digest, Sha256};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Writes `cvc-VERSION-source.tar.gz`: the checked-out commit, the crates that it needs in `vendor`, and settings that make cargo use `vendor`.
///
/// # Errors
/// A crate cannot be downloaded, or a file cannot be written.
pub fn sources(root: &Path, into: &Path, time_s: &str) -> Result<PathBuf, String> {
    let name = format!("cvc-{VERSION}-source");
    let dir = into.join(&name);
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(|e| told(&dir, &e))?;
    }
    fs::create_dir_all(&dir).map_err(|e| told(&dir, &e))?;
    let commit = into.join(format!("{name}.tar"));
    output(
        Command::new("git")
            .args(["archive", "--format=tar", "--output"])
            .arg(&commit)
            .arg("HEAD")
            .current_dir(root),
    )?;
    output(
        Command::new("tar")
            .arg("-xf")
            .arg(&commit)
            .arg("-C")
            .arg(&dir),
    )?;
    fs::remove_file(&commit).map_err(|e| told(&commit, &e))?;
    let settings = output(
        crate::workspace::cargo()
            .args(["vendor", "--locked", "--versioned-dirs", "vendor"])
            .current_dir(&dir),
    )?;
    let config = dir.join(".cargo/config.toml");
    let mut text = fs::read_to_string(&config).map_err(|e| told(&config, &e))?;
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&settings));
    write(&config, text.as_bytes())?;
    let archive = into.join(format!("{name}.tar.gz"));
    tar(into, &name, time_s, &archive)?;
    fs::remove_dir_all(&dir).map_err(|e| told(&dir, &e))?;
    Ok(archive)
}

/// Writes a Spack repository with a package that builds these sources, and returns the path of the package.
///
/// # Errors
/// The sources cannot be read, or a file cannot be written.
pub fn spack(sources: &Path, into: &Path) -> Result<PathBuf, String> {
    let sum = Sha256::digest(fs::read(sources).map_err(|e| told(sources, &e))?);
    let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = sources.file_name().unwrap_or_default().to_string_lossy();
    let rust = env!("CARGO_PKG_RUST_VERSION");
    let repository = into.join("spack");
    write(
        &repository.join("repo.yaml"),
        b"repo:\n  namespace: cvc\n  api: v1.0\n",
    )?;
    let package = repository.join("packages/cvc/package.py");
    let text = format!(
        r#"import os

from spack.package import *


class Cvc(Package):
    """{ABOUT}."""

    homepage = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 3))
    url = homepage + "/{file}"

    license("MIT OR Apache-2.0")

    # with all crates: nothing is fetched while it builds
    version("{VERSION}", sha256="{sum}")

    variant("ec2", default=False, description="Instances of Amazon EC2 as sites")

    depends_on("rust@{rust}:", type="build")
    depends_on("c", type="build")
    depends_on("gmake", type=("build", "run"))
    depends_on("mpi", type="run")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo.add_default_env("CARGO_HOME", join_path(self.stage.path, "cargo-home"))
        features = [] if spec.satisfies("+ec2") else ["--no-default-features", "--features", "cvc/parquet"]
        cargo("build", "--release", "--frozen", "--package", "cvc", "--package", "cvc-node", *features)
        mkdirp(prefix.bin, prefix.share.man.man1)
        for program in ("cvc", "cvc-node"):
            install(join_path("target", "release", program), prefix.bin)
        Executable(prefix.bin.cvc)("reference", "--man", prefix.share.man.man1)
"#
    );
    write(&package, text.as_bytes())?;
    Ok(package)
}

/// Writes the recipe of a container with the Debian package; `podman build` in that directory builds it.
///
/// # Errors
/// A file cannot be written.
pub fn container(deb: &Path, into: &Path) -> Result<PathBuf, String> {
    let deb = deb.file_name().unwrap_or_default().to_string_lossy();
    let path = into.join("Containerfile");
    let text = format!(
        "# {ABOUT}: podman build --tag cvc .\n\
         FROM docker.io/library/debian:12-slim\n\
         COPY {deb} /tmp/\n\
         RUN apt-get update && apt-get install -y /tmp/{deb} && rm -rf /var/lib/apt/lists/* /tmp/{deb}\n\
         WORKDIR /work\n\
         ENTRYPOINT [\"cvc\"]\n"
    );
    write(&path, text.as_bytes())?;
    Ok(path)
}
