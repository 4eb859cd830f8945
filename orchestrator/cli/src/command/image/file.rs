//! Output for one image: its header, zones, and sub-zones.

use super::zones::{RuleTitle, by_owner, by_rules, mib};
use crate::args::image::RuleSet;
use cvc_core::units::counted;
use cvc_image::{Baseline, Family, Header, Image, V2Release};
use cvc_show::{Blocks, Table};

pub fn show(out: &mut Blocks, image: &Image, rules: RuleSet) {
    out.line(image.path.display().to_string());
    out.pairs(facts(image));
    let fixed = image.fixed_overhead_bytes;
    if rules.has_owner() {
        out.heading("zones by owner, MiB");
        out.table(by_owner(&image.zones.owner, fixed));
        out.gap();
        divided(out, image.baseline.as_ref());
        return;
    }
    let differing: Vec<_> = image
        .regions
        .iter()
        .filter(|region| region.zone != region.literal)
        .collect();
    if rules == RuleSet::Both && differing.is_empty() {
        out.heading(
            "zones by the literal and the structural rules, which agree on every region, MiB",
        );
        out.table(by_rules(&image.zones.literal, fixed));
    } else {
        for title in RuleTitle::of(rules) {
            out.heading(format!("zones {}, MiB", title.by()));
            out.table(match title {
                RuleTitle::Structural => by_rules(&image.zones.structural, fixed),
                RuleTitle::Literal | RuleTitle::Owner => by_rules(&image.zones.literal, fixed),
            });
        }
    }
    if let (RuleSet::Both, Some(first)) = (rules, differing.first()) {
        let name = match first.name.is_empty() {
            true => "(no name)".to_owned(),
            false => first.name.to_string(),
        };
        out.heading(format!(
            "the rule sets differ on {} region(s), {} MiB of data; the first is {:#x} {name}: {} by the literal rules, {}/{} by the structural",
            differing.len(),
            mib(differing.iter().map(|region| region.stored).sum()),
            first.start,
            first.literal.as_str(),
            first.zone.as_str(),
            first.sub.as_str(),
        ));
    }
    if rules.has_structural() {
        sub_zones(out, image);
    }
}

fn sub_zones(out: &mut Blocks, image: &Image) {
    out.heading("sub-zones (structural), MiB");
    let header = ["sub-zone", "regions", "headers", "virtual", "stored"];
    let mut rows = Table::plain(header).right_from(1);
    let mut subs = image.sub_zones.clone();
    subs.sort_by_key(|sum| (sum.zone, sum.sub));
    for sum in subs {
        rows.row([
            format!("{}/{}", sum.zone.as_str(), sum.sub.as_str()),
            sum.n.to_string(),
            sum.headers.to_string(),
            mib(sum.r#virtual),
            mib(sum.stored),
        ]);
    }
    out.table(rows);
}

/// Returns facts from the header, and the size of the image.
fn facts(image: &Image) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Header::V4(header) = &image.header {
        let program = format!("{} ({})", header.procname, header.proc_self_exe);
        let process = format!("virtual pid {}, {} peers", header.pid, header.num_peers);
        facts.extend([("program", program), ("process", process)]);
    }
    let written_by = match (image.format.family, &image.header) {
        (Family::V4, _) => "DMTCP 4.x".to_owned(),
        (Family::V2, Header::V2(header)) => format!("DMTCP {}", release(header.release)),
        (Family::V2, Header::V4(_)) => String::new(),
    };
    let layout = image.format.area_layout;
    facts.push(("format", format!("{written_by}, area layout {layout:?}")));
    let plain = mib(image.uncompressed_bytes);
    let size = match image.gzip {
        true => format!("{plain} MiB, gzip'd to {} MiB", mib(image.file_bytes)),
        false => format!("{plain} MiB, plain"),
    };
    let holds = format!(
        "{} regions, {} area headers, {} MiB of data",
        image.regions.len(),
        image.area_headers,
        mib(image.data_bytes)
    );
    facts.extend([("size", size), ("holds", holds)]);
    facts
}

fn release(release: V2Release) -> &'static str {
    match release {
        V2Release::V2_4 => "2.1 to 2.4",
        V2Release::V2_6 => "2.5 or 2.6",
        V2Release::V3_0 => "3.0",
        V2Release::V3_2 => "3.2",
    }
}

/// Describes how private anonymous memory was divided.
fn divided(out: &mut Blocks, baseline: Option<&Baseline>) {
    let Some(baseline) = baseline else {
        return out.line("allocated includes allocations of libraries: no baseline for this DMTCP");
    };
    let of = match baseline.processes {
        Some(processes) => counted(processes, "process"),
        None => "1 process (the image does not show how many)".to_owned(),
    };
    out.say(format!(
        "library-memory of a small program, {}, {of}: {} MiB [{}, {}] stored",
        baseline.library.title(),
        mib(baseline.stored_bytes),
        mib(baseline.stored_low_bytes),
        mib(baseline.stored_high_bytes),
    ));
    out.say(format!("({})", baseline.source));
}
