//! Reads application descriptors, and checks what types do not express: regular expressions, templates, names.

use super::{
    descriptor::{Descriptor, OwnCheckpoint},
    size,
    source_file::SourceFile,
    templates,
};
use crate::{
    app::LoadedApp,
    names::wrong_variable,
    paths,
    point::UserValue,
    source::{SourceError, SourceErrors, SourceText, Step, span_of},
};
use camino::{Utf8Component, Utf8Path};
use indexmap::IndexMap;
use std::path::{Path, PathBuf};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Version of the format of descriptors.
pub const SCHEMA: u32 = 1;

/// Returns the file of an application: the first `DIR/NAME.toml` that exists.
pub fn find(name: &str, dirs: &[PathBuf]) -> Option<PathBuf> {
    // A name with a separator would lead out of the directories.
    if name.contains(['/', '\\', '\0']) || name.starts_with('.') {
        return None;
    }
    dirs.iter()
        .map(|dir| dir.join(format!("{name}.toml")))
        .find(|path| path.is_file())
}

/// Returns the names of all descriptors in these directories, sorted, each once.
pub fn known(dirs: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = dirs
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten())
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".toml")
                .map(str::to_owned)
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Reads and checks a descriptor.
///
/// # Errors
/// All problems of the file, with positions.
pub fn load(path: &Path) -> Result<LoadedApp, SourceErrors> {
    load_source(&SourceText::read(path)?)
}

/// Like [`load`], from the text of a file at `path`, which need not exist.
///
/// # Errors
/// All problems of the text, with positions.
pub fn load_text(path: &Path, text: &str) -> Result<LoadedApp, SourceErrors> {
    load_source(&SourceText {
        path: path.to_owned(),
        text: text.into(),
    })
}

fn load_source(source: &SourceText) -> Result<LoadedApp, SourceErrors> {
    let table = source.parse().map_err(SourceErrors)?;
    let value = Spanned::new(0..source.text.len(), DeValue::Table(table.clone()));
    let descriptor: Descriptor = source.decode(&value).map_err(|mut e| {
        // An error about a missing key at the top level is placed at the beginning of the file.
        e.span = e
            .span
            .filter(|s| *s != (0..source.text.len()))
            .or(Some(0..0));
        e
    })?;
    let errors = check(source, &table, &descriptor);
    if !errors.is_empty() {
        return Err(SourceErrors(errors));
    }
    let sources = read_sources(source, &table, &descriptor)?;
    Ok(identify(descriptor, &source.path, sources))
}

/// Returns a checked descriptor together with the digest of its content.
pub(super) fn identify(descriptor: Descriptor, path: &Path, sources: Vec<SourceFile>) -> LoadedApp {
    let canonical = crate::ids::canonical_json(&identified(&descriptor, &sources));
    LoadedApp {
        digest: blake3::hash(canonical.as_bytes()).to_hex().to_string(),
        descriptor,
        path: path.to_owned(),
        sources,
    }
}

/// Reads the files that cvc copies into a run's working directory as input files.
fn read_sources(
    file: &SourceText,
    table: &DeTable<'_>,
    app: &Descriptor,
) -> Result<Vec<SourceFile>, SourceErrors> {
    let (mut sources, mut errors) = (Vec::new(), Vec::new());
    // absolute even if the descriptor was named without its directory
    let directory = Utf8Path::from_path(file.path.parent().unwrap_or(Path::new("")))
        .map(|directory| paths::make_absolute(directory.to_owned()));
    for (i, input) in app.command.files.iter().enumerate() {
        let Some(named) = &input.source else { continue };
        let read = match &directory {
            Some(directory) => {
                let written = directory.join(paths::expand(named));
                // without `..`, because the path is displayed
                let whole = written.canonicalize_utf8().unwrap_or(written);
                SourceFile::read(&input.path, whole).map_err(|error| error.to_string())
            }
            None => Err("the directory of the descriptor has no UTF-8 name".to_owned()),
        };
        match read {
            Ok(source) => sources.push(source),
            Err(problem) => errors.push(file.error(
                span_of(
                    table,
                    &["command".into(), "files".into(), i.into(), "source".into()],
                ),
                format!(
                    "cannot read the input file `{}`: {problem}",
                    named.escape_debug()
                ),
                "give a file, by its path from the directory of this descriptor".to_owned(),
            )),
        }
    }
    if errors.is_empty() {
        Ok(sources)
    } else {
        Err(SourceErrors(errors))
    }
}

