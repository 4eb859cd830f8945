//! Sums the counters of a log, for each module and file.

use super::{
    heat::HeatGrid,
    sums::{Columns, DarshanSums, RankTime},
};
use crate::{
    darshan::{
        header::{DarshanHeader, DarshanModuleInfo},
        job::DarshanJob,
        layout::RecordLayout,
        log::DarshanLog,
        module::DarshanModule,
        visitor::{
            DarshanCounters, DarshanHeatmap, DarshanLustre, DarshanLustreComponent,
            DarshanRecordId, DarshanVisitor,
        },
    },
    event::Op,
    sink::{Missing, TraceError},
    spread::RankSpread,
};
use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Read, Seek},
    path::Path,
};

/// Maximum number of files with separate sums, over all modules: about 250 MB. Records of other files are only in the totals.
const MAX_FILES: usize = 200_000;
/// Maximum number of ranks of a module with separate totals.
const MAX_RANKS: usize = 1 << 20;
/// Maximum total length of names, bytes.
const MAX_NAME_BYTES: usize = 64 << 20;
const MAX_MISSING: usize = 100;
const MAX_HEATMAPS: usize = 8;

/// How the content of a module is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleReading {
    /// Its counters are summed.
    Counters,
    /// It has single operations: DXT.
    Events,
    /// It has values other than counts of operations: heat maps, striping of files.
    Other,
    /// It is not read.
    Unread,
}

/// Sums over the records of one rank. Records of all ranks together are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankTotal {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time in operations, seconds.
    pub time_s: f64,
}

/// A module of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleSummary {
    /// Its entry in the header, such as its size in the log.
    pub info: DarshanModuleInfo,
    /// How its content is used.
    pub reading: ModuleReading,
    /// The sum of all its records. `None`: it has no counters, or no record could be read.
    pub sums: Option<DarshanSums>,
    /// Number of files, data sets or variables.
    pub files: u64,
    /// For each rank, sums over its records. Records of all ranks together are not included.
    pub ranks: BTreeMap<i64, RankTotal>,
    /// Sum of the slowest rank's time, over all files that all ranks share, seconds.
    pub shared_s: f64,
}

impl ModuleSummary {
    /// Returns the rank that spent the most time on unshared files.
    #[must_use]
    pub fn slowest(&self) -> Option<RankTime> {
        self.ranks
            .iter()
            .map(|(&rank, of)| RankTime {
                rank,
                bytes: of.read_bytes.saturating_add(of.written_bytes),
                time_s: of.time_s,
            })
            .reduce(|a, b| if b.time_s > a.time_s { b } else { a })
    }

    /// Returns the I/O time along the slowest path, seconds: the time of the slowest rank on unshared files, plus that of the slowest rank on each
    /// shared file. Darshan's own bandwidth estimate divides by this time.
    #[must_use]
    pub fn time_by_slowest_s(&self) -> f64 {
        self.slowest().map_or(0.0, |slowest| slowest.time_s) + self.shared_s
    }

    /// Returns Darshan's estimate of the bandwidth, MiB/s.
    #[must_use]
    pub fn bandwidth_mib_s(&self) -> Option<f64> {
        let sums = self.sums.as_ref()?;
        let bytes = sums.read_bytes()?.saturating_add(sums.written_bytes()?);
        let time_s = self.time_by_slowest_s();
        (time_s > 0.0 && bytes > 0).then(|| bytes as f64 / 1_048_576.0 / time_s)
    }
}

/// Counters of a module for one file, data set or variable, summed over ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSums {
    /// Record ID of the file, data set or variable.
    pub id: DarshanRecordId,
    /// Record ID of the file that contains the data set or variable, if the log records it.
    pub file: Option<DarshanRecordId>,
    /// Its counters.
    pub sums: DarshanSums,
    /// Spread of the bytes read per rank, if each rank has its own record.
    pub read_by: Option<RankSpread>,
    /// Spread of the bytes written per rank, if each rank has its own record.
    pub written_by: Option<RankSpread>,
    /// Number of ranks that read bytes, and number of ranks that wrote bytes; only ranks with their own record are counted.
    pub readers_writers: [u64; 2],
}

