//! The structural rules determine the kind of a region from its name, flags and neighbours.

use super::{
    area::PROT_WRITE,
    header::Header,
    model::Region,
    zone_rules::{is_path, is_shared_memory},
    zones::Sub,
};

/// Size and alignment of the pieces of malloc's arenas, bytes.
const ARENA: u64 = 64 << 20;
/// Default size of a thread's stack, bytes.
const THREAD_STACK: u64 = 8 << 20;
/// Maximum size of anonymous memory after a library that counts as the library's static data, bytes.
const MAX_LIB_BSS: u64 = 1 << 20;

/// A region as it was in the process: all lines of the listing into which layouts A and B split it.
struct Whole {
    lines: std::ops::Range<usize>,
    start: u64,
    end: u64,
}

/// Sets `zone` and `sub` of every region. The first matching rule decides.
pub(super) fn classify(regions: &mut [Region], header: &Header) {
    let wholes = wholes(regions);
    let exe = match header {
        Header::V4(header) => header.proc_self_exe.clone(),
        Header::V2(_) => regions
            .first()
            .map(|first| first.name.clone())
            .unwrap_or_default(),
    };
    let (end_of_stack, brk) = (header.end_of_stack(), header.saved_brk());
    let mut exe_end = None;
    let mut heap_end = None;
    let mut previous: Option<(&Whole, Sub, u32)> = None;
    for (i, whole) in wholes.iter().enumerate() {
        let region = &regions[whole.lines.start];
        let name = region.name.as_bytes();
        let behind =
            |sub: Sub| previous.is_some_and(|(p, p_sub, _)| p_sub == sub && p.end == whole.start);
        let sub = if !name.is_empty() && *name == *exe.as_bytes() {
            Sub::Exe
        } else if name == b"[heap]" {
            Sub::Heap
        } else if name.starts_with(b"[stack")
            || end_of_stack.is_some_and(|end| whole.start < end && end <= whole.end)
        {
            Sub::Stack
        } else if is_shared_memory(region) {
            Sub::Shared
        } else if is_path(region) {
            Sub::File
        } else if !name.is_empty() {
            Sub::Other
        } else if !region.is_accessible() {
            if heap_end == Some(whole.start) || behind(Sub::Arena) {
                Sub::Reserve
            } else {
                Sub::NoAccess
            }
        } else if exe_end == Some(whole.start) {
            Sub::Bss
        } else if exe_end.is_some_and(|end| end <= whole.start) && whole.start < brk {
            Sub::Heap
        } else if starts_arena(whole, wholes.get(i + 1), regions) {
            Sub::Arena
        } else if behind(Sub::File)
            && previous.is_some_and(|(_, _, prot)| prot & PROT_WRITE != 0)
            && whole.end - whole.start <= MAX_LIB_BSS
        {
            Sub::LibBss
        } else if behind(Sub::NoAccess) && whole.end - whole.start == THREAD_STACK {
            Sub::ThreadStack
        } else {
            Sub::Anon
        };
        if sub == Sub::Exe {
            exe_end = Some(whole.end);
        }
        if name == b"[heap]" {
            heap_end = Some(whole.end);
        }
        previous = Some((whole, sub, region.prot));
        for line in &mut regions[whole.lines.clone()] {
            line.sub = sub;
            line.zone = sub.zone();
        }
    }
}

/// Returns whether a region is the used part of a malloc arena: the unused rest, up to the full size, follows without access permissions.
fn starts_arena(whole: &Whole, next: Option<&Whole>, regions: &[Region]) -> bool {
    whole.start.is_multiple_of(ARENA)
        && next.is_some_and(|n| {
            let next_region = &regions[n.lines.start];
            next_region.name.is_empty()
                && !next_region.is_accessible()
                && n.start == whole.end
                && n.end - whole.start >= ARENA
        })
}

/// Joins adjacent runs that belong to the same region.
fn wholes(regions: &[Region]) -> Vec<Whole> {
    let mut wholes: Vec<Whole> = Vec::with_capacity(regions.len());
    for (i, region) in regions.iter().enumerate() {
        if let Some(last) = wholes.last_mut() {
            let before = &regions[i - 1];
            let same = before.region_end == region.region_end
                && before.prot == region.prot
                && before.flags == region.flags;
            if same
                && before.end == region.start
                && before.end < before.region_end
                && before.name == region.name
            {
                last.lines.end = i + 1;
                last.end = region.end;
                continue;
            }
        }
        wholes.push(Whole {
            lines: i..i + 1,
            start: region.start,
            end: region.end,
        });
    }
    wholes
}
