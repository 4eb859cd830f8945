use super::*;
use std::path::PathBuf;

/// Builds a crate from these files, relative to `src`.
fn of(files: &[(&str, &str)]) -> Layers {
    let files: BTreeMap<PathBuf, String> = files
        .iter()
        .map(|(path, text)| (Path::new("src").join(path), (*text).to_owned()))
        .collect();
    Layers::of("fixture".into(), Path::new("src/lib.rs"), &|path| {
        files.get(path).cloned()
    })
    .expect("a crate")
}

/// Formats its dependencies as `from → to: name`.
fn dependencies(layers: &Layers) -> Vec<String> {
    let line = |a: &Dependency| {
        format!(
            "{} → {}: {}",
            layers.file(a.from),
            layers.file(a.to),
            a.name
        )
    };
    layers
        .dependencies
        .iter()
        .filter(|a| a.defined_in.is_none())
        .map(line)
        .collect()
}

#[test]
fn downward_imports_form_no_cycle() {
    let layers = of(&[
        (
            "lib.rs",
            "pub mod low; pub mod middle; mod high; pub use high::High;",
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
        dependencies(&layers),
        [
            "middle.rs → low.rs: Low",
            "middle.rs → low.rs: low",
            "high.rs → low.rs: Low",
            "high.rs → middle.rs: middle"
        ]
        .map(str::to_owned)
    );
    assert_eq!(layers.cycles(true), Vec::<String>::new());
    let drawn = layers.draw();
    assert_eq!(
        drawn.lines().collect::<Vec<_>>()[1..],
        [
            "   0   low",
            "   1   middle → low",
            "   2   high → low, middle"
        ],
        "{drawn}"
    );
}

#[test]
fn a_cycle_is_reported_with_files_lines_and_names() {
    let layers = of(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        (
            "a.rs",
            "\nuse crate::b::{One, Two, three};\nfn f() { three() }\npub struct Back;",
        ),
        (
            "b.rs",
            "pub struct One; pub struct Two; pub fn three() {}\n\n\nfn g() -> crate::a::Back { todo!() }",
        ),
        ("c.rs", "use crate::{a::Back, b::One};"),
    ]);
    let cycles = layers.cycles(false);
    assert_eq!(cycles.len(), 1, "{cycles:#?}");
    let lines: Vec<&str> = cycles[0].lines().collect();
    assert_eq!(lines[0], "fixture: import cycle of 2 modules: a, b");
    assert_eq!(lines[2], "    b.rs:4 → a.rs: Back");
    assert_eq!(lines[4], "    a.rs:2 → b.rs: One, Two, three");
    assert_eq!(lines.len(), 5);
    assert!(
        layers.draw().lines().any(|l| l == "   0 ↺ a → b"),
        "{}",
        layers.draw()
    );
}

#[test]
fn re_exports_are_resolved_to_the_definition() {
    let files = [
        ("lib.rs", "mod tools; mod user;"),
        (
            "tools/mod.rs",
            "mod hammer; mod nail; pub use hammer::Hammer; pub use nail::*;",
        ),
        ("tools/hammer.rs", "use super::Nail; pub struct Hammer;"),
        ("tools/nail.rs", "pub struct Nail;"),
        ("user.rs", "use crate::tools::{Hammer, Nail};"),
    ];
    let layers = of(&files);
    assert_eq!(
        dependencies(&layers),
        [
            "tools/hammer.rs → tools/nail.rs: Nail",
            "user.rs → tools/hammer.rs: Hammer",
            "user.rs → tools/nail.rs: Nail"
        ]
        .map(str::to_owned)
    );
    assert_eq!(
        layers.cycles(true),
        Vec::<String>::new(),
        "re-exports close no cycle"
    );
    let mut files = files;
    files[3].1 = "use super::hammer; pub struct Nail(hammer::Hammer);";
    let cycles = of(&files).cycles(true);
    assert_eq!(cycles.len(), 1, "{cycles:#?}");
    assert!(
        cycles[0].starts_with("fixture: import cycle of 2 modules in tools/mod.rs: hammer, nail\n"),
        "{cycles:#?}"
    );
}

#[test]
fn importing_a_name_from_a_module_that_only_re_exports_it_depends_on_both() {
    let layers = of(&[
        ("lib.rs", "mod low; mod shop; mod buyer;"),
        ("low.rs", "pub struct Thing;"),
        (
            "shop.rs",
            "pub use crate::low::Thing; use crate::buyer::Money;",
        ),
        ("buyer.rs", "use crate::shop::Thing; pub struct Money;"),
    ]);
    let cycles = layers.cycles(true);
    assert_eq!(cycles.len(), 1, "{cycles:#?}");
    assert!(
        cycles[0].contains("buyer.rs:1 → shop.rs: Thing (defined in low.rs; import it from there)"),
        "{cycles:#?}"
    );
}

#[test]
fn a_module_and_its_children_can_form_a_cycle() {
    let layers = of(&[
        ("lib.rs", "mod a;"),
        (
            "a/mod.rs",
            "mod child; pub use child::Child; pub trait Base { fn f(_: Child); }",
        ),
        (
            "a/child.rs",
            "use super::Base; pub struct Child; fn f(_: impl Base) {}",
        ),
    ]);
    let cycles = layers.cycles(true);
    assert_eq!(cycles.len(), 1, "{cycles:#?}");
    assert!(
        cycles[0].contains("cycle of 2 modules in a/mod.rs: a/mod.rs, child"),
        "{cycles:#?}"
    );
}

#[test]
fn test_code_other_crates_and_local_variables_do_not_count() {
    let layers = of(&[
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod missing;"),
        ("a.rs", "pub struct A; pub fn text() {}"),
        (
            "b.rs",
            "use std::a::A; use ::a::text; use serde::b;
             #[cfg(test)] use crate::a::A as _;
             #[cfg(test)] mod tests { use crate::a::A; fn f() { crate::a::text() } }
             #[cfg(all(test, unix))] fn helper() { crate::a::text() }
             struct S; impl S { #[cfg(test)] fn f() { crate::a::text() } }
             #[test] fn t() { crate::a::text() }
             fn g(text: &str) { f(text); format!(\"{}\", text); }",
        ),
    ]);
    assert_eq!(dependencies(&layers), Vec::<String>::new());
}

#[test]
fn macros_attributes_inline_modules_and_globs_count() {
    let layers = of(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
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
        (
            "d.rs",
            "mod inner { use super::super::a::*; fn f() -> Kind { Kind::One } } macro_rules! m { () => { $crate::a::A } }",
        ),
        (
            "e.rs",
            "use crate::a::Kind::*; fn f() { use crate::a; a::parse() }",
        ),
    ]);
    assert_eq!(
        dependencies(&layers),
        [
            "b.rs → a.rs: parse",
            "c.rs → a.rs: A",
            "c.rs → a.rs: parse",
            "d.rs → a.rs: A",
            "d.rs → a.rs: Kind",
            "e.rs → a.rs: Kind::*",
            "e.rs → a.rs: parse"
        ]
        .map(str::to_owned)
    );
}

#[test]
fn a_syntax_error_is_reported_with_file_and_line() {
    let read = |path: &Path| {
        Some(
            if path.ends_with("lib.rs") {
                "mod a;"
            } else {
                "\nfn {"
            }
            .to_owned(),
        )
    };
    let problem = Layers::of("fixture".into(), Path::new("src/lib.rs"), &read)
        .err()
        .expect("a problem");
    assert!(problem.starts_with("src/a.rs:2: "), "{problem}");
}

/// The workspace itself.
#[test]
fn the_workspace_forms_layers_without_cycles() {
    let packages = workspace::packages().expect("a workspace");
    let mut violations = crates::violations(&packages);
    for package in &packages {
        for layers in targets(package).expect("sources") {
            violations.extend(layers.cycles(false));
        }
    }
    assert!(
        violations.is_empty(),
        "{}\n\n{HINT}",
        violations.join("\n\n")
    );
}