/// A single record, for callers that process each one.
#[derive(Clone, Copy, Debug)]
pub struct RecordSums<'a> {
    /// Record ID of the file.
    pub id: DarshanRecordId,
    /// Path of the file; `None` if the log has no name for it.
    pub name: Option<&'a [u8]>,
    /// Rank; `None` for all ranks together.
    pub rank: Option<i64>,
    /// Whether the module is partial, that is, other records are missing.
    pub partial: bool,
    /// Its counters.
    pub sums: &'a DarshanSums,
}

impl RecordSums<'_> {
    /// Returns the name of the file, or its record ID if the log has no name for it.
    pub(crate) fn title(&self) -> String {
        match self.name {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => format!("<record {}>", self.id.0),
        }
    }
}

/// Sums of the counters of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct DarshanSummary {
    /// The header.
    pub header: DarshanHeader,
    /// The job. `None`: its record could not be read.
    pub job: Option<DarshanJob>,
    /// All modules of the log, including those that are not read.
    pub modules: Vec<ModuleSummary>,
    /// The sums by file and module, in the order of the log.
    pub files: Vec<FileSums>,
    /// Number of records of further files, which are only in the totals of modules.
    pub more_records: u64,
    /// Bytes over time, by interface.
    pub heat: Vec<HeatGrid>,
    /// Stripe size in bytes, and stripe count, of files on Lustre; of the first component of each file.
    pub stripes: HashMap<DarshanRecordId, (i64, i64)>,
    /// Missing parts.
    pub missing: Vec<Missing>,
    /// Number of missing parts that `missing` does not list.
    pub more_missing: u64,
    names: HashMap<DarshanRecordId, Box<[u8]>>,
    name_bytes: usize,
}

impl DarshanSummary {
    /// Returns the summary of a module, if the log has it.
    #[must_use]
    pub fn module(&self, module: DarshanModule) -> Option<&ModuleSummary> {
        self.modules.iter().find(|of| of.info.module == module)
    }

    /// Returns the name of a record, as bytes.
    #[must_use]
    pub fn name(&self, id: DarshanRecordId) -> Option<&[u8]> {
        self.names.get(&id).map(|name| &**name)
    }

    /// Returns the name of a record as text; without a name `<record NUMBER>`.
    #[must_use]
    pub fn name_text(&self, id: DarshanRecordId) -> String {
        let name = self.name(id).map(String::from_utf8_lossy);
        name.map_or_else(
            || format!("<record {}>", id.0),
            std::borrow::Cow::into_owned,
        )
    }
}

/// Reads a log and sums its counters.
///
/// # Errors
/// The system cannot read the file, or it is not a log of Darshan 3 with a header.
pub fn summarize(path: &Path) -> Result<DarshanSummary, TraceError> {
    summarize_each(DarshanLog::open(path)?, None)
}

/// A function that is called for each record of counters.
pub type EachRecord<'a> = &'a mut dyn FnMut(&RecordSums<'_>) -> io::Result<()>;

/// Sums the counters of a log that is already open, and calls `each` for each record.
///
/// # Errors
/// The system cannot read the rest of the log, or `each` fails.
pub fn summarize_each<R: Read + Seek>(
    log: DarshanLog<R>,
    each: Option<EachRecord<'_>>,
) -> Result<DarshanSummary, TraceError> {
    let header = log.header().clone();
    let mut summarizer = Summarizer::new(header, each);
    log.read(&mut summarizer)?;
    Ok(summarizer.finish())
}

/// A visitor that sums the counters of a log.
struct Summarizer<'a> {
    summary: DarshanSummary,
    each: Option<EachRecord<'a>>,
    /// The module whose records are being read, its index, and the positions of its counters.
    current: Option<(DarshanModule, usize, Columns)>,
    by_file: HashMap<(DarshanModule, DarshanRecordId), usize>,
    unnamed: u64,
    /// Index of the heat map whose bins are being read.
    grid: Option<usize>,
}

