//! Further packages of the same programs: a wheel for pip, and a Debian package.

use super::files::{PROGRAMS, below, copy, output, told, write};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};
use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
pub const ABOUT: &str =
    "Measure what checkpoints of MPI applications cost, on clusters and in the cloud";
/// Platform tags of the wheel. Static programs run with every C library, so that one wheel suits glibc and musl.
const PLATFORM: &str = "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64";

/// Writes the wheel of a packed directory to `into`. It contains the programs as scripts, completions and manual pages, and no Python code but the
/// version.
///
/// # Errors
/// A file cannot be read or written.
pub fn wheel(dir: &Path, into: &Path) -> Result<PathBuf, String> {
    let (data, info) = (
        format!("cvc-{VERSION}.data"),
        format!("cvc-{VERSION}.dist-info"),
    );
    let mut files: Vec<(String, Vec<u8>, u32)> = vec![(
        "cvc/__init__.py".to_owned(),
        format!("\"\"\"cvc is a program: run `cvc`.\"\"\"\n\n__version__ = \"{VERSION}\"\n")
            .into_bytes(),
        0o644,
    )];
    for program in PROGRAMS {
        let content = read(&dir.join("bin").join(program))?;
        files.push((format!("{data}/scripts/{program}"), content, 0o755));
    }
    for file in below(&dir.join("share"))? {
        let content = read(&dir.join("share").join(&file))?;
        files.push((format!("{data}/data/share/{file}"), content, 0o644));
    }
    for (from, to) in [
        ("LICENSE-MIT", "licenses/LICENSE-MIT"),
        ("LICENSE-APACHE", "licenses/LICENSE-APACHE"),
        ("sbom.cdx.json", "sboms/cvc.cdx.json"),
    ] {
        files.push((format!("{info}/{to}"), read(&dir.join(from))?, 0o644));
    }
    for file in below(&dir.join("licences"))? {
        let content = read(&dir.join("licences").join(&file))?;
        files.push((format!("{info}/licenses/linked/{file}"), content, 0o644));
    }
    let metadata = format!(
        "Metadata-Version: 2.4\nName: cvc\nVersion: {VERSION}\nSummary: {ABOUT}\nLicense-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\nRequires-Python: >=3.7\n"
    );
    let mut tags = String::new();
    for platform in PLATFORM.split('.') {
        tags.push_str(&format!("Tag: py3-none-{platform}\n"));
    }
    let about =
        format!("Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\n{tags}");
    files.push((format!("{info}/METADATA"), metadata.into_bytes(), 0o644));
    files.push((format!("{info}/WHEEL"), about.into_bytes(), 0o644));
    let mut record = String::new();
    for (name, content, _) in &files {
        let sum = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        record.push_str(&format!("{name},sha256={sum},{}\n", content.len()));
    }
    record.push_str(&format!("{info}/RECORD,,\n"));
    files.push((format!("{info}/RECORD"), record.into_bytes(), 0o644));

    let path = into.join(format!("cvc-{VERSION}-py3-none-{PLATFORM}.whl"));
    let failed = |error: zip::result::ZipError| format!("{}: {error}", path.display());
    let out = fs::File::create(&path).map_err(|e| told(&path, &e))?;
    let mut zip = ZipWriter::new(out);
    for (name, content, mode) in &files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(*mode);
        zip.start_file(name, options).map_err(failed)?;
        zip.write_all(content).map_err(|e| told(&path, &e))?;
    }
    zip.finish().map_err(failed)?;
    Ok(path)
}

/// Returns whether this machine can make Debian packages.
pub fn can_make_deb() -> bool {
    output(Command::new("dpkg-deb").arg("--version")).is_ok()
}

/// Writes the Debian package of a packed directory to `into`. Since the programs are static, it depends on nothing; it recommends what runs need.
///
/// # Errors
/// dpkg-deb is missing or fails.
pub fn deb(dir: &Path, into: &Path, time_s: &str) -> Result<PathBuf, String> {
    let root = into.join("deb");
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|e| told(&root, &e))?;
    }
    for program in PROGRAMS {
        copy(
            &dir.join("bin").join(program),
            &root.join("usr/bin").join(program),
        )?;
    }
    for file in below(&dir.join("share"))? {
        // Debian keeps completions of zsh in another directory
        let to = file.replace("zsh/site-functions", "zsh/vendor-completions");
        let to = root.join("usr/share").join(to);
        copy(&dir.join("share").join(&file), &to)?;
        if file.starts_with("man/") {
            output(Command::new("gzip").arg("-9n").arg(&to))?;
        }
    }
    let doc = root.join("usr/share/doc/cvc");
    for (from, to) in [
        ("README.md", "README.md"),
        ("CHANGELOG.md", "changelog"),
        ("sbom.cdx.json", "sbom.cdx.json"),
    ] {
        copy(&dir.join(from), &doc.join(to))?;
    }
    output(Command::new("gzip").arg("-9n").arg(doc.join("changelog")))?;
    let mut copyright = String::new();
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copyright.push_str(&String::from_utf8_lossy(&read(&dir.join(licence))?));
    }
    write(&doc.join("copyright"), copyright.as_bytes())?;
    for part in ["licences", "docs", "examples", "experiments"] {
        for file in below(&dir.join(part))? {
            copy(&dir.join(part).join(&file), &doc.join(part).join(&file))?;
        }
    }
    let bytes: u64 = below(&root)?
        .iter()
        .filter_map(|file| Some(fs::metadata(root.join(file)).ok()?.len()))
        .sum();
    let control = format!(
        "Package: cvc\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: The cvc developers <cvc@example.org>\nSection: science\nPriority: optional\n\
         Installed-Size: {}\nRecommends: mpich | openmpi-bin, libmpich-dev | libopenmpi-dev, gcc, make\nSuggests: openssh-client, strace, ansible-core\n\
         Description: {ABOUT}\n cvc runs matrices of MPI applications over mappings, libraries and checkpointers\n \
         on clusters and clouds, and reports what their checkpoints take and store.\n",
        bytes.div_ceil(1024)
    );
    write(&root.join("DEBIAN/control"), control.as_bytes())?;
    output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&root))?;
    let path = into.join(format!("cvc_{VERSION}_amd64.deb"));
    output(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(&root)
            .arg(&path)
            .env("SOURCE_DATE_EPOCH", time_s),
    )?;
    fs::remove_dir_all(&root).map_err(|e| told(&root, &e))?;
    Ok(path)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| told(path, &e))
}
