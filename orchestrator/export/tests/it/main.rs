//! Exports of generated campaigns.

#[path = "../../../prediction/tests/it/common/mod.rs"]
mod common;

mod artifact;
mod made;
mod named;
mod notebook;
mod parquet;

use common::HOSTILE;
use cvc_export::{Description, ExportError, export_tables};
use made::Made;
use serde_json::Value;
use std::{collections::BTreeMap, fs, process::Command};

#[test]
fn tables_have_the_columns_and_types_of_their_schema_and_all_rows() {
    let made = Made::new(|dir| drop(common::campaign(dir)));
    export_tables(&made.index, &made.path("tables"), false).expect("tables");
    let text = fs::read(made.path("tables/datapackage.json")).expect("a package");
    let package: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(package["version"], cvc_export::SCHEMA);
    for resource in package["resources"].as_array().expect("tables") {
        let fields = resource["schema"]["fields"].as_array().expect("fields");
        let mut table = csv::Reader::from_path(
            made.path("tables")
                .join(resource["path"].as_str().expect("path")),
        )
        .expect("a table");
        let names: Vec<&str> = fields
            .iter()
            .map(|f| f["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(
            names,
            table.headers().expect("a head").iter().collect::<Vec<_>>()
        );
        for row in table.records() {
            for (field, text) in fields.iter().zip(&row.expect("a row")) {
                let is_required = field["constraints"]["required"] == true;
                let fits = match field["type"].as_str().expect("a type") {
                    _ if text.is_empty() => !is_required,
                    "integer" => text.parse::<i64>().is_ok(),
                    "number" => text.parse::<f64>().is_ok(),
                    "boolean" => text == "true" || text == "false",
                    "datetime" => text.ends_with('Z') && text.contains('T'),
                    other => other == "string",
                };
                assert!(fits, "{field}: {text}");
            }
        }
    }
    let (points, runs, values) = (made.rows("points"), made.rows("runs"), made.rows("values"));
    assert_eq!(points.len(), 12);
    assert_eq!(points[0]["user_steps"], "20");
    let counted = runs.iter().filter(|run| run["state"] == "failed").count();
    assert_eq!((runs.len(), counted), (12 * 4 + 4, 1));
    let mut expected = 0;
    made.index
        .each_run_value(|value| {
            let row = &values[expected];
            assert_eq!(
                (&row["run"], &row["quantity"], row["value"].parse()),
                (&value.run, &value.quantity, Ok(value.value))
            );
            expected += 1;
        })
        .expect("values");
    assert!(expected > 100 && values.len() == expected);
    assert!(!made.rows("facts").is_empty());
}

#[test]
fn leases_are_exported_and_unknown_prices_are_empty() {
    let made = Made::new(common::campaign_with_costs);
    export_tables(&made.index, &made.path("tables"), false).expect("tables");
    let leases = made.rows("leases");
    let of = |name: &str| leases.iter().find(|l| l["lease"] == name).expect("a lease");
    assert_eq!(of("c5-1")["spot"], "false");
    assert_eq!(of("spot-1")["spot"], "true");
    assert!(of("c5-1")["usd"].parse::<f64>().is_ok_and(|usd| usd > 0.0));
    assert_eq!(of("spot-1")["usd"], "");
}

#[test]
fn only_an_export_is_replaced_and_only_if_nothing_was_added_to_it() {
    let made = Made::new(|dir| drop(common::campaign(dir)));
    let to = made.path("tables");
    let export = |replace| export_tables(&made.index, &to, replace);
    fs::create_dir(&to).expect("empty");
    export(false).expect("an empty directory is as good as none");
    assert!(matches!(
        export(false),
        Err(ExportError::Exists {
            is_export: true,
            ..
        })
    ));
    export(true).expect("replaced");
    fs::write(to.join("mine.txt"), "mine").expect("a file");
    assert!(matches!(export(true), Err(ExportError::Foreign { file, .. }) if file == "mine.txt"));
    assert_eq!(fs::read(to.join("mine.txt")).expect("kept"), b"mine");

    fs::remove_file(to.join("mine.txt")).expect("removed");
    // a file that a user has edited is kept, too
    let text = fs::read_to_string(to.join("runs.csv")).expect("a table");
    fs::write(to.join("runs.csv"), format!("{text}x")).expect("edited");
    assert!(matches!(export(true), Err(ExportError::Edited { file, .. }) if file == "runs.csv"));
    fs::write(to.join("runs.csv"), &text).expect("as it was");
    export(true).expect("replaced");
    // directories that killed commands left are removed, unless other files were added to them
    let host = cvc_core::store::own_prefix("export").expect("own times");
    let gone = host.replace(&format!("-{}-", std::process::id()), "-4194305-");
    let (half, old) = (
        made.path(&format!("{gone}a")),
        made.path(&format!("{gone}b")),
    );
    fs::create_dir(&half).expect("a directory");
    fs::write(half.join("runs.csv"), "half").expect("a file");
    fs::create_dir(&old).expect("a directory");
    for entry in fs::read_dir(&to).expect("lists").flatten() {
        fs::copy(
            entry.path(),
            old.join(entry.file_name().to_string_lossy().as_ref()),
        )
        .expect("copies");
    }
    fs::write(old.join("mine.txt"), "mine").expect("a file");
    export(true).expect("replaced");
    assert!(!half.exists() && old.join("mine.txt").exists());
    fs::remove_file(old.join("mine.txt")).expect("removed");
    export(true).expect("replaced");
    assert!(!old.exists());

    let other = made.path("other");
    fs::create_dir(&other).expect("a directory");
    fs::write(other.join("points.csv"), "mine").expect("a file");
    for target in [&other, &other.join("points.csv")] {
        let refused = export_tables(&made.index, target, true).expect_err("refused");
        assert!(
            matches!(
                refused,
                ExportError::Exists {
                    is_export: false,
                    ..
                }
            ),
            "{refused}"
        );
    }
    let left = fs::read_dir(made.dir.path()).expect("read").flatten();
    let left = left.filter(|e| e.file_name().to_string_lossy().starts_with(".export-"));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_crate_has_an_action_for_each_run_that_was_made_and_refers_to_nothing_that_it_lacks() {
    let made = Made::new(|dir| drop(common::campaign(dir)));
    let graph = made.crate_of(Description::default());
    let ids: BTreeMap<&str, &Value> = graph
        .iter()
        .map(|e| (e["@id"].as_str().expect("an id"), e))
        .collect();
    assert_eq!(ids.len(), graph.len(), "every identifier stands once");
    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(members) => {
                match (members.len(), members.get("@id").and_then(Value::as_str)) {
                    (1, Some(id)) => found.push(id),
                    _ => members.values().for_each(|v| references(v, found)),
                }
            }
            Value::Array(items) => items.iter().for_each(|v| references(v, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    graph.iter().for_each(|e| references(e, &mut found));
    let outside = ["https://w3id.org/ro/crate/1.1"];
    for id in found {
        assert!(ids.contains_key(id) || outside.contains(&id), "{id}");
    }
    let actions: Vec<&Value> = graph
        .iter()
        .filter(|e| e["@type"] == "CreateAction")
        .collect();
    assert_eq!(actions.len(), 52);
    let failed: Vec<&&Value> = actions.iter().filter(|a| a["error"].is_string()).collect();
    assert_eq!(failed.len(), 1);
    assert!(
        failed[0]["error"]
            .as_str()
            .is_some_and(|e| e.contains(HOSTILE))
    );
    assert!(
        actions
            .iter()
            .all(|a| a.get("agent").is_none() && a["endTime"].is_string())
    );
    let files = graph.iter().filter(|e| e["@type"] == "File");
    for file in files {
        let path = made
            .path("crate")
            .join(file["@id"].as_str().expect("an id"));
        let bytes = fs::metadata(&path).expect("the file").len();
        assert_eq!(file["contentSize"], bytes.to_string(), "{path}");
        let Ok(summed) = Command::new("sha256sum").arg(&path).output() else {
            continue;
        };
        let text = String::from_utf8_lossy(&summed.stdout).into_owned();
        assert_eq!(Some(&text[..64]), file["sha256"].as_str(), "{path}");
    }
    assert!(
        graph[1]["license"]
            .as_str()
            .is_some_and(|text| text.contains("No licence"))
    );
    let named = made.crate_of(Description {
        agent: Some("Ada"),
        licence: Some("https://example.org/licence"),
    });
    assert!(
        named
            .iter()
            .any(|e| e["@type"] == "Person" && e["name"] == "Ada")
    );
    assert_eq!(named[1]["license"]["@id"], "https://example.org/licence");
}