impl<'a> Summarizer<'a> {
    fn new(header: DarshanHeader, each: Option<EachRecord<'a>>) -> Self {
        let of = |info: &DarshanModuleInfo| ModuleSummary {
            info: info.clone(),
            reading: match info.module {
                DarshanModule::DxtPosix | DarshanModule::DxtMpiIo => ModuleReading::Events,
                DarshanModule::Heatmap | DarshanModule::Lustre => ModuleReading::Other,
                module if RecordLayout::of(module).is_some() => ModuleReading::Counters,
                _ => ModuleReading::Unread,
            },
            sums: None,
            files: 0,
            ranks: BTreeMap::new(),
            shared_s: 0.0,
        };
        Self {
            summary: DarshanSummary {
                modules: header.modules.iter().map(of).collect(),
                header,
                job: None,
                files: Vec::new(),
                more_records: 0,
                heat: Vec::new(),
                stripes: HashMap::new(),
                missing: Vec::new(),
                more_missing: 0,
                names: HashMap::new(),
                name_bytes: 0,
            },
            each,
            current: None,
            by_file: HashMap::new(),
            unnamed: 0,
            grid: None,
        }
    }

    fn finish(mut self) -> DarshanSummary {
        if self.unnamed > 0 {
            let problem = format!(
                "{} names are left out: they have more than {} MiB",
                self.unnamed,
                MAX_NAME_BYTES >> 20
            );
            self.missing_part("table of names", problem);
        }
        if self.summary.more_records > 0 {
            let problem = format!(
                "{} records are of more than {MAX_FILES} files; they are in the totals of modules alone",
                self.summary.more_records
            );
            self.missing_part("files", problem);
        }
        self.summary
    }

    fn missing_part(&mut self, part: &str, problem: String) {
        if self.summary.missing.len() < MAX_MISSING {
            let part = part.to_owned();
            self.summary.missing.push(Missing { part, problem });
        } else {
            self.summary.more_missing += 1;
        }
    }

    fn file_of(&mut self, of: &DarshanCounters<'_>, module: usize) -> Option<&mut FileSums> {
        let key = (of.module, of.id);
        let files = &mut self.summary.files;
        let at = match self.by_file.get(&key) {
            Some(&at) => at,
            None if files.len() >= MAX_FILES => {
                self.summary.more_records += 1;
                return None;
            }
            None => {
                self.summary.modules[module].files += 1;
                self.by_file.insert(key, files.len());
                files.push(FileSums {
                    id: of.id,
                    file: of.file.filter(|file| file.0 != 0),
                    sums: DarshanSums::new(of.module),
                    read_by: None,
                    written_by: None,
                    readers_writers: [0; 2],
                });
                files.len() - 1
            }
        };
        files.get_mut(at)
    }
}

