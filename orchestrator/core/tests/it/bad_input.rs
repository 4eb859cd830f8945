//! Wrong campaign files and descriptors: each error says file, line, column, what is wrong and how to fix it.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

fn here(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(dir)
}

fn files(dir: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(here(dir)).expect("the folder of test files").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files
}

fn describe(errors: &cvc_core::source::SourceErrors) -> String {
    let mut text = String::new();
    for error in &errors.0 {
        let (line, column) = error.position().unwrap_or_else(|| panic!("no position: {error:?}"));
        let file = error.path.file_name().expect("a file name").to_string_lossy();
        let hint = error.hint.as_deref().unwrap_or_else(|| panic!("no hint: {error:?}"));
        writeln!(text, "{file}:{line}:{column}: {}\n  hint: {hint}", error.message).expect("text");
    }
    text
}

#[test]
fn each_wrong_campaign_file_is_refused_with_place_and_hint() {
    let mut all = String::new();
    let files = files("bad_campaigns");
    assert!(files.len() >= 30, "only {} files", files.len());
    for path in files {
        let errors = cvc_core::campaign::load(&path, &[here("apps"), here("broken_apps")]).expect_err(&path.display().to_string());
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
    let errors = cvc_core::campaign::load(Path::new("/nonexistent/campaign.toml"), &[]).expect_err("it does not exist");
    assert!(errors.to_string().starts_with("/nonexistent/campaign.toml: cannot read the file"), "{errors}");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("binary.toml");
    std::fs::write(&path, [b'a', 0xff, 0xfe]).expect("written");
    let errors = cvc_core::campaign::load(&path, &[]).expect_err("it is not text");
    assert!(errors.to_string().contains("byte 1 is not UTF-8 text"), "{errors}");
}
