//! `--write FILE`: the campaign file that measures a command with more runs, and the descriptor of its program.

use super::{
    measure::{By, Measured},
    prepare::Prepared,
};
use crate::{
    args::Measure,
    command::init::{
        answers::{Answers, Place},
        text,
    },
    failure::Failure,
    output::note,
    text::paragraph,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{MpiSource, load_text};
use cvc_core::plan;
use cvc_core::store::{StoreError, write_output};
use cvc_core::units::counted;
use serde_json::Value;
use std::{fmt::Write, fs};

/// Returns the path for the descriptor of a command.
pub fn descriptor_of(file: &Utf8Path, name: &str) -> Utf8PathBuf {
    let apps = file.parent().unwrap_or(Utf8Path::new("")).join("apps");
    apps.join(format!("{name}.toml"))
}

/// Writes the campaign file and its descriptor, after checking that `cvc plan` can read them.
///
/// # Errors
/// The files are invalid or cannot be written.
pub fn write(file: &Utf8Path, prepared: &Prepared, measured: &Measured) -> Result<(), Failure> {
    let descriptor = &measured.descriptor;
    let stem = file.file_stem().unwrap_or_default().to_lowercase();
    let mut measures = vec![Measure::Sizes];
    if measured.has_baseline {
        measures.extend([Measure::Overhead, Measure::Restart]);
    }
    let mut processes = vec![prepared.processes];
    if let Ok((_, fewer)) = &measured.fewer {
        processes.insert(0, *fewer);
        measures.push(Measure::Scaling);
    }
    let answers = Answers {
        name: match stem.as_str() {
            "campaign" => descriptor.name().trim_start_matches("own-").to_owned(),
            _ => stem,
        },
        measures,
        place: Place::Local,
        apps: vec![descriptor.load()?],
        own: Some(descriptor.own()),
        class: None,
        processes,
        mpi: vec![prepared.mpi.clone()],
        has_driven: measured.by == By::Dmtcp,
    };
    let text = text::write_campaign(&answers)?.replacen("`cvc init`", "`cvc try`", 1);
    let text = with_library(text, prepared);
    let path = descriptor_of(file, descriptor.name());
    let apps = path.parent().unwrap_or(Utf8Path::new("")).to_owned();
    fs::create_dir_all(&apps).map_err(StoreError::io("make", &apps))?;
    write_output(&path, descriptor.text()?.as_bytes())?;
    let spec = load_text(file.as_std_path(), &text, &[apps.into_std_path_buf()])?;
    let plan = plan::build(&spec);
    write_output(file, text.as_bytes())?;
    note(paragraph(
        "",
        &format!(
            "wrote {file} and {path}: {}, {}; next: cvc plan {file}",
            counted(plan.points.len(), "point"),
            counted(plan.runs.len(), "run")
        ),
    ));
    Ok(())
}

/// Adds the launcher, its options and the variables of the command to the site.
fn with_library(text: String, prepared: &Prepared) -> String {
    let library = &prepared.library;
    let quoted = |text: &str| Value::from(text).to_string();
    let mut site = String::new();
    // writing to text cannot fail
    let _ = writeln!(
        site,
        "\n[sites.local.mpi.{}]\nfamily = {}",
        prepared.mpi,
        quoted(library.family.word())
    );
    if let MpiSource::Mpiexec(path) = &library.source {
        let _ = writeln!(site, "mpiexec = {}", quoted(path));
    }
    if !library.args.is_empty() {
        let args: Vec<String> = library.args.iter().map(|arg| quoted(arg)).collect();
        let _ = writeln!(site, "args = [{}]", args.join(", "));
    }
    if !library.env.is_empty() {
        let env = library.env.iter();
        let env: Vec<String> = env
            .map(|(name, value)| format!("{name} = {}", quoted(value)))
            .collect();
        let _ = writeln!(site, "env = {{ {} }}", env.join(", "));
    }
    text.replacen("\n[matrix]", &format!("{site}\n[matrix]"), 1)
}