impl DarshanVisitor for Summarizer<'_> {
    fn wants(&mut self, module: DarshanModule) -> bool {
        !matches!(module, DarshanModule::DxtPosix | DarshanModule::DxtMpiIo)
    }

    fn job(&mut self, job: &DarshanJob) -> io::Result<()> {
        self.summary.job = Some(job.clone());
        Ok(())
    }

    fn name(&mut self, id: DarshanRecordId, name: &[u8]) -> io::Result<()> {
        let of = &mut self.summary;
        if name.is_empty() || of.names.contains_key(&id) {
            return Ok(());
        }
        if of.name_bytes + name.len() > MAX_NAME_BYTES {
            self.unnamed += 1;
            return Ok(());
        }
        of.name_bytes += name.len() + size_of::<(DarshanRecordId, Box<[u8]>)>();
        of.names.insert(id, name.into());
        Ok(())
    }

    fn counters(&mut self, of: &DarshanCounters<'_>) -> io::Result<()> {
        if self
            .current
            .as_ref()
            .is_none_or(|(module, ..)| *module != of.module)
        {
            let place = self
                .summary
                .modules
                .iter()
                .position(|m| m.info.module == of.module);
            self.current = place
                .zip(Columns::of(of.module))
                .map(|(place, columns)| (of.module, place, columns));
        }
        let Some((_, place, columns)) = self.current.take() else {
            return Ok(());
        };
        let module = &mut self.summary.modules[place];
        let sums = module
            .sums
            .get_or_insert_with(|| DarshanSums::new(of.module));
        let longest = sums.add(of, &columns);
        let [read, written] = columns.moved(of);
        if of.rank < 0 {
            module.shared_s += longest.time_s;
        } else if module.ranks.len() < MAX_RANKS || module.ranks.contains_key(&of.rank) {
            let rank = module.ranks.entry(of.rank).or_default();
            rank.read_bytes = rank.read_bytes.saturating_add(read);
            rank.written_bytes = rank.written_bytes.saturating_add(written);
            rank.time_s += longest.time_s;
        }
        if let Some(file) = self.file_of(of, place) {
            file.sums.add(of, &columns);
            if of.rank >= 0 {
                let with =
                    |spread: Option<RankSpread>, bytes: u64| RankSpread::with(spread, bytes as f64);
                file.read_by = Some(with(file.read_by, read));
                file.written_by = Some(with(file.written_by, written));
                let of = &mut file.readers_writers;
                *of = [of[0] + u64::from(read > 0), of[1] + u64::from(written > 0)];
            }
        }
        if let Some(each) = &mut self.each {
            let mut sums = DarshanSums::new(of.module);
            sums.add(of, &columns);
            each(&RecordSums {
                id: of.id,
                name: self.summary.names.get(&of.id).map(|name| &**name),
                rank: Some(of.rank).filter(|&rank| rank >= 0),
                partial: self.summary.modules[place].info.partial,
                sums: &sums,
            })?;
        }
        self.current = Some((of.module, place, columns));
        Ok(())
    }

    fn heatmap_record(&mut self, of: &DarshanHeatmap) -> io::Result<()> {
        let name = self.summary.names.get(&of.id);
        let name = name.map_or_else(
            || of.id.0.to_string(),
            |name| String::from_utf8_lossy(name).into_owned(),
        );
        let name = name.strip_prefix("heatmap:").unwrap_or(&name);
        let heat = &mut self.summary.heat;
        self.grid = heat.iter().position(|grid| grid.module == name);
        if self.grid.is_none() && heat.len() < MAX_HEATMAPS {
            let job = self.summary.job.as_ref();
            let ranks = job.and_then(|job| u64::try_from(job.ranks).ok());
            self.grid = Some(heat.len());
            heat.push(HeatGrid::new(name, of, ranks.unwrap_or(1)));
        }
        Ok(())
    }

    fn heatmap_bin(
        &mut self,
        of: &DarshanHeatmap,
        op: Op,
        index: u64,
        bytes: i64,
    ) -> io::Result<()> {
        if let Some(grid) = self.grid.and_then(|at| self.summary.heat.get_mut(at)) {
            grid.add(of, op, index, bytes);
        }
        Ok(())
    }

    fn lustre_component(
        &mut self,
        file: &DarshanLustre,
        component: &DarshanLustreComponent,
    ) -> io::Result<()> {
        let stripes = &mut self.summary.stripes;
        if stripes.len() < MAX_FILES {
            let of = (component.stripe_size, component.stripe_count);
            stripes.entry(file.id).or_insert(of);
        }
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.missing_part(&missing.part, missing.problem.clone());
        Ok(())
    }
}
