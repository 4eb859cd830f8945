//! What a site of several machines needs of this machine before anything else: the program that is put on its nodes.

use super::check::{Check, State};
use camino::Utf8Path;
use std::{fs::File, io::Read};

/// Length of the part of an ELF header that names the machine.
const HEADER: usize = 20;

/// The architecture that an ELF program is for, as clouds write it.
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

/// Checks that `cvc-node` is there, and for the architectures that nodes are known to have, each with what has it.
pub(super) fn examine<'a>(
    program: &Utf8Path,
    needed: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Check {
    let what = "cvc-node";
    let mut header = [0; HEADER];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut header));
    if let Err(error) = read {
        let beside = program.parent().unwrap_or(program);
        return Check::new(
            what,
            State::Bad,
            format!("{program}, which cvc puts on the nodes, cannot be read: {error}"),
            format!(
                "build it with `cargo xtask node --release` in the clone of cvc's repository, and copy it to {beside} or name it in CVC_NODE_PROGRAM"
            ),
        );
    }
    let Some(found) = architecture(&header) else {
        return Check::new(
            what,
            State::Bad,
            format!("{program} is no program for Linux on x86_64 or arm64"),
            "build it with `cargo xtask node --release`, or name another one in CVC_NODE_PROGRAM",
        );
    };
    let other: Vec<&str> = needed
        .into_iter()
        .filter(|(_, architecture)| *architecture != found)
        .map(|(of, _)| of)
        .collect();
    if other.is_empty() {
        return Check::good(what, format!("{program}, for {found}"));
    }
    Check::new(
        what,
        State::Bad,
        format!(
            "{program} is for {found}, which {} is not",
            other.join(", ")
        ),
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
        assert_eq!(state, State::Good);
        assert!(found.ends_with("for x86_64"), "{found}");
        let (state, found) = of(&path, &[("c7i.large", "x86_64"), ("c7g.large", "arm64")]);
        assert_eq!(state, State::Bad);
        assert!(found.contains("which c7g.large is not"), "{found}");
        assert_eq!(
            of(&file(&dir, 0xb7), &[("c7g.large", "arm64")]).0,
            State::Good
        );
        fs::write(&path, "#!/bin/sh\nexit 0 # a script\n").expect("written");
        assert_eq!(of(&path, &[]).0, State::Bad);
        let (state, found) = of(Utf8Path::new("/nonexistent/cvc-node"), &[]);
        assert_eq!(state, State::Bad);
        assert!(found.contains("cannot be read"), "{found}");
    }
}
