//! The committed JSON Schemas and the list of factors are current. Regenerate with `CVC_BLESS=1 cargo test -p cvc-core --test it schema`.

use cvc_core::point::{FactorInfo, Point};
use std::path::Path;

/// The words that a factor may have, of the schema; none of what is a name or a number.
fn words(schema: &serde_json::Value, factor: &str) -> Vec<String> {
    let of = schema["$defs"]["Point"]["properties"][factor]["anyOf"][0]["$ref"]
        .as_str()
        .unwrap_or_default();
    let levels = schema["$defs"][of.rsplit('/').next().unwrap_or_default()]["oneOf"].as_array();
    let levels = levels
        .into_iter()
        .flatten()
        .map(|level| Some(format!("`{}`", level["const"].as_str()?)));
    levels.collect::<Option<_>>().unwrap_or_default()
}

/// The list of factors, of the schema's texts: key, default, meaning.
fn list_of_factors() -> String {
    let schema = cvc_core::campaign::schema();
    let row = |info: &FactorInfo| {
        let about = info.about.split_whitespace().collect::<Vec<_>>().join(" ");
        let (meaning, default) = about.split_once(" Default: ").unwrap_or((&about, ""));
        let mut meaning = meaning.trim_end_matches('.').to_owned();
        if !meaning.starts_with("MPI") {
            meaning[..1].make_ascii_lowercase();
        }
        let words = words(&schema, info.name).join(", ");
        let words = if words.is_empty() {
            words
        } else {
            format!(": {words}")
        };
        let default = default.trim_end_matches('.');
        let default = if default.is_empty() {
            String::new()
        } else {
            format!(" ({default})")
        };
        format!("- `{}`{default}: {meaning}{words}\n", info.name)
    };
    let user = "- `user.NAME`: free factors: strings of one line, numbers, true or false; in templates `{{user.NAME}}`\n";
    Point::FACTOR_INFO
        .iter()
        .map(row)
        .chain([user.to_owned()])
        .collect()
}

#[test]
fn the_list_of_factors_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/campaign-file.md");
    let page = std::fs::read_to_string(&path).expect("the reference page");
    let (before, rest) = page
        .split_once("## Factors: `[matrix]`")
        .expect("the section");
    let (head, rest) = rest.split_once("\n- `").expect("a list");
    let after = rest.split_once("\n\n").expect("text below it").1;
    let wanted = format!(
        "{before}## Factors: `[matrix]`{head}\n{}\n{after}",
        list_of_factors()
    );
    if std::env::var_os("CVC_BLESS").is_some() {
        std::fs::write(&path, &wanted).expect("written");
        return;
    }
    assert!(
        page == wanted,
        "{} is not current: run with CVC_BLESS=1",
        path.display()
    );
}

fn current(file: &str, schema: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../experiments/schema")
        .join(file);
    let wanted = serde_json::to_string_pretty(schema).expect("JSON") + "\n";
    if std::env::var_os("CVC_BLESS").is_some() {
        std::fs::write(&path, &wanted).expect("written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{} is not current: run with CVC_BLESS=1",
        path.display()
    );
}

#[test]
fn committed_schemas_are_current() {
    current("campaign.schema.json", &cvc_core::campaign::schema());
    current("app.schema.json", &cvc_core::campaign::app_schema());
}

#[test]
fn every_key_of_the_schema_is_described() {
    fn walk(value: &serde_json::Value, way: &str, missing: &mut Vec<String>) {
        if let Some(properties) = value.get("properties").and_then(|p| p.as_object()) {
            for (key, property) in properties {
                if property.get("description").is_none() {
                    missing.push(format!("{way}.{key}"));
                }
            }
        }
        if let Some(definitions) = value.get("$defs").and_then(|d| d.as_object()) {
            for (name, definition) in definitions {
                walk(definition, name, missing);
            }
        }
    }
    let mut missing = Vec::new();
    walk(&cvc_core::campaign::schema(), "campaign", &mut missing);
    walk(&cvc_core::campaign::app_schema(), "app", &mut missing);
    assert_eq!(missing, Vec::<String>::new());
}

/// The reference page, and the examples in it.
#[test]
fn the_reference_page_names_every_key_and_its_examples_load() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/campaign-file.md");
    let page = std::fs::read_to_string(page).expect("the reference page");
    let schema = cvc_core::campaign::schema();
    let all =
        std::iter::once(&schema).chain(schema["$defs"].as_object().expect("definitions").values());
    let mut missing = Vec::new();
    for key in all
        .filter_map(|d| d["properties"].as_object())
        .flat_map(|p| p.keys())
    {
        let named = page
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| word == key);
        if !named {
            missing.push(key);
        }
    }
    assert_eq!(missing, Vec::<&String>::new());

    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
    let blocks: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();
    assert_eq!(blocks.len(), 14);
    for block in blocks {
        let head = if block.contains("schema =") {
            ""
        } else {
            "schema = 1\nname = \"x\"\n[sites.local]\nkind = \"local\"\n"
        };
        let text = format!("{head}{block}");
        let spec = cvc_core::campaign::load_text(
            Path::new("page.toml"),
            &text,
            std::slice::from_ref(&apps),
        )
        .unwrap_or_else(|e| panic!("{e}"));
        assert!(spec.combinations() > 1);
    }
}

/// What the loader accepts and what the schema describes are the same keys.
#[test]
fn schema_and_loader_know_the_same_keys() {
    let schema = cvc_core::campaign::schema();
    let error = |text: &str| {
        let errors = cvc_core::campaign::load_text(Path::new("keys.toml"), text, &[])
            .expect_err("an unknown key");
        let found = errors
            .0
            .into_iter()
            .find(|e| e.message.starts_with("unknown "))
            .expect("an error about the key");
        let hint = found.hint.expect("hint");
        let list = hint
            .split(": ")
            .last()
            .unwrap_or_default()
            .split("; ")
            .next()
            .unwrap_or_default();
        list.split(", ")
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let described = |definition: &serde_json::Value| {
        definition["properties"]
            .as_object()
            .expect("properties")
            .keys()
            .cloned()
            .collect::<std::collections::BTreeSet<_>>()
    };
    let definition = |name: &str| &schema["$defs"][name];
    assert_eq!(error("zzzzzz = 1"), described(&schema));
    for (text, name) in [
        ("[sites.l]\nkind = 'local'\nzzzzzz = 1", "Site"),
        ("[sites.l]\nkind = 'local'\nstorage.x.zzzzzz = 1", "Storage"),
        ("[sites.l]\nkind = 'local'\nmpi.x.zzzzzz = 1", "Mpi"),
        ("[run]\nzzzzzz = 1", "Run"),
        ("[checkpoint]\nzzzzzz = 1", "Checkpoint"),
        ("[report]\nzzzzzz = 1", "Report"),
        ("[predict]\nzzzzzz = 1", "Predict"),
        ("[[exclude]]\nzzzzzz = 1", "Exclude"),
    ] {
        assert_eq!(error(text), described(definition(name)), "{name}");
    }
    for (text, name) in [
        ("[matrix]\nzzzzzz = 1", "Matrix"),
        ("[[zip]]\nzzzzzz = 1", "Zip"),
        ("[[points]]\nzzzzzz = 1", "Point"),
    ] {
        let mut known = error(text);
        known.insert("user".to_owned());
        assert_eq!(known, described(definition(name)), "{name}");
    }
}