/// Returns the form of the descriptor from which its digest is computed: it has the contents of copied files instead of their paths.
fn identified(app: &Descriptor, sources: &[SourceFile]) -> Descriptor {
    let mut identified = app.clone();
    // data for predictions do not affect runs
    identified.size = None;
    if let Some(own) = &mut identified.checkpoint {
        (own.bytes, own.writes, own.reads) = (None, None, None);
        // neither does the handling of a node that is about to be lost
        own.signal = None;
    }
    let copied = identified
        .command
        .files
        .iter_mut()
        .filter(|input| input.source.is_some());
    for (input, source) in copied.zip(sources) {
        input.source = Some(format!("blake3:{}", source.blake3));
    }
    identified
}

/// Returns whether the path of an input file stays below the working directory.
fn stays_below(path: &str) -> bool {
    let mut parts = Utf8Path::new(path).components();
    !path.is_empty()
        && !path.contains(char::is_control)
        && parts.all(|part| matches!(part, Utf8Component::Normal(_)))
}

/// Returns whether the name of an input file is a plain file name.
fn is_plain_name(name: &str) -> bool {
    let mut parts = Utf8Path::new(name).components();
    !name.contains(|c: char| c == '/' || c.is_control())
        && matches!(parts.next(), Some(Utf8Component::Normal(_)))
        && parts.next().is_none()
}

/// Reports an error of a file. The arguments are the path of the wrong value in the file, the problem, and a hint.
type Fail<'a> = dyn FnMut(&[Step<'_>], String, &str) + 'a;

fn check(source: &SourceText, table: &DeTable<'_>, app: &Descriptor) -> Vec<SourceError> {
    let mut errors = Vec::new();
    let mut fail = |way: &[Step<'_>], message: String, hint: &str| {
        let span = span_of(table, way).or(Some(0..0));
        errors.push(source.error(span, message, hint.to_owned()))
    };
    check_head(source, app, &mut fail);
    check_workloads(app, &mut fail);
    check_sizes(app, &mut fail);
    check_files(app, &mut fail);
    check_figures(app, &mut fail);
    check_outputs(app, &mut fail);
    check_ways(app, &mut fail);
    check_layouts(app, &mut fail);
    check_patterns(app, &mut fail);
    for (way, message) in template_errors(app, None) {
        fail(
            &way,
            message,
            "templates know program, class, processes, threads, mapping, nodes, rundir, storage, own_checkpoint, layout, per_process, per_node, strategy, writers, when_late, w.NAME and user.NAME",
        );
    }
    errors
}

fn check_head(source: &SourceText, app: &Descriptor, fail: &mut Fail<'_>) {
    if app.schema != SCHEMA {
        fail(
            &["schema".into()],
            format!("unknown descriptor format {}", app.schema),
            "this version reads `schema = 1`",
        );
    }
    let stem = source
        .path
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default();
    if app.name != stem {
        fail(
            &["name".into()],
            format!("the name `{}` differs from the file's", app.name),
            &format!("write name = \"{stem}\", or rename the file"),
        );
    }
    if app.program.names.is_empty() {
        fail(
            &["program".into(), "names".into()],
            "the list of program names is empty".to_owned(),
            "give at least one file name",
        );
    }
    if app.workloads.is_empty() {
        fail(
            &["workloads".into()],
            "the application has no workload".to_owned(),
            "add a table [workloads.NAME]; it may be empty",
        );
    }
    if app.success.exit_codes.is_empty() {
        fail(
            &["success".into(), "exit_codes".into()],
            "no exit code is accepted".to_owned(),
            "remove the key to accept 0",
        );
    }
    let rule = &app.processes;
    if rule.min == 0 || rule.max.is_some_and(|max| max < rule.min) {
        let key = if rule.min == 0 { "min" } else { "max" };
        fail(
            &["processes".into(), key.into()],
            "no process count can satisfy these limits".to_owned(),
            "let 1 <= min <= max",
        );
    }
}

