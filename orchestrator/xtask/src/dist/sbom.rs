//! A software bill of materials in the format CycloneDX 1.5 (<https://cyclonedx.org/docs/1.5/json/>).

use super::{
    dependencies::{Dependencies, Linked},
    files::output,
};
use serde_json::{Value, json};

/// Returns the bill as JSON. `time_s` is the time of the source in seconds since 1970, so that the same commit gives the same bill.
pub fn cyclonedx(dependencies: &Dependencies, time_s: &str) -> Result<String, String> {
    let time = output(
        std::process::Command::new("date")
            .args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"])
            .arg(format!("@{time_s}")),
    )?;
    let mut components: Vec<Value> = dependencies.0.values().map(component).collect();
    components.sort_by_key(|c| c["bom-ref"].as_str().unwrap_or_default().to_owned());
    let mut needs: Vec<Value> = dependencies
        .0
        .values()
        .map(|package| {
            let mut on: Vec<String> = package
                .needs
                .iter()
                .filter_map(|id| dependencies.0.get(id))
                .map(url)
                .collect();
            on.sort();
            on.dedup();
            json!({ "ref": url(package), "dependsOn": on })
        })
        .collect();
    needs.sort_by_key(|n| n["ref"].as_str().unwrap_or_default().to_owned());
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": String::from_utf8_lossy(&time).trim(),
            "component": {
                "type": "application",
                "bom-ref": "cvc",
                "name": "cvc",
                "version": env!("CARGO_PKG_VERSION"),
            },
        },
        "components": components,
        "dependencies": needs,
    });
    serde_json::to_string_pretty(&bill).map_err(|e| e.to_string())
}

fn component(package: &Linked) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": url(package),
        "name": package.name,
        "version": package.version,
        "purl": url(package),
    });
    if !package.description.is_empty() {
        component["description"] = package.description.trim().into();
    }
    if !package.licence.is_empty() {
        // older manifests separate alternative licences by a slash
        let expression = package.licence.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if let Some(sha256) = &package.sha256 {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    if !package.repository.is_empty() {
        component["externalReferences"] = json!([{ "type": "vcs", "url": package.repository }]);
    }
    component
}

/// Returns the package URL, which is also the identifier of the package within the bill.
fn url(package: &Linked) -> String {
    format!(
        "pkg:cargo/{}@{}",
        package.name,
        package.version.replace('+', "%2B")
    )
}
