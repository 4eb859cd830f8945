//! Tests of the layers: with small crates, and with this workspace.

use super::*;
use std::fs;

/// Returns the uses and the cycles in a crate with these files.
fn of(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let modules = source::modules(&dir.path().join("lib.rs")).expect("modules");
    let uses = source::uses(&modules);
    let lines: BTreeSet<String> = uses
        .iter()
        .map(|u| {
            format!(
                "{} → {}: {}",
                file(&modules[u.from]),
                file(&modules[u.to]),
                u.name
            )
        })
        .collect();
    (
        lines.into_iter().collect(),
        cycles("fixture", &modules, &uses),
    )
}

#[test]
fn downward_imports_form_no_cycle() {
    let (uses, cycles) = of(&[
        (
            "lib.rs",
            "pub mod low;\npub mod middle;\nmod high;\npub use high::High;",
        ),
        ("low.rs", "pub struct Low; pub fn low() {}"),
        (
            "middle.rs",
            "use crate::low::{self, Low}; pub fn middle(_: Low) { low::low() }",
        ),
        (
            "high.rs",
            "use super::{low, middle::middle as down}; pub struct High; fn f() { down(low::Low) }",
        ),
    ]);
    assert_eq!(
        uses,
        [
            "high → low: low",
            "high → middle: middle",
            "middle → low: Low",
            "middle → low: low"
        ]
    );
    assert_eq!(cycles, Vec::<String>::new());
}

#[test]
fn a_cycle_is_reported_with_files_lines_and_names() {
    let (_, cycles) = of(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        (
            "a.rs",
            "\nuse crate::b::{One, three};\nfn f() { three() }\npub struct Back;",
        ),
        (
            "b.rs",
            "pub struct One; pub fn three() {}\n\n\nfn g() -> crate::a::Back { todo!() }",
        ),
        ("c.rs", "use crate::{a::Back, b::One};"),
    ]);
    let expected = "fixture: import cycle in crate: a, b\n    b:4 → a: Back\n    a:2 → b: One\n    a:2 → b: three";
    assert_eq!(cycles, [expected]);
}

#[test]
fn re_exports_are_resolved_to_the_definition() {
    let mut files = [
        ("lib.rs", "mod tools;\nmod user;"),
        (
            "tools/mod.rs",
            "mod hammer;\nmod nail;\npub use hammer::Hammer;\npub use nail::{Nail, Head as Top};",
        ),
        ("tools/hammer.rs", "use super::Nail; pub struct Hammer;"),
        ("tools/nail.rs", "pub struct Nail; pub struct Head;"),
        ("user.rs", "use crate::tools::{Hammer, Top};"),
    ];
    let (uses, cycles) = of(&files);
    assert_eq!(
        uses,
        [
            "tools::hammer → tools::nail: Nail",
            "user → tools::hammer: Hammer",
            "user → tools::nail: Top"
        ]
    );
    assert_eq!(cycles, Vec::<String>::new(), "re-exports close no cycle");
    files[3].1 = "use super::hammer; pub struct Nail(hammer::Hammer); pub struct Head;";
    let (_, cycles) = of(&files);
    assert_eq!(cycles.len(), 1, "{cycles:#?}");
    assert!(
        cycles[0].starts_with("fixture: import cycle in tools: tools::hammer, tools::nail\n"),
        "{cycles:#?}"
    );
}

#[test]
fn a_module_and_its_children_can_form_a_cycle() {
    let (_, cycles) = of(&[
        ("lib.rs", "mod a;"),
        (
            "a/mod.rs",
            "mod child;\npub use child::Child;\npub trait Base { fn f(_: Child); }",
        ),
        (
            "a/child.rs",
            "use super::Base; pub struct Child; fn f(_: impl Base) {}",
        ),
    ]);
    assert_eq!(cycles.len(), 1, "{cycles:#?}");
    assert!(
        cycles[0].contains("import cycle in a: a, a::child"),
        "{cycles:#?}"
    );
}

#[test]
fn tests_comments_and_other_crates_do_not_count() {
    let (uses, _) = of(&[
        ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod missing;"),
        ("a.rs", "pub struct A; pub fn text() {}"),
        (
            "b.rs",
            "use std::a::A;\nuse serde::b;\n// crate::a::A\n#[cfg(test)]\nuse crate::a::A as _;\n#[cfg(test)]\nfn helper() {\n    crate::a::text()\n}\n\
             struct S;\nimpl S {\n    #[cfg(test)]\n    fn f(\n        a: u8,\n    ) {\n        crate::a::text()\n    }\n}\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        ),
    ]);
    assert_eq!(uses, Vec::<String>::new());
}

#[test]
fn macros_attributes_and_globs_count() {
    let (uses, _) = of(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        (
            "a.rs",
            "pub fn parse() {} pub struct A; pub enum Kind { One }",
        ),
        (
            "b.rs",
            "fn f() { tokio::select! { _ = async { vec![crate::a::parse()] } => {} } }",
        ),
        (
            "c.rs",
            "#[derive(Clap)] struct C { #[arg(value_parser = crate::a::parse)] x: u8, #[serde(with = \"crate::a::A\")] y: u8 }",
        ),
        ("d.rs", "use crate::a::*; fn f() -> Kind { Kind::One }"),
    ]);
    assert_eq!(
        uses,
        ["b → a: parse", "c → a: A", "c → a: parse", "d → a: *"]
    );
}

/// Checks the workspace itself.
#[test]
fn the_workspace_forms_layers_without_cycles() {
    let packages = workspace::packages().expect("a workspace");
    let mut violations = crates::violations(&packages);
    for (package, target) in packages
        .iter()
        .flat_map(|p| compiled(p).map(move |t| (p, t)))
    {
        let modules = source::modules(&target.root).expect("sources");
        assert!(!modules.is_empty(), "{}", package.name);
        violations.extend(cycles(&target.name, &modules, &source::uses(&modules)));
    }
    assert!(
        violations.is_empty(),
        "{}\n\n{HINT}",
        violations.join("\n\n")
    );
}