fn check_workloads(app: &Descriptor, fail: &mut Fail<'_>) {
    for (name, workload) in &app.workloads {
        for (key, value) in [
            ("core_s", workload.core_s),
            ("data_mib", workload.data_mib),
            ("output_mib", workload.output_mib),
        ] {
            if value.is_some_and(|v| !v.is_finite() || v < 0.0) {
                fail(
                    &["workloads".into(), name.as_str().into(), key.into()],
                    format!("`{key}` is not a valid amount"),
                    "write a number, 0 or more",
                );
            }
        }
    }
    for (name, value) in &app.command.env {
        if let Some((message, hint)) = wrong_variable(name, value) {
            fail(
                &["command".into(), "env".into(), name.as_str().into()],
                message,
                hint,
            );
        }
    }
}

fn check_sizes(app: &Descriptor, fail: &mut Fail<'_>) {
    if let Some(sizes) = &app.size {
        let is_number = |value: Option<&UserValue>| {
            matches!(value, Some(UserValue::Integer(_) | UserValue::Float(_)))
        };
        for (i, var) in sizes.vars.iter().enumerate() {
            let missing = app
                .workloads
                .iter()
                .find(|(_, w)| !is_number(w.vars.get(var)));
            if let Some((workload, _)) = missing {
                fail(
                    &["size".into(), "vars".into(), i.into()],
                    format!("the workload {workload} has no number `{var}`"),
                    "use variables that every workload sets in its `vars`",
                );
            }
        }
        if sizes.vars.is_empty() {
            fail(
                &["size".into(), "vars".into()],
                "the list of sizes is empty".to_owned(),
                "list the variables that are sizes, as in vars = [\"n\"]",
            );
        }
        if let Some(base) = sizes
            .base
            .as_ref()
            .filter(|base| !app.workloads.contains_key(*base))
        {
            fail(
                &["size".into(), "base".into()],
                format!("unknown workload `{base}`"),
                "use a workload of this file",
            );
        }
    }
    for (section, key, formula) in app.formulas() {
        let wrong = app.workloads.iter().find_map(|(name, workload)| {
            let problem = size::evaluate(&formula, workload, 1).err()?;
            Some(format!("the workload {name}: {problem}"))
        });
        if let Some(message) = wrong {
            fail(
                &[section.into(), key.into()],
                message,
                "write a formula of numbers, variables of the workloads and `processes`, as in 8 * n^3",
            );
        }
    }
}

fn check_files(app: &Descriptor, fail: &mut Fail<'_>) {
    for (i, input) in app.command.files.iter().enumerate() {
        // a line feed in the name would split the message
        let shown = input.path.escape_debug();
        let mut wrong = |key: &'static str, message: String, hint: &str| {
            fail(
                &["command".into(), "files".into(), i.into(), key.into()],
                message,
                hint,
            );
        };
        if input.content.is_some() && !is_plain_name(&input.path) {
            wrong(
                "path",
                format!("`{}` is not a plain file name", shown),
                "write a name without directories: the file is placed in the working directory",
            );
        } else if !stays_below(&input.path) {
            wrong(
                "path",
                format!("`{}` is not a path below the working directory", shown),
                "write it without `..` and without a leading `/`, as in `data/mesh.dat`",
            );
        }
        if app.command.files[..i].iter().any(|f| f.path == input.path) {
            wrong(
                "path",
                format!("the input file `{}` is given twice", shown),
                "rename or remove one",
            );
        }
        match (&input.content, &input.source) {
            (Some(_), None) => {}
            (None, Some(source)) if source.contains("{{") => wrong(
                "source",
                "`source` is not a template".to_owned(),
                "write the path of one file; `content` may be a template",
            ),
            (None, Some(_)) => {}
            (Some(_), Some(_)) => wrong(
                "source",
                "an input file has either `content` or `source`".to_owned(),
                "remove one of them",
            ),
            (None, None) => wrong(
                "path",
                format!("the input file `{}` has no content", shown),
                "give `content`, or the path of a file to copy as `source`",
            ),
        }
    }
}

