//! The two tiers of the suite: the tests that only `./test --all` runs, listed in `slow-tests.txt`, and the time budgets of packages.

use std::collections::BTreeMap;

const LIST: &str = include_str!("../../slow-tests.txt");

/// The families of slow tests, and the budgets of packages.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tiers {
    families: BTreeMap<String, Family>,
    budgets_s: BTreeMap<String, u64>,
}

/// Slow tests with the same reason.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    prefixes: Vec<String>,
    kept: Vec<String>,
}

impl Tiers {
    /// Parses the list `slow-tests.txt`, which is compiled into this program.
    pub fn read() -> Result<Self, String> {
        Self::parse(LIST)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut tiers = Self::default();
        for line in text.lines().map(str::trim) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["budget", package, seconds] => {
                    let seconds = seconds
                        .parse()
                        .map_err(|_| format!("slow-tests.txt: `{line}`: no number of seconds"))?;
                    tiers.budgets_s.insert(package.to_owned(), seconds);
                }
                ["keep", family, package, name] => tiers
                    .families
                    .entry(family.to_owned())
                    .or_default()
                    .kept
                    .push(format!("{package} {name}")),
                [family, package, prefix] => tiers
                    .families
                    .entry(family.to_owned())
                    .or_default()
                    .prefixes
                    .push(format!("{package} {prefix}")),
                _ => {
                    return Err(format!(
                        "slow-tests.txt: `{line}`: expected a family, a package and a prefix"
                    ));
                }
            }
        }
        match tiers.families.iter().find(|(_, f)| f.kept.is_empty()) {
            Some((name, _)) => Err(format!(
                "slow-tests.txt: `{name}` keeps no test; hint: add `keep {name} PACKAGE NAME`"
            )),
            None => Ok(tiers),
        }
    }

    /// Returns the family of a test that runs only with `--all`; `None` for other tests.
    pub fn family_left_out(&self, test: &str) -> Option<&str> {
        self.families
            .iter()
            .find(|(_, family)| {
                family.prefixes.iter().any(|p| test.starts_with(p))
                    && !family.kept.iter().any(|kept| kept == test)
            })
            .map(|(name, _)| name.as_str())
    }

    /// Returns the entries of the list that match no test, because tests were renamed or removed.
    pub fn stale<'a>(&'a self, tests: &[String]) -> Vec<&'a str> {
        let families = self.families.values();
        families
            .flat_map(|family| {
                let kept = family.kept.iter().filter(|k| !tests.contains(k));
                let prefixes = family.prefixes.iter();
                kept.chain(prefixes.filter(|p| !tests.iter().any(|t| t.starts_with(*p))))
            })
            .map(String::as_str)
            .collect()
    }

    /// Returns the time limit for all tests of a package together, seconds.
    pub fn budget_s(&self, package: &str) -> Option<u64> {
        self.budgets_s.get(package).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_left_out_but_for_the_tests_that_they_keep() {
        let tiers =
            Tiers::parse("# why\n\nssh cvc::it ssh\nkeep ssh cvc::it ssh::one\nbudget cvc 90\n")
                .expect("tiers");
        assert_eq!(tiers.family_left_out("cvc::it ssh_keys::two"), Some("ssh"));
        for runs in ["cvc::it ssh::one", "cvc::it other::ssh", "cvc ssh::unit"] {
            assert_eq!(tiers.family_left_out(runs), None, "{runs}");
        }
        let tests = ["cvc::it ssh::two".to_owned()];
        assert_eq!(tiers.stale(&tests), ["cvc::it ssh::one"]);
        assert_eq!(
            (tiers.budget_s("cvc"), tiers.budget_s("other")),
            (Some(90), None)
        );
    }

    #[test]
    fn a_family_without_a_kept_test_and_lines_of_another_shape_are_refused() {
        for wrong in ["ssh cvc::it ssh", "ssh cvc::it", "budget cvc much"] {
            let problem = Tiers::parse(wrong).expect_err(wrong);
            assert!(problem.starts_with("slow-tests.txt: "), "{problem}");
        }
        Tiers::read().expect("the list of this repository");
    }
}
