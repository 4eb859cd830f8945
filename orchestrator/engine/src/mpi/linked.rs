//! Reads which MPI library a program is linked with, from the program's file, without starting it.
//!
//! Format: System V ABI, "Object Files" (ELF) and "Dynamic Linking" (`DT_NEEDED`).

use camino::Utf8Path;
use cvc_core::campaign::MpiFamily;
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

/// Maximum size of a program header table, dynamic section or name, bytes; actual ones are much smaller.
const MAX_TABLE: u64 = 1 << 20;
const MAX_NAME: u64 = 4096;
/// Maximum number of library names.
const MAX_NEEDED: usize = 1024;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

/// The MPI library that a program is linked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedMpi {
    /// The family of the library.
    pub family: MpiFamily,
    /// Name of the library that shows the family, for example `libmpi.so.40`.
    pub library: String,
}

/// Returns the MPI library that a program requires. `None` if the file is not an ELF program, cannot be read, or requires no MPI library directly.
pub fn linked_mpi(program: &Utf8Path) -> Option<LinkedMpi> {
    let mut file = File::open(program).ok()?;
    judge(&needed(&mut file).ok()?)
}

/// Returns the MPI family by the names of the required libraries.
fn judge(names: &[String]) -> Option<LinkedMpi> {
    let of = |family, is: fn(&str) -> bool| {
        let library = names.iter().find(|name| is(name))?.clone();
        Some(LinkedMpi { family, library })
    };
    // Open MPI 1.10 has a libmpi.so.12, and so does MPICH's common ABI: distinguish them by their other libraries
    of(MpiFamily::OpenMpi, |name| {
        let parts = [
            "libopen-rte",
            "libopen-pal",
            "libmpi_mpifh",
            "libmpi_usempi",
        ];
        name.starts_with("libmpi.so.20")
            || name.starts_with("libmpi.so.40")
            || parts.iter().any(|part| name.starts_with(part))
    })
    .or_else(|| {
        of(MpiFamily::Mpich, |name| {
            name.starts_with("libmpich") || name.starts_with("libmpi.so.12")
        })
    })
}

/// Number format of an ELF file: 32 or 64 bits, and byte order.
#[derive(Clone, Copy)]
struct Layout {
    is_64: bool,
    is_big: bool,
}

impl Layout {
    /// Reads an unsigned number of `length` bytes at an offset.
    fn number(self, bytes: &[u8], at: usize, length: usize) -> Option<u64> {
        let part = bytes.get(at..at.checked_add(length)?)?;
        let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.is_big {
            part.iter().fold(0, join)
        } else {
            part.iter().rev().fold(0, join)
        })
    }

    /// Returns the length of an address, bytes.
    fn word(self) -> usize {
        if self.is_64 { 8 } else { 4 }
    }
}

fn not_elf() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a dynamic program in ELF")
}

