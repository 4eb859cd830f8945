//! Parses the arguments of `cargo xtask test`, which are those of `cargo test`.

/// Options of cargo that take a value.
const WITH_VALUE: &[&str] = &[
    "-p",
    "--package",
    "--exclude",
    "--test",
    "--bin",
    "--example",
    "--bench",
    "-F",
    "--features",
    "--target",
    "--profile",
    "--target-dir",
    "--manifest-path",
    "-j",
    "--jobs",
    "--color",
    "--config",
    "-Z",
];

/// Options that select targets. Without any of them, documentation tests run too.
const CHOOSE_TARGETS: &[&str] = &[
    "--lib",
    "--bins",
    "--bin",
    "--tests",
    "--test",
    "--examples",
    "--example",
    "--benches",
    "--bench",
    "--all-targets",
];

/// Selects all packages but those that need the cloud's SDK, whose million generated lines take minutes to compile.
const WITHOUT_SDK: [&str; 6] = [
    "--workspace",
    "--exclude",
    "cvc-ec2",
    "--no-default-features",
    "--features",
    "cvc/parquet",
];

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Arguments for cargo: packages, targets, features, profile.
    pub cargo: Vec<String>,
    /// Filters for the test programs: substrings of names, `--exact`, `--skip`.
    pub filters: Vec<String>,
    /// Which tests marked `#[ignore]` run.
    pub ignored: Ignored,
    /// Whether documentation tests run.
    pub doc: Doc,
    /// Whether slow tests and tests that need the cloud's SDK run, too.
    pub all: bool,
    /// Whether the tests are only compiled.
    pub compile_only: bool,
    /// Whether the output of passing tests is shown.
    pub show_output: bool,
    /// Number of tests that run in parallel; `None` adapts it to the capacity of the machine.
    pub threads: Option<usize>,
}

/// Handling of tests marked `#[ignore]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ignored {
    /// Skip them.
    #[default]
    Skip,
    /// Run only them.
    Only,
    /// Run all tests.
    Include,
}

/// Handling of documentation tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doc {
    /// Run them with the other tests.
    #[default]
    Too,
    /// Run only them.
    Only,
    /// Skip them, because targets or tests were selected.
    No,
}

