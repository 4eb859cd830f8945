//! Templates: handlebars in strict mode, without HTML escaping, with helpers that quote for the shell.

use handlebars::{
    Context, Handlebars, Helper, HelperResult, Output, RenderContext, RenderErrorReason,
};
use serde_json::Value;

/// A template that is part of cvc.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Template {
    name: &'static str,
    text: &'static str,
    executable: bool,
}

macro_rules! template {
    ($path:literal) => {
        Template::new($path, include_str!(concat!("../../../templates/", $path)))
    };
}

impl Template {
    /// The script of a run.
    pub const RUN_SCRIPT: Self = template!("launch/run.sh.hbs");
    /// Host file with one line for each rank, for srun with arbitrary distribution and for Open MPI between nodes.
    pub const HOSTS_BY_RANK: Self = template!("launch/hosts.by-rank.hbs");
    /// The script that MPI launchers call instead of ssh.
    pub const SSH_WRAPPER: Self = Self {
        executable: true,
        ..template!("launch/ssh-to-node.sh.hbs")
    };
    /// The script started for every rank.
    pub const RANK_SCRIPT: Self = template!("launch/rank.sh.hbs");
    /// ROMIO's hints.
    pub const ROMIO_HINTS: Self = template!("launch/romio_hints.hbs");
    /// Ansible's inventory for a site.
    pub const INVENTORY: Self = template!("inventory/site.yml.hbs");
    /// Script of a Slurm batch job.
    pub const SLURM_JOB: Self = template!("launch/slurm-job.sh.hbs");

    /// Creates a template for a file that is not started by its path. `name` is the template's path below `templates/`.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Self {
            name,
            text,
            executable: false,
        }
    }

    /// Returns the path below `templates/`, which is also the template's name in messages.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the text before it is rendered.
    pub fn text(self) -> &'static str {
        self.text
    }

    /// Returns whether the rendered file must be executable because it is started by its path.
    pub fn is_executable(self) -> bool {
        self.executable
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Template({})", self.name)
    }
}

/// A template that could not be rendered.
#[derive(Debug, thiserror::Error)]
#[error("template {name}: {problem}")]
pub struct RenderError {
    /// Name of the template.
    pub name: String,
    /// The problem.
    pub problem: String,
}

/// Renders one of cvc's own templates.
pub fn render(template: Template, values: &Value) -> Result<String, RenderError> {
    render_text(template.name, template.text, values)
}

/// Renders a template that is given as text, such as an argument in an application descriptor. `name` is used in messages.
pub fn render_text(name: &str, text: &str, values: &Value) -> Result<String, RenderError> {
    registry()
        .render_template(text, values)
        .map_err(|e| RenderError {
            name: name.to_owned(),
            problem: e.reason().to_string(),
        })
}

/// Returns a template engine with cvc's settings and helpers; all templates use it.
pub fn registry() -> Handlebars<'static> {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(handlebars::no_escape);
    handlebars.register_helper("sh", Box::new(sh));
    handlebars.register_helper("argv", Box::new(argv));
    handlebars.register_helper("yaml", Box::new(yaml));
    handlebars
}

/// Quotes a text as one word of a shell command line.
pub fn shell_quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn parameter<'a>(
    helper: &'a Helper<'_>,
    name: &'static str,
) -> Result<&'a Value, RenderErrorReason> {
    let parameter = helper
        .param(0)
        .ok_or(RenderErrorReason::ParamNotFoundForIndex(name, 0))?;
    if parameter.is_value_missing() {
        return Err(RenderErrorReason::MissingVariable(
            parameter.relative_path().cloned(),
        ));
    }
    Ok(parameter.value())
}

/// `{{sh value}}`: the value, quoted for the shell.
fn sh(
    helper: &Helper<'_>,
    _: &Handlebars<'_>,
    _: &Context,
    _: &mut RenderContext<'_, '_>,
    out: &mut dyn Output,
) -> HelperResult {
    Ok(out.write(&shell_quote(&text_of(parameter(helper, "sh")?)))?)
}

/// `{{argv list}}`: a whole command line, each word quoted.
fn argv(
    helper: &Helper<'_>,
    _: &Handlebars<'_>,
    _: &Context,
    _: &mut RenderContext<'_, '_>,
    out: &mut dyn Output,
) -> HelperResult {
    let Value::Array(words) = parameter(helper, "argv")? else {
        return Err(
            RenderErrorReason::ParamTypeMismatchForName("argv", "0".into(), "list".into()).into(),
        );
    };
    let words: Vec<String> = words.iter().map(|w| shell_quote(&text_of(w))).collect();
    Ok(out.write(&words.join(" "))?)
}

/// `{{yaml value}}`: the value as a YAML scalar for Ansible. JSON strings are valid quoted YAML strings; text that looks like an Ansible template is
/// marked `!unsafe`.
fn yaml(
    helper: &Helper<'_>,
    _: &Handlebars<'_>,
    _: &Context,
    _: &mut RenderContext<'_, '_>,
    out: &mut dyn Output,
) -> HelperResult {
    let value = parameter(helper, "yaml")?;
    if value
        .as_str()
        .is_some_and(|t| ["{{", "{%", "{#"].iter().any(|m| t.contains(m)))
    {
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
        let error = render_text("t", "{{class}}", &serde_json::json!({}))
            .expect_err("strict")
            .to_string();
        assert!(error.contains("class"), "{error}");
        assert!(render_text("t", "{{sh class}}", &serde_json::json!({})).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_shell_reads_quoted_text_back(text in "[^\0]{0,40}") {
            let script = render_text("t", "printf %s {{sh value}}", &serde_json::json!({ "value": text })).expect("renders");
            let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
    }
}
