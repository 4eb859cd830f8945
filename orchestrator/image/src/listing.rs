//! Writes the same listing as DMTCP's own tool (`mtcp_restart --simulate`), byte for byte, without its first line.

use super::{
    area::{MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE},
    header::{Header, Range, V2Release},
    layout::Layout,
    model::{Image, Region},
};
use std::io::{self, Write};

/// Writes the listing of `image`.
///
/// # Errors
/// Writing to `out` fails.
pub fn write_listing(image: &Image, out: &mut dyn Write) -> io::Result<()> {
    write_header(&image.header, out)?;
    writeln!(out, "\n**** Listing ckpt image area:")?;
    let mut line = Vec::with_capacity(256);
    for region in &image.regions {
        line.clear();
        write_region(region, image.format.area_layout, &mut line)?;
        out.write_all(&line)?;
    }
    Ok(())
}

fn write_header(header: &Header, out: &mut dyn Write) -> io::Result<()> {
    // Release 2.4 wrote a dash between bounds.
    let (first_line, dots) = match header {
        Header::V4(header) => (format!("DMTCP: {}", header.signature), ".."),
        Header::V2(header) => (
            format!("MTCP: {}", header.signature),
            if header.release == V2Release::V2_4 {
                "-"
            } else {
                ".."
            },
        ),
    };
    let (restore_buf, entry, vdso, vvar, vvar_vclock) = match header {
        Header::V4(h) => (
            h.restore_buf,
            h.post_restart_addr,
            h.vdso,
            h.vvar,
            Some(h.vvar_vclock),
        ),
        Header::V2(h) => (
            h.restore_buf,
            h.post_restart_addr,
            h.vdso,
            h.vvar,
            h.vvar_vclock,
        ),
    };
    let range = |range: Range| format!("{:#x}{dots}{:#x}", range.start, range.end);
    // The signature includes its line end.
    write!(out, "\n{first_line}")?;
    writeln!(
        out,
        "**** mtcp_restart (will be copied here): {}",
        range(restore_buf)
    )?;
    writeln!(
        out,
        "**** DMTCP entry point (ThreadList::postRestart()): {entry:#x}"
    )?;
    writeln!(out, "**** brk (sbrk(0)): {:#x}", header.saved_brk())?;
    writeln!(out, "**** vdso: {}", range(vdso))?;
    writeln!(out, "**** vvar: {}", range(vvar))?;
    if let Some(vvar_vclock) = vvar_vclock {
        writeln!(out, "**** vvar_vclock: {}", range(vvar_vclock))?;
    }
    if let Some(end) = header.end_of_stack() {
        writeln!(out, "**** end of stack: {end:#x}")?;
    }
    Ok(())
}

fn write_region(region: &Region, layout: Layout, line: &mut Vec<u8>) -> io::Result<()> {
    let letter = |bit: u32, letter: char| if region.prot & bit != 0 { letter } else { '-' };
    let anonymous = region.flags & MAP_ANONYMOUS != 0;
    let sharing = match layout {
        _ if region.flags & MAP_SHARED != 0 => 's',
        Layout::A | Layout::B if anonymous => 'p',
        Layout::C if region.flags & MAP_PRIVATE != 0 => 'p',
        _ => '-',
    };
    let kind = match layout {
        Layout::A | Layout::B => "",
        Layout::C if anonymous => "Anon",
        Layout::C => "    ",
    };
    write!(
        line,
        "{:#x}-{:#x} {}{}{}{sharing} {kind}          ",
        region.start,
        region.end,
        letter(PROT_READ, 'r'),
        letter(PROT_WRITE, 'w'),
        letter(PROT_EXEC, 'x'),
    )?;
    line.extend_from_slice(region.name.as_bytes());
    line.push(b'\n');
    Ok(())
}
