//! Formats what was read like `darshan-parser` and `darshan-dxt-parser`.

use cvc_trace::{
    DarshanCompression, DarshanCounters, DarshanHeader, DarshanHeatmap, DarshanJob, DarshanLog,
    DarshanLustre, DarshanLustreComponent, DarshanModule, DarshanRecordId, DarshanVisitor,
    DxtRecord, DxtSegment, Missing, Op, TraceError,
};
use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Cursor},
    path::Path,
};

/// The lines of both tools, without their explanations.
#[derive(Default)]
pub(super) struct Text {
    pub(super) head: Vec<String>,
    pub(super) counters: Vec<String>,
    pub(super) dxt: Vec<String>,
    pub(super) missing: Vec<Missing>,
    /// Sums of counters over all records.
    pub(super) sums: BTreeMap<(&'static str, bool), f64>,
    names: HashMap<u64, Vec<u8>>,
    pub(super) job: Option<DarshanJob>,
    versions: HashMap<DarshanModule, u32>,
    heatmap: Option<(DarshanHeatmap, [Vec<i64>; 2])>,
    lustre: Option<(DarshanLustre, Vec<DarshanLustreComponent>, Vec<i64>)>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Text, TraceError> {
    let mut text = Text::default();
    DarshanLog::from_source(Cursor::new(bytes), Path::new("log"))?.read(&mut text)?;
    text.flush();
    Ok(text)
}

/// Replaces each sequence of blanks by one blank.
pub(super) fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Text {
    fn place(&self, id: DarshanRecordId) -> [String; 3] {
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = self.names.get(&id.0);
        let mount = name
            .zip(self.job.as_ref())
            .and_then(|(name, job)| job.mount_of(name));
        let name = name.map_or("(null)".to_owned(), |name| show(name));
        mount.map_or_else(
            || [name.clone(), "UNKNOWN".to_owned(), "UNKNOWN".to_owned()],
            |mount| [name.clone(), show(&mount.path), show(&mount.fs_type)],
        )
    }

    fn line(
        &mut self,
        module: DarshanModule,
        rank: i64,
        id: DarshanRecordId,
        counter: &str,
        value: &str,
    ) {
        let [name, mount, fs_type] = self.place(id);
        let (module, id) = (module.name(), id.0);
        self.counters.push(format!(
            "{module}\t{rank}\t{id}\t{counter}\t{value}\t{name}\t{mount}\t{fs_type}"
        ));
    }

    /// Prints a record that is complete only when the next record begins.
    fn flush(&mut self) {
        if let Some((heatmap, bins)) = self.heatmap.take() {
            let line = |text: &mut Self, counter: &str, value: &str| {
                text.line(
                    DarshanModule::Heatmap,
                    heatmap.rank,
                    heatmap.id,
                    counter,
                    value,
                );
            };
            let width = format!("{:.6}", heatmap.bin_width_s);
            line(self, "HEATMAP_F_BIN_WIDTH_SECONDS", &width);
            for (bins, op) in bins.iter().zip(["READ", "WRITE"]) {
                for (index, bytes) in bins.iter().enumerate() {
                    line(
                        self,
                        &format!("HEATMAP_{op}_BIN_{index}"),
                        &bytes.to_string(),
                    );
                }
            }
        }
        if let Some((file, components, targets)) = self.lustre.take() {
            self.lustre_lines(file, &components, &targets);
        }
    }

    fn lustre_lines(
        &mut self,
        file: DarshanLustre,
        components: &[DarshanLustreComponent],
        targets: &[i64],
    ) {
        let mut line = |counter: &str, value: String| {
            self.line(DarshanModule::Lustre, file.rank, file.id, counter, &value);
        };
        let stripes: i64 = components.iter().map(|of| of.stripe_count).sum();
        line("LUSTRE_NUM_COMPONENTS", components.len().to_string());
        line("LUSTRE_NUM_STRIPES", stripes.to_string());
        let mut targets = targets.iter();
        for (number, of) in (1..).zip(components) {
            let pattern = match of.stripe_pattern {
                0 => "raid0",
                2 => "mdt",
                4 => "raid0,overstriped",
                8 => "foreign",
                _ => "N/A",
            };
            let flags = match of.flags {
                -1 => "N/A",
                0 => "0",
                1 => "stale",
                0x12 => "prefrd,init",
                other => panic!("flags {other}"),
            };
            let pool = String::from_utf8_lossy(&of.pool).into_owned();
            for (counter, value) in [
                ("STRIPE_SIZE", of.stripe_size.to_string()),
                ("STRIPE_COUNT", of.stripe_count.to_string()),
                ("STRIPE_PATTERN", pattern.to_owned()),
                ("FLAGS", flags.to_owned()),
                ("EXT_START", of.extent_start.to_string()),
                ("EXT_END", of.extent_end.to_string()),
                ("MIRROR_ID", of.mirror_id.to_string()),
                (
                    "POOL_NAME",
                    Some(pool)
                        .filter(|pool| !pool.is_empty())
                        .unwrap_or("N/A".to_owned()),
                ),
            ] {
                line(&format!("LUSTRE_COMP{number}_{counter}"), value);
            }
            for stripe in 0..of.stripe_count {
                // a truncated log has fewer
                if let Some(target) = targets.next() {
                    let counter = format!("LUSTRE_COMP{number}_OST_ID_{stripe}");
                    line(&counter, target.to_string());
                }
            }
        }
        assert_eq!(targets.next(), None);
    }
}

impl DarshanVisitor for Text {
    fn header(&mut self, header: &DarshanHeader) -> io::Result<()> {
        let compression = match header.compression {
            DarshanCompression::Zlib => "ZLIB",
            DarshanCompression::Bzip2 => "BZIP2",
            DarshanCompression::None => "NONE",
        };
        self.head
            .push(format!("# darshan log version: {}", header.version));
        self.head
            .push(format!("# compression method: {compression}"));
        for info in &header.modules {
            let (module, bytes, version) = (info.module.name(), info.bytes, info.version);
            self.head.push(format!(
                "# {module} module: {bytes} bytes (compressed), ver={version}"
            ));
            self.versions.insert(info.module, info.version);
        }
        Ok(())
    }

    fn job(&mut self, job: &DarshanJob) -> io::Result<()> {
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut lines = vec![
            format!("# exe: {}", show(&job.command)),
            format!("# uid: {}", job.uid),
            format!("# jobid: {}", job.job_id),
            format!("# start_time: {}", job.start.0),
            format!("# end_time: {}", job.end.map_or(0, |end| end.0)),
            format!("# nprocs: {}", job.ranks),
        ];
        lines.extend(
            job.run_time_s()
                .map(|time| format!("# run time: {time:.4}")),
        );
        for (key, value) in &job.metadata {
            lines.push(format!("# metadata: {} = {}", show(key), show(value)));
        }
        // before the modules, after version and compression
        self.head.splice(2..2, lines);
        for mount in &job.mounts {
            let (path, fs_type) = (show(&mount.path), show(&mount.fs_type));
            self.head.push(format!("# mount entry:\t{path}\t{fs_type}"));
        }
        self.job = Some(job.clone());
        Ok(())
    }

    fn name(&mut self, id: DarshanRecordId, name: &[u8]) -> io::Result<()> {
        let known = self.names.entry(id.0).or_default();
        if known.is_empty() {
            *known = name.to_vec();
        }
        Ok(())
    }

    fn counters(&mut self, counters: &DarshanCounters<'_>) -> io::Result<()> {
        self.flush();
        let (module, rank, id) = (counters.module, counters.rank, counters.id);
        for (name, value) in counters.ints() {
            *self.sums.entry((name, true)).or_default() += value as f64;
            let value = if name == "POSIX_RENAMED_FROM" {
                value.cast_unsigned().to_string()
            } else {
                value.to_string()
            };
            self.line(module, rank, id, name, &value);
        }
        for (name, value) in counters.floats() {
            *self.sums.entry((name, false)).or_default() += value;
            self.line(module, rank, id, name, &format!("{value:.6}"));
        }
        if let Some(file) = counters.file {
            let name = match module {
                DarshanModule::H5d => "H5D_FILE_REC_ID",
                _ => "PNETCDF_VAR_FILE_REC_ID",
            };
            self.line(module, rank, id, name, &file.0.to_string());
        }
        Ok(())
    }

    fn dxt_record(&mut self, record: &DxtRecord) -> io::Result<()> {
        let [name, mount, fs_type] = self.place(record.id);
        let host = String::from_utf8_lossy(&record.host);
        self.dxt.extend([
            format!("# DXT, file_id: {}, file_name: {name}", record.id.0),
            format!("# DXT, rank: {}, hostname: {host}", record.rank),
            format!(
                "# DXT, write_count: {}, read_count: {}",
                record.writes, record.reads
            ),
            format!("# DXT, mnt_pt: {mount}, fs_type: {fs_type}"),
        ]);
        Ok(())
    }

    fn dxt_segment(&mut self, record: &DxtRecord, segment: &DxtSegment) -> io::Result<()> {
        let module = match record.module {
            DarshanModule::DxtPosix => "X_POSIX",
            _ => "X_MPIIO",
        };
        let thread = segment
            .thread
            .map_or(String::new(), |thread| format!("   {thread:>4}"));
        self.dxt.push(format!(
            "{module:>8}{:>8}{:>7}{:>9}{:>16}{:>16}{:>12.4}{:>12.4}{thread}",
            record.rank,
            segment.op.word(),
            segment.index,
            segment.offset,
            segment.length,
            segment.start_s,
            segment.end_s,
        ));
        Ok(())
    }

    fn heatmap_record(&mut self, heatmap: &DarshanHeatmap) -> io::Result<()> {
        self.flush();
        self.heatmap = Some((*heatmap, Default::default()));
        Ok(())
    }

    fn heatmap_bin(
        &mut self,
        heatmap: &DarshanHeatmap,
        op: Op,
        index: u64,
        bytes: i64,
    ) -> io::Result<()> {
        let (last, bins) = self.heatmap.as_mut().unwrap();
        assert_eq!(last, heatmap);
        let bins = &mut bins[usize::from(op == Op::Write)];
        assert_eq!(bins.len() as u64, index);
        bins.push(bytes);
        Ok(())
    }

    fn lustre_record(&mut self, file: &DarshanLustre) -> io::Result<()> {
        self.flush();
        self.lustre = Some((*file, Vec::new(), Vec::new()));
        Ok(())
    }

    fn lustre_component(
        &mut self,
        _: &DarshanLustre,
        component: &DarshanLustreComponent,
    ) -> io::Result<()> {
        self.lustre.as_mut().unwrap().1.push(component.clone());
        Ok(())
    }

    fn lustre_target(&mut self, _: &DarshanLustre, target: i64) -> io::Result<()> {
        self.lustre.as_mut().unwrap().2.push(target);
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.missing.push(missing.clone());
        Ok(())
    }
}
