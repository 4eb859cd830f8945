//! The owner rules classify a region by the owner of its memory: DTAPP belongs to the program, LB to libraries, and SHMEM is memory shared between
//! processes. Stacks and reserves are separate.

use super::{
    PAGE,
    area::MAP_SHARED,
    baseline::{Baseline, MpiFlavour, Writer},
    header::{Header, V2Release},
    model::Region,
    owner_sums::{OwnerSums, Part},
    zones::Sub,
};

/// Paths that usually denote shared memory. A private mapping of such a path belongs to the process.
const PRIVATE_IF_NOT_SHARED: [&[u8]; 4] = [
    b"/dev/zero",
    b"/dev/hugepages",
    b"/memfd:",
    b"/anon_hugepage",
];
/// Sets `part` of every region. The structural rules must have been applied before. A region does not show who owns private anonymous memory: here it
/// counts as allocated by the program, and [`sum`] later moves the libraries' share, the baseline, to the libraries.
pub(super) fn classify(regions: &mut [Region]) {
    for region in regions {
        region.part = part(region);
    }
}

fn part(region: &Region) -> Part {
    let name = region.name.as_bytes();
    // DMTCP removes the name `/dev/zero (deleted)` or `/SYSV...` and the shared flag, but keeps device and inode
    if name.is_empty() && region.had_file && region.is_accessible() {
        return Part::Shared;
    }
    if region.flags & MAP_SHARED == 0
        && PRIVATE_IF_NOT_SHARED
            .iter()
            .any(|path| name.starts_with(path))
    {
        return Part::Allocated;
    }
    match region.sub {
        Sub::Exe | Sub::Bss => Part::Static,
        Sub::Heap => Part::Heap,
        Sub::File => Part::Files,
        Sub::Stack | Sub::ThreadStack => Part::Stacks,
        Sub::Shared => Part::Shared,
        Sub::Reserve | Sub::NoAccess => Part::Reserves,
        Sub::LibBss => Part::LibraryMemory,
        Sub::Arena | Sub::Anon => Part::Allocated,
        Sub::Other => named(name),
    }
}

/// Returns the part of a region whose name is in brackets: memory that a process named (`[anon: glibc: malloc]`), or memory of the kernel.
fn named(name: &[u8]) -> Part {
    let Some(rest) = name.strip_prefix(b"[anon") else {
        return Part::Reserves;
    };
    let has = |word: &[u8]| rest.windows(word.len()).any(|window| window == word);
    if has(b"stack") {
        Part::Stacks
    } else if has(b"loader") {
        Part::LibraryMemory
    } else {
        Part::Allocated
    }
}

/// Returns the sums over classified regions. Private anonymous memory of the size of the baseline counts as that of libraries; without a baseline,
/// all of it counts as that of the program.
pub(super) fn sum(regions: &[Region], baseline: Option<&Baseline>) -> OwnerSums {
    let mut sums = OwnerSums::default();
    for region in regions {
        let (range, part) = (region.virtual_bytes(), region.part);
        sums.r#virtual.add(part, range);
        if region.is_accessible() {
            sums.accessible.add(part, range);
        }
        sums.stored.add(part, region.stored);
        sums.stored_with_headers
            .add(part, region.stored + region.headers * PAGE as u64);
    }
    if let Some(baseline) = baseline {
        sums.r#virtual.give_to_libraries(baseline.accessible_bytes);
        sums.accessible.give_to_libraries(baseline.accessible_bytes);
        sums.stored.give_to_libraries(baseline.stored_bytes);
        sums.stored_with_headers
            .give_to_libraries(baseline.stored_bytes + baseline.headers * PAGE as u64);
    }
    sums
}

