//! Wrong campaign files and descriptors: each error says file, line, column, what is wrong and how to fix it.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

fn here(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(dir)
}

fn files(dir: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(here(dir))
        .expect("the folder of test files")
        .map(|e| e.expect("an entry").path())
        .collect();
    files.sort();
    files
}

fn describe(errors: &cvc_core::source::SourceErrors) -> String {
    let mut text = String::new();
    for error in &errors.0 {
        let (line, column) = error
            .position()
            .unwrap_or_else(|| panic!("no position: {error:?}"));
        let file = error
            .path
            .file_name()
            .expect("a file name")
            .to_string_lossy();
        let hint = error
            .hint
            .as_deref()
            .unwrap_or_else(|| panic!("no hint: {error:?}"));
        writeln!(
            text,
            "{file}:{line}:{column}: {}\n  hint: {hint}",
            error.message
        )
        .expect("text");
    }
    text
}

#[test]
fn each_wrong_campaign_file_is_refused_with_place_and_hint() {
    let mut all = String::new();
    let files = files("bad_campaigns");
    assert!(files.len() >= 30, "only {} files", files.len());
    for path in files {
        let errors = cvc_core::campaign::load(&path, &[here("apps"), here("broken_apps")])
            .expect_err(&path.display().to_string());
        assert!(!errors.0.is_empty());
        all += &describe(&errors);
    }
    insta::assert_snapshot!(all);
}

#[test]
fn each_wrong_descriptor_is_refused_with_place_and_hint() {
    let mut all = String::new();
    for path in files("bad_apps") {
        all += &describe(&cvc_core::app::load::load(&path).expect_err(&path.display().to_string()));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_file_that_is_missing_or_no_text_is_an_error_with_its_path() {
    let errors = cvc_core::campaign::load(Path::new("/nonexistent/campaign.toml"), &[])
        .expect_err("it does not exist");
    assert!(
        errors
            .to_string()
            .starts_with("/nonexistent/campaign.toml: cannot read the file"),
        "{errors}"
    );
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("binary.toml");
    std::fs::write(&path, [b'a', 0xff, 0xfe]).expect("written");
    let errors = cvc_core::campaign::load(&path, &[]).expect_err("it is not text");
    assert!(
        errors.to_string().contains("byte 1 is not UTF-8 text"),
        "{errors}"
    );
}

#[test]
fn what_is_no_file_that_people_write_is_refused_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let pipe = dir.path().join("pipe.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let large = dir.path().join("large.toml");
    std::fs::File::create(&large)
        .expect("a file")
        .set_len((16 << 20) + 1)
        .expect("a length");
    for (path, problem) in [
        (pipe.as_path(), "not a regular file"),
        (Path::new("/dev/zero"), "not a regular file"),
        (&large, "16 MiB"),
    ] {
        let refused = cvc_core::campaign::load(path, &[])
            .expect_err("is refused")
            .to_string();
        assert!(
            refused.contains(problem) && refused.contains("hint: "),
            "{refused}"
        );
        cvc_core::app::load::load(path).expect_err("is refused");
        cvc_core::inventory::inspect(path, "all").expect_err("is refused");
    }
    std::fs::File::options()
        .write(true)
        .open(&large)
        .expect("a file")
        .set_len(16 << 20)
        .expect("a length");
    let refused = cvc_core::campaign::load(&large, &[])
        .expect_err("is no TOML")
        .to_string();
    assert!(!refused.contains("16 MiB"), "{refused}");
}

#[test]
fn a_list_of_a_million_values_is_refused_before_it_is_expanded() {
    let list = (0..1_000_000)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let text = format!(
        "schema = 1\nname = \"long\"\n[sites.local]\nkind = \"local\"\n[matrix]\napp = \"free\"\nclass = \"S\"\nprocesses = 1\n\
         [matrix.user]\nsize = [{list}]\n"
    );
    let refused = cvc_core::campaign::load_text(Path::new("long.toml"), &text, &[here("apps")])
        .expect_err("is refused")
        .to_string();
    assert!(
        refused.contains("`size` has 1000000 values, more than 100000"),
        "{refused}"
    );
}
