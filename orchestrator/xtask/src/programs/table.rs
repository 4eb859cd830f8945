//! The table of packages, packages.txt, which the set-up reads too.

use std::collections::BTreeMap;

/// Path of the table in the repository.
pub const PATH: &str = "orchestrator/xtask/packages.txt";

/// The declared programs, each with the kind of its package.
pub struct Table {
    programs: BTreeMap<String, String>,
}

/// Kinds of packages; packages.txt explains them.
const WHEN: &[&str] = &["base", "build", "tests", "nodes", "optional", "ours"];

impl Table {
    /// Parses the table.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut programs = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(when) = words.next() else { continue };
            let complaint = |what: &str| format!("{PATH}:{}: {what}", number + 1);
            if !WHEN.contains(&when) {
                return Err(complaint(&format!("unknown kind `{when}`; known: {}", WHEN.join(", "))));
            }
            words.next().ok_or_else(|| complaint("no package"))?;
            let mut uses = words.filter(|w| !w.starts_with("unit=")).peekable();
            if uses.peek().is_none() {
                return Err(complaint("no program or file that the package is needed for"));
            }
            for program in uses.flat_map(|w| w.split('|')) {
                programs.entry(program.rsplit('/').next().unwrap_or(program).to_owned()).or_insert_with(|| when.to_owned());
            }
        }
        Ok(Self { programs })
    }

    /// Tells whether a program is declared.
    pub fn declares(&self, program: &str) -> bool {
        self.programs.contains_key(program)
    }

    /// Returns the declared programs with their kinds.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.programs.iter().map(|(program, when)| (program.as_str(), when.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_alternatives_and_files_are_declared() {
        let table =
            Table::parse("# a comment\n\ntests openssh-server /usr/sbin/sshd unit=ssh # here\nbuild mpich mpiexec.mpich|mpiexec.hydra\n")
                .expect("a table");
        for program in ["sshd", "mpiexec.mpich", "mpiexec.hydra"] {
            assert!(table.declares(program), "{program}");
        }
        assert!(!table.declares("unit=ssh") && !table.declares("openssh-server") && !table.declares("a"));
    }

    #[test]
    fn an_invalid_line_is_reported() {
        for (text, problem) in [("tests", "no package"), ("\ntests gcc", "needed for"), ("test gcc cc", "unknown kind `test`")] {
            let complaint = Table::parse(text).err().expect("a complaint");
            assert!(complaint.starts_with(PATH) && complaint.contains(problem), "{complaint}");
        }
    }
}
