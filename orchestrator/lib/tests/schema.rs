//! The committed JSON Schemas are current. Regenerate with `CVC_BLESS=1 cargo test -p cvc-lib --test schema`.

use std::path::Path;

fn current(file: &str, schema: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/schema").join(file);
    let wanted = serde_json::to_string_pretty(schema).expect("JSON") + "\n";
    if std::env::var_os("CVC_BLESS").is_some() {
        std::fs::write(&path, &wanted).expect("written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{} is not current: run with CVC_BLESS=1", path.display());
}

#[test]
fn committed_schemas_are_current() {
    current("campaign.schema.json", &cvc_lib::spec::schema());
    current("app.schema.json", &cvc_lib::spec::app_schema());
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
    walk(&cvc_lib::spec::schema(), "campaign", &mut missing);
    walk(&cvc_lib::spec::app_schema(), "app", &mut missing);
    assert_eq!(missing, Vec::<String>::new());
}
