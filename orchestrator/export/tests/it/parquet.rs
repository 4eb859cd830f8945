//! Tables as Parquet files, read with other libraries.

use crate::{common, made::Made};
use cvc_core::visible::inert;
use cvc_export::{ExportError, export_parquet, export_tables};
use cvc_testkit::{Tool, require, tool::skipped};
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};
use serde_json::Value;
use std::{fs, fs::File, process::Command};

/// Returns campaigns whose tables have every type of column, unusual texts, and missing values.
fn campaigns() -> [Made; 3] {
    [
        Made::new(|dir| drop(common::campaign(dir))),
        Made::new(common::campaign_with_costs),
        Made::new(|dir| common::campaign_of(dir, common::many_points())),
    ]
}

fn package(made: &Made, dir: &str) -> Value {
    let text = fs::read(made.path(dir).join("datapackage.json")).expect("a package");
    serde_json::from_slice(&text).expect("JSON")
}

/// Formats a value as in CSV, by the type of its column.
fn as_csv(field: &Field, of: &str) -> String {
    match (field, of) {
        (Field::Null, _) => String::new(),
        (Field::Str(text), "string") => inert(text).into_owned(),
        (Field::Long(number), "integer") => number.to_string(),
        (Field::Double(number), "number") => number.to_string(),
        (Field::Bool(value), "boolean") => value.to_string(),
        (Field::Long(ns), "datetime") => jiff::Timestamp::from_nanosecond((*ns).into())
            .expect("a time")
            .to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn parquet_has_the_values_of_csv_row_by_row_and_the_same_schema() {
    for made in campaigns() {
        export_tables(&made.index, &made.path("tables"), false).expect("CSV");
        export_parquet(&made.index, &made.path("parquet"), false).expect("Parquet");
        let (csv, parquet) = (package(&made, "tables"), package(&made, "parquet"));
        let mut rows = 0;
        for (of_csv, of_parquet) in csv["resources"]
            .as_array()
            .expect("tables")
            .iter()
            .zip(parquet["resources"].as_array().expect("tables"))
        {
            assert_eq!(of_csv["schema"], of_parquet["schema"]);
            let path = |dir: &str, of: &Value| made.path(dir).join(of["path"].as_str().expect("p"));
            let file = File::open(path("parquet", of_parquet)).expect("a file");
            let reader = SerializedFileReader::new(file).expect("Parquet");
            let told = reader.metadata().file_metadata().key_value_metadata();
            let told = |key: &str| {
                let pair = told.into_iter().flatten().find(|pair| pair.key == key);
                pair.and_then(|pair| pair.value.clone()).expect("told")
            };
            assert_eq!(told("cvc.schema_version"), cvc_export::SCHEMA);
            assert_eq!(told("cvc.table"), of_csv["name"].as_str().expect("a name"));
            let schema: Value = serde_json::from_str(&told("cvc.schema")).expect("JSON");
            assert_eq!(schema, of_csv["schema"]);
            let types: Vec<&str> = schema["fields"]
                .as_array()
                .expect("fields")
                .iter()
                .map(|field| field["type"].as_str().expect("a type"))
                .collect();
            let mut expected = csv::Reader::from_path(path("tables", of_csv)).expect("a table");
            let names: Vec<String> = expected
                .headers()
                .expect("a head")
                .iter()
                .map(str::to_owned)
                .collect();
            let mut expected = expected.records();
            for row in reader.get_row_iter(None).expect("rows") {
                let row = row.expect("a row");
                let found: Vec<String> = row
                    .get_column_iter()
                    .zip(&types)
                    .map(|((_, field), of)| as_csv(field, of))
                    .collect();
                let columns: Vec<String> = row
                    .get_column_iter()
                    .map(|(name, _)| inert(name).into_owned())
                    .collect();
                assert_eq!(columns, names);
                let expected = expected.next().expect("as many rows").expect("a row");
                assert_eq!(found, expected.iter().collect::<Vec<_>>());
                rows += 1;
            }
            assert!(expected.next().is_none(), "{names:?}: rows are missing");
        }
        assert!(rows > 100, "{rows} rows");
    }
}

#[test]
fn the_same_campaign_gives_the_same_bytes() {
    let made = Made::new(common::campaign_with_costs);
    for dir in ["one", "two"] {
        export_parquet(&made.index, &made.path(dir), false).expect("Parquet");
    }
    for table in ["points", "runs", "values", "facts", "leases"] {
        let bytes =
            |dir: &str| fs::read(made.path(dir).join(format!("{table}.parquet"))).expect("a table");
        assert!(bytes("one") == bytes("two"), "{table} differs");
    }
}

#[test]
fn an_export_as_csv_is_replaced_by_one_as_parquet_only_if_asked() {
    let made = Made::new(common::campaign_with_costs);
    let to = made.path("tables");
    export_tables(&made.index, &to, false).expect("CSV");
    assert!(matches!(
        export_parquet(&made.index, &to, false),
        Err(ExportError::Exists {
            is_export: true,
            ..
        })
    ));
    export_parquet(&made.index, &to, true).expect("replaced");
    assert!(to.join("runs.parquet").is_file() && !to.join("runs.csv").exists());
}

/// Python program that reads both formats and compares them in pandas.
const COMPARE: &str = r#"
import json, sys, pandas, pyarrow.parquet
tables, parquet = sys.argv[1:]
types = {"string": "object", "integer": "int", "number": "float", "boolean": "bool", "datetime": "datetime64[ns, UTC]"}
for resource in json.load(open(f"{parquet}/datapackage.json"))["resources"]:
    name, fields = resource["name"], resource["schema"]["fields"]
    found = pandas.read_parquet(f"{parquet}/{resource['path']}")
    text = pandas.read_csv(f"{tables}/{name}.csv", dtype=str, keep_default_na=False)
    assert list(found.columns) == [f["name"] for f in fields], name
    assert len(found) == len(text), name
    schema = pyarrow.parquet.read_schema(f"{parquet}/{resource['path']}")
    assert json.loads(schema.metadata[b"cvc.schema"]) == resource["schema"], name
    for at, field in enumerate(fields):
        for value, written in zip(found.iloc[:, at], text.iloc[:, at]):
            if written == "":
                assert value is None or value == "" or pandas.isna(value), (name, field, value)
            elif field["type"] == "number":
                assert value == float(written), (name, field, value, written)
            elif field["type"] == "integer":
                assert value == int(written), (name, field, value, written)
            elif field["type"] == "boolean":
                assert value == (written == "true"), (name, field, value, written)
            elif field["type"] == "datetime":
                assert value == pandas.Timestamp(written), (name, field, value, written)
            else:
                assert value == written or "'" + value == written, (name, field, value, written)
    print(name, len(found))
"#;

#[test]
fn pandas_reads_the_same_from_parquet_as_from_csv() {
    require!(Tool::Plotting);
    let python = Tool::Plotting.find().expect("it is there");
    let mut import = Command::new(&python);
    if !import
        .args(["-c", "import pyarrow"])
        .output()
        .is_ok_and(|o| o.status.success())
    {
        skipped(
            "cvc_export::parquet::pandas_reads_the_same_from_parquet_as_from_csv",
            "pyarrow of PyPI",
        );
        return;
    }
    for made in campaigns() {
        export_tables(&made.index, &made.path("tables"), false).expect("CSV");
        export_parquet(&made.index, &made.path("parquet"), false).expect("Parquet");
        let compared = Command::new(&python)
            .args(["-c", COMPARE])
            .args([made.path("tables"), made.path("parquet")])
            .output()
            .expect("python starts");
        let told = String::from_utf8_lossy(&compared.stdout);
        assert!(
            compared.status.success() && told.lines().count() == 5,
            "{told}{}",
            String::from_utf8_lossy(&compared.stderr)
        );
    }
}