fn check_figures(app: &Descriptor, fail: &mut Fail<'_>) {
    for (i, figure) in app.figures.iter().enumerate() {
        if app.figures[..i].iter().any(|f| f.name == figure.name) {
            fail(
                &["figures".into(), i.into(), "name".into()],
                format!("the figure `{}` is given twice", figure.name),
                "rename or remove one",
            );
        }
        if !figure.scale.is_finite() || figure.scale == 0.0 {
            fail(
                &["figures".into(), i.into(), "scale".into()],
                "`scale` is not a valid factor".to_owned(),
                "write a number other than 0",
            );
        }
    }
}

fn check_outputs(app: &Descriptor, fail: &mut Fail<'_>) {
    for (i, outputs) in app.outputs.iter().enumerate() {
        let others = || {
            app.figures
                .iter()
                .map(|f| &f.name)
                .chain(app.outputs[..i].iter().filter_map(|o| o.name.as_ref()))
        };
        if let Some(name) = &outputs.name
            && others().any(|other| other == name)
        {
            fail(
                &["outputs".into(), i.into(), "name".into()],
                format!("the name `{name}` is given twice"),
                "rename or remove one",
            );
        }
        if outputs.at_least && outputs.header_bytes > 0 {
            fail(
                &["outputs".into(), i.into(), "header_bytes".into()],
                "`header_bytes` has no effect with `at_least`".to_owned(),
                "remove one of them: `at_least` accepts any excess",
            );
        }
        if outputs.files.is_empty() {
            fail(
                &["outputs".into(), i.into(), "files".into()],
                "no file pattern".to_owned(),
                "give at least one pattern",
            );
        }
        if !outputs.scale.is_finite() || outputs.scale <= 0.0 {
            fail(
                &["outputs".into(), i.into(), "scale".into()],
                "`scale` is not a valid factor".to_owned(),
                "write a number above 0",
            );
        }
    }
}

fn check_ways(app: &Descriptor, fail: &mut Fail<'_>) {
    let Some(own) = app.checkpoint.as_ref().filter(|own| !own.ways.is_empty()) else {
        return;
    };
    let way = &["checkpoint".into(), "ways".into()];
    if own.ways.iter().any(|of| of.is_neutral()) {
        fail(
            way,
            "`ways` names `sync`, which every program has".to_owned(),
            "list only the program's other ways",
        );
    }
    if let Some(of) = own.ways.iter().find(|of| of.way_of_program() != of.word()) {
        fail(
            way,
            format!("`{of}` is not a way of writing checkpoints"),
            "leave it out",
        );
    }
    let mut texts = app.command.args.iter().chain(app.command.env.values());
    if !texts.any(|text| text.contains("strategy")) {
        fail(
            way,
            "the strategy is not passed to the program".to_owned(),
            "put {{strategy}} into `command.args` or `command.env`",
        );
    }
}

fn check_layouts(app: &Descriptor, fail: &mut Fail<'_>) {
    let Some(own) = app
        .checkpoint
        .as_ref()
        .filter(|own| !own.layouts.is_empty())
    else {
        return;
    };
    let way = &["checkpoint".into(), "layouts".into()];
    if own.layouts.iter().any(|of| of.is_neutral()) {
        fail(
            way,
            "`layouts` names `strided`, which holds without the factor".to_owned(),
            "list only the program's other layouts",
        );
    }
    let mut texts = app.command.args.iter().chain(app.command.env.values());
    if !texts.any(|text| text.contains("layout")) {
        fail(
            way,
            "the layout is not passed to the program".to_owned(),
            "put {{layout}} into `command.args` or `command.env`",
        );
    }
}

fn check_patterns(app: &Descriptor, fail: &mut Fail<'_>) {
    for (way, pattern, groups) in patterns(app) {
        match regex::Regex::new(&format!("(?m){pattern}")) {
            Err(e) => {
                let last = e.to_string();
                let reason = last
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                fail(
                    &way,
                    format!("the regular expression does not compile: {reason}"),
                    "see https://docs.rs/regex for the syntax; write it in 'single quotes'",
                );
            }
            Ok(r) if groups && r.captures_len() != 2 => {
                let found = r.captures_len() - 1;
                fail(
                    &way,
                    format!("the regular expression has {found} groups instead of one"),
                    "put (parentheses) around the number, and (?: ) elsewhere",
                );
            }
            Ok(_) => {}
        }
    }
}