fn read_at(file: &mut (impl Read + Seek), at: u64, length: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the names of the libraries that a program requires.
///
/// # Errors
/// The file cannot be read, or is not a dynamically linked ELF program.
pub fn needed(file: &mut (impl Read + Seek)) -> io::Result<Vec<String>> {
    let head = read_at(file, 0, 64)?;
    let layout = match head.get(..6) {
        Some([0x7f, b'E', b'L', b'F', bits @ (1 | 2), order @ (1 | 2)]) => Layout {
            is_64: *bits == 2,
            is_big: *order == 2,
        },
        Some(_) | None => return Err(not_elf()),
    };
    // offsets of e_phoff, e_phentsize, e_phnum
    let (table_at, size_at, count_at) = if layout.is_64 {
        (32, 54, 56)
    } else {
        (28, 42, 44)
    };
    let field = |at, length| layout.number(&head, at, length).ok_or_else(not_elf);
    let (table_at, size, count) = (
        field(table_at, layout.word())?,
        field(size_at, 2)?,
        field(count_at, 2)?,
    );
    let table = read_at(file, table_at, (size * count).min(MAX_TABLE))?;
    // offsets of p_offset, p_vaddr, p_filesz in a program header
    let (offset_at, address_at, length_at) = if layout.is_64 {
        (8, 16, 32)
    } else {
        (4, 8, 16)
    };
    let (mut loaded, mut dynamic) = (Vec::new(), None);
    for header in table.chunks_exact(usize::try_from(size).unwrap_or(0).max(1)) {
        let field = |at| layout.number(header, at, layout.word());
        let (Some(kind), Some(offset), Some(address), Some(length)) = (
            layout.number(header, 0, 4),
            field(offset_at),
            field(address_at),
            field(length_at),
        ) else {
            return Err(not_elf());
        };
        match kind {
            PT_LOAD => loaded.push((address, length, offset)),
            PT_DYNAMIC => dynamic = Some((offset, length)),
            _ => {}
        }
    }
    let (at, length) = dynamic.ok_or_else(not_elf)?;
    let section = read_at(file, at, length.min(MAX_TABLE))?;
    let word = layout.word();
    let entries: Vec<(u64, u64)> = section
        .chunks_exact(2 * word)
        .map_while(|entry| {
            Some((
                layout.number(entry, 0, word)?,
                layout.number(entry, word, word)?,
            ))
        })
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let strings = entries.iter().find(|(tag, _)| *tag == DT_STRTAB);
    let (_, strings) = strings.ok_or_else(not_elf)?;
    // the dynamic section contains the table's address in memory, not its offset in the file
    let strings = loaded
        .iter()
        .find(|(address, length, _)| (*address..address.saturating_add(*length)).contains(strings))
        .and_then(|(address, _, offset)| offset.checked_add(strings - address))
        .ok_or_else(not_elf)?;
    let mut names = Vec::new();
    let wanted = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    for (_, at) in wanted.take(MAX_NEEDED) {
        let at = strings.checked_add(*at).ok_or_else(not_elf)?;
        let bytes = read_at(file, at, MAX_NAME)?;
        let end = bytes.iter().position(|b| *b == 0).ok_or_else(not_elf)?;
        names.push(String::from_utf8_lossy(&bytes[..end]).into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{judge, needed};
    use cvc_core::campaign::MpiFamily;
    use std::io::Cursor;

    #[test]
    fn families_are_detected_by_the_names_of_libraries() {
        let family = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            judge(&names).map(|linked| linked.family)
        };
        for (names, wanted) in [
            (&["libmpi.so.40", "libc.so.6"][..], Some(MpiFamily::OpenMpi)),
            (
                &["libmpi.so.12", "libopen-rte.so.12"],
                Some(MpiFamily::OpenMpi),
            ),
            (&["libmpi.so.12", "libc.so.6"], Some(MpiFamily::Mpich)),
            (
                &["libmpichfort.so.12", "libmpich.so.12"],
                Some(MpiFamily::Mpich),
            ),
            (&["libc.so.6"], None),
        ] {
            assert_eq!(family(names), wanted, "{names:?}");
        }
    }

    #[test]
    fn this_program_asks_for_the_c_library() {
        let own = std::fs::read(std::env::current_exe().expect("a path")).expect("reads");
        let names = needed(&mut Cursor::new(&own)).expect("ELF");
        assert!(names.iter().any(|n| n.starts_with("libc.")), "{names:?}");
    }

    #[test]
    fn truncated_or_damaged_files_are_refused_or_read_and_never_harm() {
        let own = std::fs::read(std::env::current_exe().expect("a path")).expect("reads");
        for length in [0, 5, 6, 63, 64, 100, 1000, 4096] {
            assert!(
                needed(&mut Cursor::new(&own[..length])).is_err(),
                "{length}"
            );
        }
        // every byte of the header and of the table of program headers
        let mut head = own[..own.len().min(1 << 16)].to_vec();
        for at in 4..900 {
            for value in [0, 1, 0x7f, 0xff] {
                let before = std::mem::replace(&mut head[at], value);
                let _ = needed(&mut Cursor::new(&head));
                head[at] = before;
            }
        }
    }
}
