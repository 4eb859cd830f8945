//! Tests of the pages: `console` blocks of README.md and docs/ are run and their output is compared, commands in `sh` blocks exist, links have a
//! target, and generated pages are up to date.

mod facts;
mod varying;

use cvc_testkit::{Tool, require};
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

/// Returns the pages in a directory.
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

/// Returns README.md and every page of docs/ with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    with_text([vec![root().join("README.md")], pages_in("docs")].concat())
}

/// Returns these pages and the pages for contributors.
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

/// Returns the fenced blocks of a language.
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

/// With `TRYCMD=overwrite`, writes the real output of the commands into the pages; text that [varies](varying) is kept.
#[test]
fn commands_in_console_blocks_print_what_the_pages_show() {
    let root = root();
    // run the commands in the directory where a reader types them; no other test of this program depends on the current directory
    std::env::set_current_dir(&root).expect("the repository");
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs-pages");
    fs::remove_dir_all(&copies).ok();
    fs::create_dir_all(&copies).expect("a directory");
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
    // hide the measurements of other tests that run at the same time
    cases.env("CVC_MEASURING_DIR", "/nonexistent");
    // set the date to 1 August 2026, because the output would warn when the included prices are old
    cases.env("SOURCE_DATE_EPOCH", "1785542400");
    // do not use prices that the user of this machine has fetched
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

/// Checks a command of cvc: the subcommand, its options, and the files of the repository that it names must exist.
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
        "docs/build-site",
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
        // the text between `](` and `)`
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

/// The table of contents is also used by the site (book.toml).
#[test]
fn the_table_of_contents_names_every_page() {
    let docs = root().join("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).expect("docs/SUMMARY.md");
    for page in [pages_in("docs"), pages_in("docs/design")].concat() {
        let name = page.strip_prefix(&docs).expect("a page of docs/");
        assert!(
            name == Path::new("SUMMARY.md") || contents.contains(&format!("({})", name.display())),
            "docs/SUMMARY.md does not name {}",
            name.display()
        );
    }
}

/// Returns the values of an attribute in a page of HTML.
fn attribute<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let start = format!(" {name}=\"");
    page.split(start.as_str())
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

#[test]
fn links_of_the_site_lead_to_pages_and_their_headings() {
    require!(Tool::MdBook);
    const REPOSITORY: &str = "https://repository.example/cvc";
    let site = tempfile::tempdir().expect("a directory");
    let built = Command::new(root().join("docs/build-site"))
        .arg(site.path())
        .arg(REPOSITORY)
        .output()
        .expect("starts");
    assert!(built.status.success(), "{built:?}");
    let mut pages = BTreeMap::new();
    for directory in [site.path().to_owned(), site.path().join("design")] {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|e| e == "html") {
                let page = fs::read_to_string(&path).expect("a page");
                pages.insert(path, page);
            }
        }
    }
    // the page of missing pages is shown at any address, and the one to print has the links of all
    pages.retain(|path, _| !path.ends_with("404.html") && !path.ends_with("print.html"));
    assert!(pages.len() > 40, "{:?}", pages.keys());
    let mut wrong = Vec::new();
    let mut inside = 0;
    for (path, page) in &pages {
        for link in attribute(page, "href") {
            if let Some(file) = link.strip_prefix(REPOSITORY) {
                let file = file.split('#').next().unwrap_or_default();
                if !root().join(file.trim_start_matches('/')).exists() {
                    wrong.push((path.clone(), link.to_owned()));
                }
                continue;
            }
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            inside += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().expect("a directory").join(file),
            };
            let leads = target.canonicalize().is_ok_and(|target| {
                heading.is_empty()
                    || pages
                        .iter()
                        .find(|(path, _)| path.canonicalize().is_ok_and(|p| p == target))
                        .is_some_and(|(_, page)| attribute(page, "id").contains(&heading))
            });
            if !leads {
                wrong.push((path.clone(), link.to_owned()));
            }
        }
    }
    assert!(wrong.is_empty() && inside > 1000, "{inside} {wrong:#?}");
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
            finished.status.success() && text.contains("COMPLETE"),
            "{shell}"
        );
    }
}

#[test]
fn shells_complete_campaigns_variants_sites_and_applications() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
        std::fs::write(path, text).expect("writes");
    };
    write(
        "tune.toml",
        "schema = 1\n[sites.local]\n[sites.lab]\n[variants.short]\n",
    );
    write("campaigns/earlier/journal.jsonl", "");
    write("apps/heat.toml", "");
    let offered = |words: &[&str]| -> Vec<String> {
        let finished = cvc()
            .current_dir(directory.path())
            .env("COMPLETE", "fish")
            .env_remove("CVC_CAMPAIGNS")
            .args(["--", "cvc"])
            .args(words)
            .output()
            .expect("cvc");
        let text = String::from_utf8_lossy(&finished.stdout).into_owned();
        let first = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        text.lines().map(first).collect()
    };
    for (words, expected) in [
        (&["sta"][..], "status"),
        (&["status", "ear"], "earlier"),
        (&["plan", "tu"], "tune.toml"),
        (&["run", "--retry"], "--retry-failed"),
        (&["run", "tune.toml", "--variant", ""], "short"),
        (&["install", "l"], "lab"),
        (&["doctor", "--app", "he"], "heat"),
        (&["doctor", "--app", "kernel-s"], "kernel-stencil"),
    ] {
        let found = offered(words);
        assert!(
            found.iter().any(|word| word == expected),
            "{words:?}: {found:?}"
        );
    }
}
