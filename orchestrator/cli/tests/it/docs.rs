//! What the pages say is tried: `console` blocks of README.md and docs/ are run and their output is compared, commands of `sh` blocks exist,
//! links lead somewhere, and generated pages are current.

mod facts;
mod varying;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

fn cvc() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cvc"))
}

/// The pages of a directory.
fn pages_in(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(directory))
        .expect("a directory of pages")
        .map(|e| e.expect("an entry").path());
    entries
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect()
}

fn with_text(mut pages: Vec<PathBuf>) -> Vec<(PathBuf, String)> {
    pages.sort();
    pages
        .into_iter()
        .map(|p| (p.clone(), fs::read_to_string(&p).expect("a page")))
        .collect()
}

/// README.md and every page of docs/, with its text.
fn pages() -> Vec<(PathBuf, String)> {
    with_text([vec![root().join("README.md")], pages_in("docs")].concat())
}

/// These, and the pages for contributors.
fn all_pages() -> Vec<(PathBuf, String)> {
    let others = [
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "ansible/README.md",
        "examples/README.md",
    ]
    .map(|name| root().join(name))
    .to_vec();
    let mut all = pages();
    all.extend(with_text([others, pages_in("docs/design")].concat()));
    all
}

/// The fenced blocks of one language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside: Option<(bool, String)> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), inside.as_mut()) {
            (Some(info), None) => inside = Some((info.trim() == language, String::new())),
            (Some(_), Some(_)) => found.extend(
                inside
                    .take()
                    .filter(|(wanted, _)| *wanted)
                    .map(|(_, block)| block),
            ),
            (None, Some((_, block))) => *block += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    found
}

/// `TRYCMD=overwrite` writes what the commands really print; what [varies](varying) stays as it is.
#[test]
fn commands_in_console_blocks_print_what_the_pages_show() {
    let root = root();
    // where a reader types them; no other test of this program cares where it is
    std::env::set_current_dir(&root).expect("the repository");
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs-pages");
    fs::remove_dir_all(&copies).ok();
    fs::create_dir_all(&copies).expect("a directory");
    // pages begin series and restore states, which an earlier test has left there
    fs::remove_dir_all("target/delta").ok();
    let mut compared = Vec::new();
    for (page, text) in pages() {
        let name = page
            .strip_prefix(&root)
            .expect("a page of the repository")
            .to_str()
            .expect("a name");
        let (copy, patterns) = (
            copies.join(name.replace('/', "-")),
            varying::patterns(name, &text),
        );
        let before: String = patterns.iter().map(|p| p.text.clone() + "\n").collect();
        fs::write(&copy, &before).expect("a copy");
        compared.push((page, copy, before, patterns));
    }
    let cases = trycmd::TestCases::new();
    // other tests measure at the same time, which no page shows
    cases.env("CVC_MEASURING_DIR", "/nonexistent");
    // 1 August 2026: the prices that cvc carries do not grow old in a page
    cases.env("SOURCE_DATE_EPOCH", "1785542400");
    // the pages do not use the prices that this machine's user has asked for
    cases.env(
        "XDG_CACHE_HOME",
        concat!(env!("CARGO_TARGET_TMPDIR"), "/docs-cache"),
    );
    cases.register_bin("cvc", Path::new(env!("CARGO_BIN_EXE_cvc")));
    cases.case(copies.join("*.md"));
    cases.run();
    for (page, copy, before, patterns) in compared {
        let after = fs::read_to_string(&copy).expect("the copy");
        if after != before {
            fs::write(page, varying::page(patterns, &after)).expect("the page");
        }
    }
}

#[test]
fn pages_show_what_is_printed_and_no_patterns_of_tests() {
    for (page, text) in pages() {
        for block in blocks(&text, "console") {
            let pattern = block
                .lines()
                .find(|line| line.trim() == "..." || line.contains("[..]"));
            assert!(
                pattern.is_none(),
                "{}: {pattern:?}; hint: show what is printed, and add what varies to docs/varying.rs",
                page.display()
            );
        }
    }
}