/// Returns all regular expressions of a descriptor, each with its place, and whether it needs exactly one group.
fn patterns(app: &Descriptor) -> Vec<(Vec<Step<'static>>, &str, bool)> {
    let mut all: Vec<(Vec<Step<'static>>, &str, bool)> = vec![(
        vec!["success".into(), "pattern".into()],
        &app.success.pattern,
        false,
    )];
    let optional: [(&'static str, &'static str, Option<&str>, bool); 5] = [
        ("success", "forbid", app.success.forbid.as_deref(), false),
        (
            "progress",
            "step",
            app.progress.as_ref().map(|p| p.step.as_str()),
            true,
        ),
        ("io", "writers", app.io.writers.as_deref(), true),
        ("io", "ignored", app.io.ignored.as_deref(), true),
        (
            "processes",
            "threads",
            app.processes.threads.as_deref(),
            true,
        ),
    ];
    for (section, key, pattern, groups) in optional {
        all.extend(pattern.map(|pattern| (vec![section.into(), key.into()], pattern, groups)));
    }
    for (key, pattern) in app.checkpoint.iter().flat_map(OwnCheckpoint::patterns) {
        all.push((vec!["checkpoint".into(), key.into()], pattern, true));
    }
    for (key, pattern) in app.pages.iter().flat_map(|pages| pages.patterns()) {
        all.push((vec!["pages".into(), key.into()], pattern, true));
    }
    for (i, figure) in app.figures.iter().enumerate() {
        all.push((
            vec!["figures".into(), i.into(), "pattern".into()],
            &figure.pattern,
            true,
        ));
    }
    for (i, outputs) in app.outputs.iter().enumerate() {
        all.push((
            vec!["outputs".into(), i.into(), "size".into()],
            &outputs.size,
            true,
        ));
    }
    all
}

/// Returns every template of a descriptor with its place.
fn all_templates(app: &Descriptor) -> Vec<(Vec<Step<'_>>, &str)> {
    let mut all: Vec<(Vec<Step<'_>>, &str)> = Vec::new();
    let lists: [(&'static str, &'static str, &[String]); 4] = [
        ("program", "names", &app.program.names),
        ("command", "args", &app.command.args),
        (
            "command",
            "restart_args",
            app.command.restart_args.as_deref().unwrap_or_default(),
        ),
        (
            "checkpoint",
            "files",
            app.checkpoint.as_ref().map_or(&[][..], |c| &c.files),
        ),
    ];
    for (section, key, texts) in lists {
        all.extend(
            texts
                .iter()
                .enumerate()
                .map(|(i, text)| (vec![section.into(), key.into(), i.into()], text.as_str())),
        );
    }
    for (name, value) in &app.command.env {
        all.push((
            vec!["command".into(), "env".into(), name.as_str().into()],
            value,
        ));
    }
    for (i, file) in app.command.files.iter().enumerate() {
        all.extend(file.content.as_deref().map(|content| {
            (
                vec!["command".into(), "files".into(), i.into(), "content".into()],
                content,
            )
        }));
    }
    for (i, outputs) in app.outputs.iter().enumerate() {
        let way = |j: usize| vec!["outputs".into(), i.into(), "files".into(), j.into()];
        all.extend(
            outputs
                .files
                .iter()
                .enumerate()
                .map(|(j, text)| (way(j), text.as_str())),
        );
    }
    all
}

/// Renders every template for every workload with sample values, to find templates that do not compile or that use an unknown value. `users` are the
/// names of the existing free factors; with `None` every name is accepted. Returns the place and the problem of each wrong template.
pub fn template_errors<'a>(
    app: &'a Descriptor,
    users: Option<&[&str]>,
) -> Vec<(Vec<Step<'a>>, String)> {
    let mut errors = Vec::new();
    for (way, text) in all_templates(app) {
        if !text.contains("{{") {
            continue;
        }
        let template = match templates::compile(text) {
            Ok(template) => template,
            Err(problem) => {
                errors.push((way, problem.to_string()));
                continue;
            }
        };
        let mut engine = handlebars::Handlebars::new();
        engine.set_strict_mode(true);
        engine.register_escape_fn(handlebars::no_escape);
        engine.register_template("t", template);
        let named = users.map_or_else(
            || user_names(text),
            |names| names.iter().map(|n| (*n).to_owned()).collect(),
        );
        let user: IndexMap<String, UserValue> = named
            .into_iter()
            .map(|n| (n, UserValue::Integer(1)))
            .collect();
        // With and without own checkpoints, so that both branches of conditions are checked.
        for ((workload, content), own_checkpoint) in
            app.workloads.iter().flat_map(|w| [(w, true), (w, false)])
        {
            let sample = serde_json::json!({
                "program": "program", "class": workload, "processes": 1, "mapping": "1Nx1P", "nodes": 1, "threads": 1, "rundir": "rundir",
                "storage": "storage", "own_checkpoint": own_checkpoint, "layout": "strided", "per_process": own_checkpoint, "per_node": own_checkpoint, "strategy": "sync", "writers": "process", "when_late": "wait",
                "user": user, "w": content.vars,
            });
            // Strict mode does not check conditions: a misspelt name would always be false.
            if let Some(name) = conditions(text).find(|name| {
                sample
                    .pointer(&format!("/{}", name.replace('.', "/")))
                    .is_none()
            }) {
                errors.push((
                    way.clone(),
                    format!(
                        "the template fails for the workload {workload}: unknown value `{name}`"
                    ),
                ));
                break;
            }
            if let Err(e) = engine.render("t", &sample) {
                let reason = match e.reason() {
                    handlebars::RenderErrorReason::MissingVariable(Some(name)) => {
                        format!("unknown value `{name}`")
                    }
                    other => other.to_string().replace('\n', " "),
                };
                errors.push((
                    way.clone(),
                    format!("the template fails for the workload {workload}: {reason}"),
                ));
                break;
            }
        }
    }
    errors
}