/// Returns the baseline (private anonymous memory of libraries) for an image, if there is one.
pub(super) fn baseline(regions: &[Region], header: &Header) -> Option<Baseline> {
    let (writer, peers) = match header {
        Header::V4(header) => (Writer::V4, Some(header.num_peers)),
        Header::V2(header) => match header.release {
            V2Release::V3_0 | V2Release::V3_2 => (Writer::V3, None),
            V2Release::V2_4 | V2Release::V2_6 => return None,
        },
    };
    let flavour = flavour(regions);
    Some(Baseline::carried(
        writer,
        flavour,
        peers.map(|peers| flavour.processes(peers)),
    ))
}

/// Detects the MPI library from the mapped files.
pub(super) fn flavour(regions: &[Region]) -> MpiFlavour {
    let maps = |prefix: &str| {
        regions.iter().any(|region| {
            let name = region.name.as_bytes();
            let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
            file.starts_with(prefix.as_bytes()) && name.starts_with(b"/")
        })
    };
    if maps("libopen-pal.so") || maps("libmpi.so.40") {
        MpiFlavour::OpenMpi
    } else if maps("libmpich.so") || maps("libmpi.so.12") {
        if maps("libfabric.so") {
            MpiFlavour::MpichCh4Ofi
        } else if maps("libucp.so") {
            MpiFlavour::MpichCh4Ucx
        } else {
            MpiFlavour::MpichCh3
        }
    } else {
        MpiFlavour::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{name::Name, owner_sums::OwnerBytes, zones::Zone};

    const MIB: u64 = 1 << 20;
    const INITIAL_HEAP: u64 = 132 << 10;

    fn region(name: &str, flags: u32, had_file: bool, sub: Sub, stored: u64) -> Region {
        Region {
            start: 0x1000,
            end: 0x1000 + stored,
            prot: 3,
            flags,
            name: Name::from_field(name.as_bytes()),
            stored,
            headers: 1,
            zone: Zone::Shmem,
            sub,
            literal: Zone::Shmem,
            part: Part::Reserves,
            had_file,
            region_end: 0x1000 + stored,
        }
    }

    fn baseline(stored_bytes: u64) -> Baseline {
        Baseline {
            stored_bytes,
            accessible_bytes: stored_bytes,
            headers: 0,
            ..Baseline::default()
        }
    }

    #[test]
    fn memory_belongs_to_the_program_unless_it_is_shared_or_of_a_library() {
        let of = |name: &str, flags, had_file, sub| part(&region(name, flags, had_file, sub, MIB));
        assert_eq!(
            of("", 0x22, true, Sub::Anon),
            Part::Shared,
            "/dev/zero (deleted) as DMTCP leaves it"
        );
        assert_eq!(
            of("", 0x22, true, Sub::LibBss),
            Part::Shared,
            "right behind a library"
        );
        assert_eq!(of("", 0x32, false, Sub::Anon), Part::Allocated);
        assert_eq!(of("", 0x32, false, Sub::Arena), Part::Allocated);
        assert_eq!(
            of("/dev/zero", 0x12, true, Sub::Shared),
            Part::Allocated,
            "MAP_PRIVATE of /dev/zero"
        );
        assert_eq!(
            of("/dev/zero (deleted)", 0x11, true, Sub::Shared),
            Part::Shared
        );
        assert_eq!(
            of("/anon_hugepage (deleted)", 0x12, true, Sub::File),
            Part::Allocated,
            "MAP_HUGETLB"
        );
        assert_eq!(
            of("/anon_hugepage (deleted)", 0x11, true, Sub::Shared),
            Part::Shared
        );
        assert_eq!(
            of("/dev/hugepages/x", 0x12, true, Sub::Shared),
            Part::Allocated
        );
        assert_eq!(
            of("/dev/shm/mpich_shar_tmp (deleted)", 0x11, true, Sub::Shared),
            Part::Shared
        );
        assert_eq!(
            of("/SYSV00000000 (deleted)", 0x01, true, Sub::Shared),
            Part::Shared
        );
        assert_eq!(
            of("[anon: glibc: malloc]", 0x22, false, Sub::Other),
            Part::Allocated
        );
        assert_eq!(
            of("[anon: glibc: pthread stack: 7]", 0x22, false, Sub::Other),
            Part::Stacks
        );
        assert_eq!(
            of("[anon: glibc: loader malloc]", 0x22, false, Sub::Other),
            Part::LibraryMemory
        );
        assert_eq!(of("/usr/lib/libm.so.6", 0x12, true, Sub::File), Part::Files);
        assert_eq!(of("", 0x32, false, Sub::LibBss), Part::LibraryMemory);
    }

    #[test]
    fn the_baseline_divides_private_anonymous_memory() {
        let regions = [
            region("", 0x32, false, Sub::Anon, 60 * MIB),
            region("", 0x32, false, Sub::LibBss, MIB),
            region("[heap]", 0x32, false, Sub::Heap, INITIAL_HEAP),
        ];
        let mut classified = regions;
        classify(&mut classified);
        let parts = |baseline: Option<&Baseline>| {
            let stored = sum(&classified, baseline).stored;
            assert_eq!(
                stored.sum(),
                61 * MIB + INITIAL_HEAP,
                "what one gets another loses"
            );
            [Part::Allocated, Part::LibraryMemory, Part::Heap].map(|part| stored.get(part))
        };
        assert_eq!(parts(None), [60 * MIB, MIB, INITIAL_HEAP]);
        assert_eq!(
            parts(Some(&baseline(5 * MIB))),
            [56 * MIB, 5 * MIB, INITIAL_HEAP],
            "a library's static data are part of it"
        );
        assert_eq!(
            parts(Some(&baseline(MIB / 2))),
            [60 * MIB, MIB, INITIAL_HEAP],
            "but never less than are known"
        );
        assert_eq!(
            parts(Some(&baseline(90 * MIB))),
            [0, 61 * MIB, INITIAL_HEAP],
            "never more than there is"
        );
    }

    #[test]
    fn what_no_process_may_touch_is_reserved_and_not_accessible() {
        let mut regions = [
            Region {
                prot: 0,
                ..region("", 0x22, true, Sub::NoAccess, MIB)
            },
            region("", 0x22, true, Sub::Anon, 2 * MIB),
        ];
        classify(&mut regions);
        let sums = sum(&regions, None);
        let of = |bytes: &OwnerBytes| [Part::Reserves, Part::Shared].map(|part| bytes.get(part));
        assert_eq!(of(&sums.r#virtual), [MIB, 2 * MIB]);
        assert_eq!(of(&sums.accessible), [0, 2 * MIB]);
    }

    #[test]
    fn headers_of_what_libraries_allocate_are_theirs_too() {
        let mut regions = [region("", 0x32, false, Sub::Anon, 60 * MIB)];
        classify(&mut regions);
        let baseline = Baseline {
            headers: 3,
            ..baseline(5 * MIB)
        };
        let sums = sum(&regions, Some(&baseline));
        let page = PAGE as u64;
        assert_eq!(sums.stored.get(Part::LibraryMemory), 5 * MIB);
        assert_eq!(
            [Part::Allocated, Part::LibraryMemory].map(|part| sums.stored_with_headers.get(part)),
            [55 * MIB + page - 3 * page, 5 * MIB + 3 * page]
        );
    }

    #[test]
    fn where_the_heap_grows_the_libraries_part_of_it_is_theirs() {
        let mut regions = [
            region("[heap]", 0x32, false, Sub::Heap, 20 * MIB),
            region("", 0x32, false, Sub::Anon, MIB),
        ];
        classify(&mut regions);
        let stored = sum(&regions, Some(&baseline(5 * MIB))).stored;
        assert_eq!(
            [Part::Heap, Part::Allocated, Part::LibraryMemory].map(|part| stored.get(part)),
            [16 * MIB, 0, 5 * MIB]
        );
    }
}
