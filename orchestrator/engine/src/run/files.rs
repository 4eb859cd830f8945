//! Files and arguments that a descriptor names for a run.

use super::{error::RunError, nodes::LATER, run_context::RunContext};
use crate::{crew, render};
use camino::Utf8Path;
use cvc_core::app::{descriptor::Descriptor, template_values};
use cvc_core::point::Point;
use cvc_probe::sentinel::FileFound;
use serde_json::Value;

/// Renders a program's arguments from their templates. An argument that renders to an empty text is left out.
pub(crate) fn arguments(
    name: &str,
    templates: &[String],
    values: &Value,
) -> Result<Vec<String>, RunError> {
    let mut args = Vec::new();
    for template in templates {
        args.push(render::render_text(name, template, values)?);
    }
    args.retain(|a| !a.is_empty());
    Ok(args)
}

/// Renders the file patterns of a descriptor for this run.
pub(crate) fn patterns(run: &RunContext, templates: &[String]) -> Result<Vec<String>, RunError> {
    let values = template_values(
        &run.app,
        &run.point,
        run.program.as_str(),
        run.dir.as_str(),
        run.work.as_str(),
    );
    render_patterns(&run.app, templates, &values, &run.work)
}

/// Renders the file patterns of a descriptor for a run of which only this directory is left.
pub(crate) fn patterns_below(
    app: &Descriptor,
    point: &Point,
    work: &Utf8Path,
    templates: &[String],
) -> Result<Vec<String>, RunError> {
    render_patterns(
        app,
        templates,
        &template_values(app, point, "", work.as_str(), work.as_str()),
        work,
    )
}

fn render_patterns(
    app: &Descriptor,
    templates: &[String],
    values: &Value,
    work: &Utf8Path,
) -> Result<Vec<String>, RunError> {
    // relative patterns start in the working directory; characters in its own path must not act as a pattern
    let work = format!("{work}/");
    let render = |template: &String| -> Result<String, RunError> {
        let pattern = render::render_text(&format!("{}: files", app.name), template, values)?;
        Ok(pattern.strip_prefix(&work).unwrap_or(&pattern).to_owned())
    };
    templates.iter().map(render).collect()
}

/// Returns the files that match these patterns on all nodes of the run.
pub(crate) async fn files(
    run: &RunContext,
    patterns: &[String],
) -> Result<Vec<(String, FileFound)>, RunError> {
    let used = &run.used;
    if used.has_lost_files() {
        return Ok(Vec::new());
    }
    let found = used
        .crew
        .globs(&used.places(), run.work.as_std_path(), patterns, LATER)
        .await;
    let all = crew::whole(found)?
        .into_iter()
        .flat_map(|(node, files)| files.into_iter().map(move |f| (node.clone(), f)));
    Ok(distinct(all.collect()))
}

/// Removes repeated entries of files that several nodes have reported. Two entries are the same file if their path, inode number and modification
/// time in nanoseconds agree; this works even if the campaign file describes the storage wrongly.
fn distinct(mut found: Vec<(String, FileFound)>) -> Vec<(String, FileFound)> {
    let mut seen = std::collections::HashSet::new();
    found.retain(|(_, f)| seen.insert((f.path.clone(), f.inode, f.modified_ns)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_file_seen_from_two_nodes_is_one_and_two_of_one_name_are_two() {
        let file = |node: &str, inode| {
            (
                node.to_owned(),
                FileFound {
                    path: "/s/out".into(),
                    bytes: 10,
                    modified_ns: 7,
                    inode,
                    device: 1,
                },
            )
        };
        let both = |inode| distinct(vec![file("n1", 5), file("n2", inode)]).len();
        assert_eq!((both(5), both(6)), (1, 2));
    }
}
