//! Compiles templates of descriptors. A descriptor may come from somebody else, so only templates whose rendering certainly ends are accepted.

use handlebars::{
    Template,
    template::{HelperTemplate, TemplateElement},
};

/// Maximum number of blocks, branches, brackets and calls in the tags of a template. Each of them may be nested in the previous one, and compilation
/// and rendering recurse into each.
const MAX_NESTED: usize = 256;

/// The allowed blocks. Loops are excluded, because nested loops take exponential time.
const BLOCKS: [&str; 2] = ["if", "unless"];

/// Why a template of a descriptor is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateProblem {
    /// The template has too many nested parts, which would exhaust the stack.
    #[error("the template has more than {MAX_NESTED} blocks, branches and brackets")]
    Nested,
    /// The template is invalid.
    #[error("the template does not compile: {0}")]
    Compile(String),
    /// The template uses features that are not allowed in descriptors.
    #[error("the template has {0}")]
    Unusable(String),
}

/// Compiles a template.
pub(super) fn compile(text: &str) -> Result<Template, TemplateProblem> {
    if nested_at_most(text) > MAX_NESTED {
        return Err(TemplateProblem::Nested);
    }
    let template = Template::compile(text)
        .map_err(|e| TemplateProblem::Compile(e.reason().to_string().replace('\n', " ")))?;
    match unusable(&template) {
        Some(what) => Err(TemplateProblem::Unusable(what)),
        None => Ok(template),
    }
}

/// Returns an upper bound for the nesting depth that the parser can find. Counts everything that may begin a level, and ignores all ends.
fn nested_at_most(text: &str) -> usize {
    let of_tag = |part: &str| {
        let tag = part.trim_start_matches(['{', '~', ' ', '\t', '\n', '\r']);
        let is_block = tag.starts_with(['#', '^']) || tag.starts_with("else");
        // a string in the tag may contain `}}`, too
        let end = part.rfind("}}").unwrap_or(part.len());
        usize::from(is_block) + part[..end].matches(['(', '[', '{']).count()
    };
    text.split("{{").skip(1).map(of_tag).sum()
}

/// Describes a feature of a template that is not allowed in descriptors; `None` if there is none.
fn unusable(template: &Template) -> Option<String> {
    template.elements.iter().find_map(|element| match element {
        TemplateElement::PartialExpression(_) | TemplateElement::PartialBlock(_) => {
            Some("a partial (`{{> NAME}}`)".to_owned())
        }
        TemplateElement::DecoratorExpression(_) | TemplateElement::DecoratorBlock(_) => {
            Some("a decorator (`{{* NAME}}`)".to_owned())
        }
        TemplateElement::HelperBlock(block) => unusable_block(block),
        TemplateElement::RawString(_)
        | TemplateElement::HtmlExpression(_)
        | TemplateElement::Expression(_)
        | TemplateElement::Comment(_) => None,
        // the library may add kinds of elements
        _ => Some("an element of an unknown kind".to_owned()),
    })
}

fn unusable_block(block: &HelperTemplate) -> Option<String> {
    let name = block.name.as_name().unwrap_or_default();
    if !BLOCKS.contains(&name) {
        return Some(format!("a block `{name}`; there are `#if` and `#unless`"));
    }
    [&block.template, &block.inverse]
        .into_iter()
        .flatten()
        .find_map(unusable)
}

#[cfg(test)]
mod tests {
    use super::{MAX_NESTED, compile};

    #[test]
    fn templates_that_call_themselves_or_loop_are_refused() {
        let bad = [
            "{{#*inline \"x\"}}{{> x}}{{/inline}}{{> x}}",
            "{{#*inline \"x\"}}a{{/inline}}",
            "{{~> x ~}}",
            "{{#> x}}a{{/x}}",
            "{{#if a}}{{#if b}}c{{else}}{{> x}}{{/if}}{{/if}}",
            "{{#if a}}b{{else if c}}{{> x}}{{/if}}",
            "{{#each w}}{{#each ../w}}x{{/each}}{{/each}}",
            "{{#w}}x{{/w}}",
            "{{* x}}",
            "{{{{raw}}}}x{{{{/raw}}}}",
        ];
        for text in bad {
            assert!(compile(text).is_err(), "{text}");
        }
        let good = [
            "a",
            "{{class}} {{{w.n}}} {{~w.n~}}",
            "{{#if (eq class \"A\")}}1{{else if w.on}}2{{else}}{{#unless w.off}}3{{/unless}}{{/if}}",
            "{{!-- {{> x}} --}}{{! {{#each }}(((((",
            "\\{{> x}}",
        ];
        for text in good {
            compile(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }

    #[test]
    fn templates_that_are_nested_too_deep_are_refused_before_they_are_parsed() {
        let deep =
            |open: &str, close: &str| format!("{}x{}", open.repeat(20_000), close.repeat(20_000));
        let bad = [
            deep("{{#if a}}", "{{/if}}"),
            deep("{{~ #if a}}", "{{/if}}"),
            deep("{{#if a}}\"{{!-- {{/if}} --}}", "{{/if}}"),
            format!(
                "{{{{#if a}}}}{}x{{{{/if}}}}",
                "{{else if a}}".repeat(20_000)
            ),
            format!("{{{{#if a}}}}{}x{{{{/if}}}}", "{{^if a}}".repeat(20_000)),
            format!("{{{{{}}}}}", deep("(not ", ")")),
            format!("{{{{len {}}}}}", deep("[", "]")),
            format!("{{{{len {}}}}}", "(not \"{{\" ".repeat(20_000)),
        ];
        for text in bad {
            assert!(
                compile(&text).is_err_and(|e| e.to_string().contains("more than")),
                "{}",
                &text[..40]
            );
        }
        let most = MAX_NESTED;
        compile(&format!(
            "{}x{}",
            "{{#if a}}".repeat(most),
            "{{/if}}".repeat(most)
        ))
        .expect("not too deep");
    }
}
