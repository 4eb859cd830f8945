//! Templates: handlebars in strict mode, without HTML escaping, with helpers that quote for the shell.

use handlebars::{Context, Handlebars, Helper, HelperResult, Output, RenderContext, RenderErrorReason};
use serde_json::Value;

/// The templates that cvc brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// The script of a run.
    RunScript,
    /// The script of a restart check.
    RestartScript,
    /// Host file of Hydra.
    HostsMpich,
    /// Host file of Open MPI.
    HostsOpenMpi,
    /// Host file with a line for each rank: of srun with arbitrary distribution, and of Open MPI between nodes.
    HostsByRank,
    /// What MPI launchers call instead of ssh.
    SshWrapper,
    /// What is started for every rank.
    RankScript,
    /// ROMIO's hints.
    RomioHints,
    /// Ansible's inventory of a site.
    Inventory,
    /// A batch job of Slurm.
    SlurmJob,
}

impl Template {
    /// Name for messages, the path below `templates/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RunScript => "launch/run.sh.hbs",
            Self::RestartScript => "launch/restart.sh.hbs",
            Self::HostsMpich => "launch/hosts.mpich.hbs",
            Self::HostsOpenMpi => "launch/hosts.openmpi.hbs",
            Self::HostsByRank => "launch/hosts.by-rank.hbs",
            Self::SshWrapper => "launch/ssh-to-node.sh.hbs",
            Self::RankScript => "launch/rank.sh.hbs",
            Self::RomioHints => "launch/romio_hints.hbs",
            Self::Inventory => "inventory/site.yml.hbs",
            Self::SlurmJob => "launch/slurm-job.sh.hbs",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::RunScript => include_str!("../../../templates/launch/run.sh.hbs"),
            Self::RestartScript => include_str!("../../../templates/launch/restart.sh.hbs"),
            Self::HostsMpich => include_str!("../../../templates/launch/hosts.mpich.hbs"),
            Self::HostsOpenMpi => include_str!("../../../templates/launch/hosts.openmpi.hbs"),
            Self::HostsByRank => include_str!("../../../templates/launch/hosts.by-rank.hbs"),
            Self::SshWrapper => include_str!("../../../templates/launch/ssh-to-node.sh.hbs"),
            Self::RankScript => include_str!("../../../templates/launch/rank.sh.hbs"),
            Self::RomioHints => include_str!("../../../templates/launch/romio_hints.hbs"),
            Self::Inventory => include_str!("../../../templates/inventory/site.yml.hbs"),
            Self::SlurmJob => include_str!("../../../templates/launch/slurm-job.sh.hbs"),
        }
    }

    /// Whether what it makes is called by its path, so that the file must be executable.
    pub fn is_executable(self) -> bool {
        match self {
            Self::SshWrapper => true,
            // these are given to a program that reads them
            Self::RunScript
            | Self::RestartScript
            | Self::RankScript
            | Self::HostsMpich
            | Self::HostsOpenMpi
            | Self::HostsByRank
            | Self::RomioHints
            | Self::SlurmJob
            | Self::Inventory => false,
        }
    }
}

/// A template that could not be rendered.
#[derive(Debug, thiserror::Error)]
#[error("template {name}: {problem}")]
pub struct RenderError {
    /// Which template.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Renders one of cvc's own templates.
pub fn render(template: Template, values: &Value) -> Result<String, RenderError> {
    render_text(template.name(), template.text(), values)
}

/// Renders a template given as text, such as an argument of an application descriptor. `name` is for messages.
pub fn render_text(name: &str, text: &str, values: &Value) -> Result<String, RenderError> {
    registry().render_template(text, values).map_err(|e| RenderError { name: name.to_owned(), problem: e.reason().to_string() })
}

/// The one way in which templates are set up.
pub fn registry() -> Handlebars<'static> {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(handlebars::no_escape);
    handlebars.register_helper("sh", Box::new(sh));
    handlebars.register_helper("argv", Box::new(argv));
    handlebars.register_helper("yaml", Box::new(yaml));
    handlebars
}

/// One word of a shell command line that stands for exactly this text.
pub fn shell_quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn parameter<'a>(helper: &'a Helper<'_>, name: &'static str) -> Result<&'a Value, RenderErrorReason> {
    let parameter = helper.param(0).ok_or(RenderErrorReason::ParamNotFoundForIndex(name, 0))?;
    if parameter.is_value_missing() {
        return Err(RenderErrorReason::MissingVariable(parameter.relative_path().cloned()));
    }
    Ok(parameter.value())
}

/// `{{sh value}}`: quoted for the shell.
fn sh(helper: &Helper<'_>, _: &Handlebars<'_>, _: &Context, _: &mut RenderContext<'_, '_>, out: &mut dyn Output) -> HelperResult {
    Ok(out.write(&shell_quote(&text_of(parameter(helper, "sh")?)))?)
}

/// `{{argv list}}`: a whole argument vector, each word quoted.
fn argv(helper: &Helper<'_>, _: &Handlebars<'_>, _: &Context, _: &mut RenderContext<'_, '_>, out: &mut dyn Output) -> HelperResult {
    let Value::Array(words) = parameter(helper, "argv")? else {
        return Err(RenderErrorReason::ParamTypeMismatchForName("argv", "0".into(), "list".into()).into());
    };
    let words: Vec<String> = words.iter().map(|w| shell_quote(&text_of(w))).collect();
    Ok(out.write(&words.join(" "))?)
}

/// `{{yaml value}}`: a YAML scalar for Ansible. JSON's texts are YAML's quoted ones; what looks like a template of Ansible is marked as none.
fn yaml(helper: &Helper<'_>, _: &Handlebars<'_>, _: &Context, _: &mut RenderContext<'_, '_>, out: &mut dyn Output) -> HelperResult {
    let value = parameter(helper, "yaml")?;
    if value.as_str().is_some_and(|t| ["{{", "{%", "{#"].iter().any(|m| t.contains(m))) {
        out.write("!unsafe ")?;
    }
    Ok(out.write(&value.to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn a_missing_value_is_an_error_and_not_an_empty_text() {
        let error = render_text("t", "{{class}}", &serde_json::json!({})).expect_err("strict").to_string();
        assert!(error.contains("class"), "{error}");
        assert!(render_text("t", "{{sh class}}", &serde_json::json!({})).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_shell_reads_back_what_was_quoted(text in "[^\0]{0,40}") {
            let script = render_text("t", "printf %s {{sh value}}", &serde_json::json!({ "value": text })).expect("renders");
            let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
    }
}