impl Arguments {
    /// Parses the arguments of `cargo xtask test`.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut rest = arguments.iter();
        let mut chosen = false;
        while let Some(argument) = rest.next() {
            if argument == "--" {
                parsed.of_tests(&mut rest)?;
                break;
            }
            let name = argument.split('=').next().unwrap_or_default();
            match argument.as_str() {
                "--doc" => parsed.doc = Doc::Only,
                "--all" => parsed.all = true,
                "--no-run" => parsed.compile_only = true,
                // these options are always passed to cargo
                "--locked" | "--no-fail-fast" => {}
                _ if argument.starts_with('-') => {
                    chosen |= CHOOSE_TARGETS.contains(&name);
                    parsed.cargo.push(argument.clone());
                    if WITH_VALUE.contains(&argument.as_str()) {
                        parsed.cargo.push(
                            rest.next()
                                .ok_or_else(|| format!("{argument} needs a value"))?
                                .clone(),
                        );
                    }
                }
                _ => parsed.filters.push(argument.clone()),
            }
        }
        if parsed.doc == Doc::Too
            && (chosen || !parsed.filters.is_empty() || parsed.ignored == Ignored::Only)
        {
            parsed.doc = Doc::No;
        }
        Ok(parsed)
    }

    fn of_tests<'a>(&mut self, rest: &mut impl Iterator<Item = &'a String>) -> Result<(), String> {
        while let Some(argument) = rest.next() {
            let (name, value) = argument
                .split_once('=')
                .map_or((argument.as_str(), None), |(name, value)| {
                    (name, Some(value.to_owned()))
                });
            let mut value = || {
                value
                    .clone()
                    .or_else(|| rest.next().cloned())
                    .ok_or_else(|| format!("{argument} needs a value"))
            };
            match name {
                "--ignored" => self.ignored = Ignored::Only,
                "--include-ignored" => self.ignored = Ignored::Include,
                "--nocapture" | "--no-capture" | "--show-output" => self.show_output = true,
                "--exact" => self.filters.push(argument.clone()),
                "--skip" => {
                    let word = value()?;
                    self.filters.extend(["--skip".into(), word]);
                }
                "--test-threads" => {
                    let count = value()?;
                    self.threads =
                        Some(
                            count.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                                format!("--test-threads: `{count}` is not a count")
                            })?,
                        );
                }
                _ if name.starts_with('-') => {
                    return Err(format!("unknown option for tests: `{argument}`"));
                }
                _ => self.filters.push(argument.clone()),
            }
        }
        Ok(())
    }

    /// Returns the options for packages and features that cargo gets for tests. If the user selects packages, there are none. Otherwise they select
    /// all packages; without `--all`, all but those that need the cloud's SDK.
    pub fn selection(&self) -> &'static [&'static str] {
        match (self.chooses_packages(), self.all) {
            (true, _) => &[],
            (false, true) => &["--workspace"],
            (false, false) => &WITHOUT_SDK,
        }
    }

    /// Returns whether the arguments select nothing, so that the whole suite runs.
    pub fn is_everything(&self) -> bool {
        self.all
            && self.cargo.is_empty()
            && self.filters.is_empty()
            && self.doc == Doc::Too
            && self.ignored != Ignored::Only
    }

    /// Returns whether the arguments select packages.
    pub fn chooses_packages(&self) -> bool {
        self.cargo.iter().any(|a| {
            a.starts_with("-p")
                || a.starts_with("--package")
                || a == "--workspace"
                || a.starts_with("--manifest-path")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Arguments {
        Arguments::parse(
            &arguments
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
        .expect("arguments")
    }

    #[test]
    fn without_arguments_everything_runs() {
        assert_eq!(parse(""), Arguments::default());
        assert_eq!(parse("--locked --no-fail-fast"), Arguments::default());
        assert!(!parse("").chooses_packages());
        assert!(
            parse("--all --locked").is_everything()
                && parse("--all -- --test-threads 2").is_everything()
        );
        assert!(
            [
                "",
                "--all -p cvc",
                "--all name",
                "--all --doc",
                "--all --test=cloud",
                "--all -- --skip a"
            ]
            .iter()
            .all(|some| !parse(some).is_everything())
        );
    }

    #[test]
    fn the_sdk_is_compiled_only_for_all_tests() {
        assert!(parse("name").selection().contains(&"cvc-ec2"));
        assert_eq!(parse("--all").selection(), ["--workspace"]);
        assert!(parse("-p cvc-ec2").selection().is_empty());
        assert!(parse("--no-run").compile_only && parse("--no-run").cargo.is_empty());
    }

    #[test]
    fn options_go_to_cargo_and_names_are_filters() {
        let parsed = parse("-p cvc --test cloud -F ec2 sweeps --release");
        assert_eq!(
            parsed.cargo,
            ["-p", "cvc", "--test", "cloud", "-F", "ec2", "--release"]
        );
        assert_eq!(
            (parsed.filters.as_slice(), parsed.doc),
            (&["sweeps".to_owned()][..], Doc::No)
        );
        assert!(parsed.chooses_packages());
        assert_eq!(parse("--doc").doc, Doc::Only);
        assert_eq!(parse("-p cvc").doc, Doc::Too);
        assert_eq!(parse("--test=cloud").doc, Doc::No);
    }

    #[test]
    fn test_options_follow_two_dashes() {
        let parsed = parse("-- a --exact --skip b --include-ignored --nocapture --test-threads=3");
        assert_eq!(parsed.filters, ["a", "--exact", "--skip", "b"]);
        assert_eq!(
            (parsed.ignored, parsed.show_output, parsed.threads),
            (Ignored::Include, true, Some(3))
        );
        let wrong = |text: &str| {
            Arguments::parse(
                &text
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            )
        };
        assert!(
            wrong("-- --test-threads 0").is_err()
                && wrong("-- --bench").is_err()
                && wrong("-p").is_err()
        );
    }
}
