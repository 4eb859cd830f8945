//! Variants: the same file with some keys changed.

use cvc_core::campaign::{self, Spec};

use cvc_core::plan;

use cvc_core::point::Moment;
use std::path::{Path, PathBuf};

fn apps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps")
}

const FILE: &str = r#"
schema = 1
name = "sizes"
description = "at full size"

[sites.local]
kind = "local"
app_dirs = ["programs"]

[sites.local.mpi.mpich]
family = "mpich"
prefix = "/sw/mpich"

[sites.local.mpi.openmpi]
family = "openmpi"

[matrix]
app = "demo"
class = ["W", "S"]
mapping = ["1Nx64P", "1Nx256P"]
mpi = ["mpich", "openmpi"]
checkpointer = "dmtcp"

[[exclude]]
when = { mpi = "openmpi" }
reason = "not measured"

[run]
repeats = 10
timeout_s = 7200

[checkpoint]
moment = { at_s = [30, 60] }

[variants.laptop]
description = "in small"
exclude = []
[variants.laptop.sites.local.mpi.mpich]
prefix = "/usr"
[variants.laptop.matrix]
class = "S"
processes = [1, 4]
[variants.laptop.run]
repeats = 2
[variants.laptop.checkpoint]
moment = { after_step = 1 }

[variants.short]
remove = ["matrix.mpi", "exclude"]
"#;

/// The file in a directory of its own, read with a variant.
fn read(text: &str, variant: Option<&str>) -> Result<Spec, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("sizes.toml");
    std::fs::write(&path, text).expect("written");
    campaign::load_variant(&path, variant, &[apps()]).map_err(|e| {
        e.to_string()
            .replace(&format!("{}/", dir.path().display()), "")
    })
}

fn shown(spec: &Spec) -> Vec<String> {
    plan::build(spec)
        .points
        .iter()
        .map(|p| format!("{} {} {}", p.point.class, p.point.mapping, p.point.mpi))
        .collect()
}

#[test]
fn a_variant_merges_tables_and_replaces_everything_else() {
    let full = read(FILE, None).expect("the file");
    assert_eq!(
        (
            full.name.as_str(),
            full.variant.as_deref(),
            full.run.repeats
        ),
        ("sizes", None, 10)
    );
    assert_eq!(full.variants, ["laptop", "short"]);
    assert_eq!(
        shown(&full),
        [
            "W 1Nx64P mpich",
            "W 1Nx256P mpich",
            "S 1Nx64P mpich",
            "S 1Nx256P mpich"
        ]
    );

    let laptop = read(FILE, Some("laptop")).expect("the variant");
    assert_eq!(
        (laptop.name.as_str(), laptop.variant.as_deref()),
        ("sizes-laptop", Some("laptop"))
    );
    assert_eq!(laptop.report.title, "sizes-laptop");
    assert_eq!(laptop.description, "in small");
    // merged key by key: what the variant does not name stays
    assert_eq!((laptop.run.repeats, laptop.run.timeout_s), (2, 7200.0));
    let site = &laptop.sites["local"];
    assert_eq!(site.app_dirs, ["programs"]);
    assert_eq!(
        site.mpi["mpich"].source,
        campaign::MpiSource::Prefix("/usr".into())
    );
    assert!(site.mpi.contains_key("openmpi"));
    // a moment is one value; processes take the place of mappings
    assert_eq!(laptop.checkpoint.moment, Moment::AfterStep(1));
    assert_eq!(
        shown(&laptop),
        [
            "S 1Nx1P mpich",
            "S 1Nx4P mpich",
            "S 1Nx1P openmpi",
            "S 1Nx4P openmpi"
        ]
    );

    let short = read(FILE, Some("short")).expect("the variant");
    assert!(shown(&short).iter().all(|p| p.ends_with(" mpich")) && shown(&short).len() == 4);
}

/// What is stored beside the runs is read again as the same campaign, without an option, whatever stood in the file.
#[test]
fn the_stored_file_names_its_variant() {
    let named = FILE.replace(
        "name = \"sizes\"",
        "name = \"sizes\"\nvariant = \"short\" # the usual one",
    );
    for text in [FILE.to_owned(), format!("\u{feff}{FILE}"), named] {
        let laptop = read(&text, Some("laptop")).expect("the variant");
        let again = read(&laptop.text, None).unwrap_or_else(|e| panic!("{e}\n{}", laptop.text));
        assert_eq!(
            (again.name.as_str(), again.variant.as_deref()),
            ("sizes-laptop", Some("laptop"))
        );
        assert_eq!(plan::build(&again), plan::build(&laptop));
        assert_eq!(again.text, laptop.text);
        let other = read(&laptop.text, Some("short")).expect("another variant");
        assert_eq!(other.name, "sizes-short");
    }
    assert_eq!(&*read(FILE, None).expect("the file").text, FILE);
}

#[test]
fn an_unknown_variant_is_refused_with_those_that_there_are() {
    let output = read(FILE, Some("labtop")).expect_err("an unknown variant");
    let line = 1 + FILE
        .lines()
        .position(|l| l.starts_with("[variants"))
        .expect("the first variant");
    assert!(
        output.contains(&format!("sizes.toml:{line}:2: unknown variant `labtop`")),
        "{output}"
    );
    assert!(
        output.contains("did you mean `laptop`? variants of this file: laptop, short"),
        "{output}"
    );
    let without = FILE.split("[variants.laptop]").next().expect("a text");
    let output = read(without, Some("laptop")).expect_err("no variants at all");
    assert!(
        output.contains("unknown variant `laptop`")
            && output.contains("variants of this file: none"),
        "{output}"
    );
}

/// Every campaign that is committed, with each of its variants.
#[test]
fn committed_variants_load_and_have_runs() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut files: Vec<PathBuf> = Vec::new();
    for pattern in ["*.toml", "papers/*/campaigns/*.toml"] {
        let pattern = experiments.join(pattern);
        files.extend(
            glob::glob(pattern.to_str().expect("text"))
                .expect("a pattern")
                .map(|p| p.expect("a path")),
        );
    }
    let mut variants = 0;
    for path in files {
        let all = campaign::load(&path, &[experiments.join("apps")])
            .unwrap_or_else(|e| panic!("{e}"))
            .variants;
        for variant in std::iter::once(None).chain(all.iter().map(|v| Some(v.as_str()))) {
            let spec = campaign::load_variant(&path, variant, &[experiments.join("apps")])
                .unwrap_or_else(|e| panic!("{e}"));
            assert!(
                !plan::build(&spec).runs.is_empty(),
                "{} {variant:?}",
                path.display()
            );
            variants += usize::from(variant.is_some());
        }
    }
    assert!(variants >= 2);
}