/// A command of cvc: the subcommand, its options and the files of the repository that it names.
fn command_exists(words: &[&str], at: &str) {
    let help = cvc().args([words[0], "--help"]).output().expect("cvc");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.contains(&format!("cvc {}", words[0])),
        "{at}: no such command"
    );
    for option in words.iter().filter(|w| w.starts_with("--")) {
        let name = option.split('=').next().unwrap_or(option);
        assert!(help.contains(name), "{at}: no option {name}");
    }
    for file in words
        .iter()
        .filter(|w| w.starts_with("experiments/") || w.starts_with("examples/"))
    {
        assert!(root().join(file).exists(), "{at}: no file {file}");
    }
}

#[test]
fn commands_in_sh_blocks_exist() {
    let mut tried = 0;
    for (page, text) in pages() {
        for block in blocks(&text, "sh") {
            let syntax = Command::new("bash")
                .args(["-n", "-c", &block])
                .output()
                .expect("bash");
            assert!(
                syntax.status.success(),
                "{}: {}\n{block}",
                page.display(),
                String::from_utf8_lossy(&syntax.stderr)
            );
            for line in block.lines() {
                let words: Vec<&str> = line
                    .split_whitespace()
                    .take_while(|w| !w.starts_with('#'))
                    .skip_while(|w| w.contains('='))
                    .collect();
                let at = format!("{}: {line}", page.display());
                match words.as_slice() {
                    ["cvc", rest @ ..] => command_exists(rest, &at),
                    ["cargo", "xtask", command, ..] => {
                        assert!(
                            ["test", "reference", "fresh", "layers", "node", "dist"]
                                .contains(command),
                            "{at}"
                        )
                    }
                    [script, ..] if script.starts_with("./") => {
                        assert!(root().join(script).is_file(), "{at}: no such script")
                    }
                    _ => continue,
                }
                tried += 1;
            }
        }
    }
    assert!(
        tried >= 4,
        "the README's own commands are among them: {tried}"
    );
}

#[test]
fn scripts_have_right_syntax_and_can_be_executed() {
    for script in [
        "quickstart",
        "test",
        "two-clusters",
        ".ci/run",
        "orchestrator/xtask/setup.sh",
    ] {
        let path = root().join(script);
        assert!(
            Command::new("bash")
                .arg("-n")
                .arg(&path)
                .status()
                .expect("bash")
                .success(),
            "{script}"
        );
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert!(
            script.ends_with(".sh") || mode & 0o111 == 0o111,
            "{script} cannot be executed"
        );
    }
}

#[test]
fn links_between_pages_lead_to_files() {
    let mut wrong = BTreeMap::new();
    let pages = all_pages();
    assert!(
        pages.iter().any(|(page, _)| page.ends_with("CHANGELOG.md"))
            && pages
                .iter()
                .any(|(page, _)| page.parent().is_some_and(|d| d.ends_with("design")))
    );
    for (page, text) in pages {
        let directory = page.parent().expect("a directory");
        // what stands between `](` and `)`
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !directory.join(file).exists() {
                wrong.insert(page.clone(), file.to_owned());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_readme_names_every_page() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    for (page, _) in pages() {
        let name = page.file_name().and_then(|n| n.to_str()).expect("a name");
        assert!(
            name == "README.md" || readme.contains(&format!("(docs/{name})")),
            "README.md does not name docs/{name}"
        );
    }
}

#[test]
fn the_reference_of_the_command_line_is_current() {
    let finished = cvc().arg("reference").output().expect("cvc");
    let committed = fs::read_to_string(root().join("docs/cli.md")).unwrap_or_default();
    assert!(
        String::from_utf8_lossy(&finished.stdout) == committed,
        "docs/cli.md is not current: cargo xtask reference"
    );
}

#[test]
fn completions_are_made_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let finished = cvc().args(["completions", shell]).output().expect("cvc");
        let text = String::from_utf8_lossy(&finished.stdout).into_owned();
        assert!(
            finished.status.success() && text.contains("doctor") && text.contains("retry-failed"),
            "{shell}"
        );
    }
}
