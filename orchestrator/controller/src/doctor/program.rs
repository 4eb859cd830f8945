//! Checks that this machine has the program that cvc copies to the nodes of a site.

use super::check::{CheckState, DoctorCheck};
use camino::Utf8Path;
use std::{fs::File, io::Read};

/// Length of the part of an ELF header up to the field that names the machine, bytes.
const HEADER: usize = 20;

/// Returns the architecture of an ELF program, in the words of clouds; `None` if the file is not ELF, or the architecture is unknown.
fn architecture(header: &[u8]) -> Option<&'static str> {
    let machine = header
        .strip_prefix(b"\x7fELF")
        .and_then(|_| Some(u16::from_le_bytes([*header.get(18)?, *header.get(19)?])))?;
    match machine {
        0x3e => Some("x86_64"),
        0xb7 => Some("arm64"),
        _ => None,
    }
}

/// Checks that `cvc-node` exists, and that it runs on the nodes' architecture. `needed` has pairs of a node and its architecture, for nodes whose
/// architecture is known.
pub(super) fn examine<'a>(
    program: &Utf8Path,
    needed: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> DoctorCheck {
    let what = "cvc-node";
    let mut header = [0; HEADER];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut header));
    if let Err(error) = read {
        let directory = program.parent().unwrap_or(program);
        return DoctorCheck::new(
            what,
            CheckState::Bad,
            format!("{program}, which cvc puts on the nodes, cannot be read: {error}"),
            format!(
                "build it with `cargo xtask node --release` in the clone of cvc's repository, and copy it to {directory} or name it in CVC_NODE_PROGRAM"
            ),
        );
    }
    let Some(found) = architecture(&header) else {
        return DoctorCheck::new(
            what,
            CheckState::Bad,
            format!("{program} is not a program for Linux on x86_64 or arm64"),
            "build it with `cargo xtask node --release`, or name another one in CVC_NODE_PROGRAM",
        );
    };
    let other: Vec<&str> = needed
        .into_iter()
        .filter(|(_, architecture)| *architecture != found)
        .map(|(of, _)| of)
        .collect();
    if other.is_empty() {
        return DoctorCheck::good(what, format!("{program}, for {found}"));
    }
    DoctorCheck::new(
        what,
        CheckState::Bad,
        format!("{program} is for {found}, but not for {}", other.join(", ")),
        "build cvc-node on a machine of the nodes' architecture, and name it in CVC_NODE_PROGRAM",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(dir: &tempfile::TempDir, machine: u8) -> camino::Utf8PathBuf {
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("cvc-node")).expect("UTF-8");
        let mut header = b"\x7fELF".to_vec();
        header.resize(18, 0);
        header.extend([machine, 0]);
        fs::write(&path, header).expect("written");
        path
    }

    #[test]
    fn a_program_that_is_not_there_or_for_another_architecture_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = file(&dir, 0x3e);
        let of = |path: &Utf8Path, needed: &[(&str, &str)]| {
            let check = examine(path, needed.iter().copied());
            (check.state, check.found)
        };
        let (state, found) = of(&path, &[("c7i.large", "x86_64")]);
        assert_eq!(state, CheckState::Good);
        assert!(found.ends_with("for x86_64"), "{found}");
        let (state, found) = of(&path, &[("c7i.large", "x86_64"), ("c7g.large", "arm64")]);
        assert_eq!(state, CheckState::Bad);
        assert!(found.contains("but not for c7g.large"), "{found}");
        assert_eq!(
            of(&file(&dir, 0xb7), &[("c7g.large", "arm64")]).0,
            CheckState::Good
        );
        fs::write(&path, "#!/bin/sh\nexit 0 # a script\n").expect("written");
        assert_eq!(of(&path, &[]).0, CheckState::Bad);
        let (state, found) = of(Utf8Path::new("/nonexistent/cvc-node"), &[]);
        assert_eq!(state, CheckState::Bad);
        assert!(found.contains("cannot be read"), "{found}");
    }
}
