//! Templates: handlebars in strict mode, without HTML escaping, with helpers that quote for the shell.

use handlebars::{
    Context, Handlebars, Helper, HelperResult, Output, RenderContext, RenderErrorReason,
};
use serde_json::Value;

/// A template that cvc brings with it.
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
    /// Host file with a line for each rank: of srun with arbitrary distribution, and of Open MPI between nodes.
    pub const HOSTS_BY_RANK: Self = template!("launch/hosts.by-rank.hbs");
    /// What MPI launchers call instead of ssh.
    pub const SSH_WRAPPER: Self = Self {
        executable: true,
        ..template!("launch/ssh-to-node.sh.hbs")
    };
    /// What is started for every rank.
    pub const RANK_SCRIPT: Self = template!("launch/rank.sh.hbs");
    /// ROMIO's hints.
    pub const ROMIO_HINTS: Self = template!("launch/romio_hints.hbs");
    /// Ansible's inventory of a site.
    pub const INVENTORY: Self = template!("inventory/site.yml.hbs");
    /// A batch job of Slurm.
    pub const SLURM_JOB: Self = template!("launch/slurm-job.sh.hbs");

    /// A template whose file is read by another program, with its path below `templates/`.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Self {
            name,
            text,
            executable: false,
        }
    }

    /// Returns the path below `templates/`, its name in messages.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the text before it is rendered.
    pub fn text(self) -> &'static str {
        self.text
    }

    /// Returns whether what it makes is called by its path, so that the file must be executable.
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
    /// Which template.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Renders one of cvc's own templates.
pub fn render(template: Template, values: &Value) -> Result<String, RenderError> {
    render_text(template.name, template.text, values)
}

/// Renders a template given as text, such as an argument of an application descriptor. `name` is for messages.
pub fn render_text(name: &str, text: &str, values: &Value) -> Result<String, RenderError> {
    registry()
        .render_template(text, values)
        .map_err(|e| RenderError {
            name: name.to_owned(),
            problem: e.reason().to_string(),
        })
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

/// `{{sh value}}`: quoted for the shell.
fn sh(
    helper: &Helper<'_>,
    _: &Handlebars<'_>,
    _: &Context,
    _: &mut RenderContext<'_, '_>,
    out: &mut dyn Output,
) -> HelperResult {
    Ok(out.write(&shell_quote(&text_of(parameter(helper, "sh")?)))?)
}

/// `{{argv list}}`: a whole argument vector, each word quoted.
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

/// `{{yaml value}}`: a YAML scalar for Ansible. JSON's texts are YAML's quoted ones; what looks like a template of Ansible is marked as none.
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
        fn the_shell_reads_back_what_was_quoted(text in "[^\0]{0,40}") {
            let script = render_text("t", "printf %s {{sh value}}", &serde_json::json!({ "value": text })).expect("renders");
            let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
    }
}