/// Returns the names that are used as conditions of `#if` and `#unless`; conditions that call helpers are skipped.
fn conditions(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").filter_map(|part| {
        let tag = part.trim_start_matches('~').strip_prefix('#')?;
        let condition = tag
            .strip_prefix("if ")
            .or_else(|| tag.strip_prefix("unless "))?;
        let name = condition.split("}}").next()?.trim_matches([' ', '~']);
        let plain = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        (plain && !name.starts_with('.')).then_some(name)
    })
}

/// Returns the names after `user.` in a template.
fn user_names(text: &str) -> Vec<String> {
    text.match_indices("user.")
        .map(|(at, found)| {
            text[at + found.len()..]
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::load;
    use std::{fs, path::Path};

    fn written(directory: &Path, source: &str, mesh: &str) -> crate::app::LoadedApp {
        fs::create_dir_all(directory.join("apps")).expect("made");
        fs::write(directory.join(source), mesh).expect("written");
        let path = directory.join("apps/solver.toml");
        let text = format!(
            "schema = 1\nname = \"solver\"\ntitle = \"t\"\n[program]\nnames = [\"solver\"]\n[command]\n\
             [[command.files]]\npath = \"in.dat\"\nsource = \"../{source}\"\n[workloads.any]\n[success]\npattern = 'OK'\n"
        );
        fs::write(&path, text).expect("written");
        load(&path).expect("a descriptor")
    }

    #[test]
    fn a_copied_file_identifies_a_run_by_content_not_by_path() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = written(directory.path(), "mesh.dat", "1 2 3");
        assert_eq!((first.sources.len(), first.sources[0].bytes), (1, 5));
        assert!(first.sources[0].source.is_absolute());
        assert_eq!(first.descriptor.program.install, "", "it is optional");
        let moved = written(directory.path(), "other.dat", "1 2 3");
        let changed = written(directory.path(), "mesh.dat", "1 2 4");
        assert_eq!(first.digest, moved.digest);
        assert_ne!(first.digest, changed.digest);
        fs::remove_file(directory.path().join("mesh.dat")).expect("removed");
        let errors = load(&directory.path().join("apps/solver.toml")).expect_err("it is gone");
        let error = &errors.0[0];
        assert!(
            error
                .message
                .contains("cannot read the input file `../mesh.dat`")
        );
        assert_eq!(error.position(), Some((9, 10)));
    }
}
