//! A log: its job, and what its counters add up to for each module and file.

use super::{
    heat::HeatGrid,
    sums::{Columns, DarshanSums, RankTime},
};
use crate::{
    darshan::{
        header::{DarshanHeader, DarshanModuleInfo},
        job::DarshanJob,
        layout::Layout,
        log::DarshanLog,
        module::DarshanModule,
        visitor::{
            DarshanCounters, DarshanHeatmap, DarshanLustre, DarshanLustreComponent,
            DarshanRecordId, DarshanVisitor,
        },
    },
    event::Op,
    sink::{Missing, TraceError},
    spread::Spread,
};
use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Read, Seek},
    path::Path,
};

/// Maximum number of files of a module, added over modules, that have sums of their own: about 250 MB. Records of others are in the totals alone.
const MAX_FILES: usize = 200_000;
/// Maximum number of ranks of a module that have totals of their own.
const MAX_RANKS: usize = 1 << 20;
/// Maximum number of bytes of names.
const MAX_NAME_BYTES: usize = 64 << 20;
const MAX_MISSING: usize = 100;
const MAX_HEATMAPS: usize = 8;

/// What cvc reads of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleReading {
    /// Its counters.
    Counters,
    /// Single operations: DXT.
    Events,
    /// What is not a count of operations: bytes over time, stripes of files.
    Other,
    /// Nothing.
    Unread,
}

/// What one rank did, on files of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankTotal {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Seconds in operations.
    pub time_s: f64,
}

/// A module of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleSummary {
    /// Its entry in the header: size in the log, whether it is partial.
    pub info: DarshanModuleInfo,
    /// What is read of it.
    pub reading: ModuleReading,
    /// All of its records added. `None`: it has no counters, or no record could be read.
    pub sums: Option<DarshanSums>,
    /// Number of files, data sets or variables.
    pub files: u64,
    /// What each rank did on files that are not in a record of all ranks.
    pub ranks: BTreeMap<i64, RankTotal>,
    /// Seconds of the slowest rank on each file that all ranks share, added.
    pub shared_s: f64,
}

impl ModuleSummary {
    /// The rank that spent the most time on files of its own.
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

    /// Seconds of I/O along the slowest path: the slowest rank on files of its own, and the slowest rank of each shared file. It is what Darshan's own
    /// estimate of the bandwidth divides by.
    #[must_use]
    pub fn time_by_slowest_s(&self) -> f64 {
        self.slowest().map_or(0.0, |slowest| slowest.time_s) + self.shared_s
    }

    /// Darshan's estimate of the bandwidth, MiB a second.
    #[must_use]
    pub fn bandwidth_mib_s(&self) -> Option<f64> {
        let sums = self.sums.as_ref()?;
        let bytes = sums.read_bytes()?.saturating_add(sums.written_bytes()?);
        let time_s = self.time_by_slowest_s();
        (time_s > 0.0 && bytes > 0).then(|| bytes as f64 / 1_048_576.0 / time_s)
    }
}

/// What a module counted of one file, data set or variable, all ranks added.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSums {
    /// Its number.
    pub id: DarshanRecordId,
    /// The file of a data set or variable, where the log tells.
    pub file: Option<DarshanRecordId>,
    /// Its counters.
    pub sums: DarshanSums,
    /// Bytes that each rank read, where each has a record of its own.
    pub read_by: Option<Spread>,
    /// Bytes that each rank wrote.
    pub written_by: Option<Spread>,
    /// Number of ranks with a record of their own that read bytes, and that wrote bytes.
    pub readers_writers: [u64; 2],
}

/// One record, for whoever wants each of them.
#[derive(Clone, Copy, Debug)]
pub struct RecordSums<'a> {
    /// The number of its file.
    pub id: DarshanRecordId,
    /// The path of its file; `None` where the log has no name.
    pub name: Option<&'a [u8]>,
    /// Its rank; `None` for all ranks together.
    pub rank: Option<i64>,
    /// Whether its module is partial: other records are missing.
    pub partial: bool,
    /// Its counters.
    pub sums: &'a DarshanSums,
}

/// What the counters of a log add up to.
#[derive(Clone, Debug, PartialEq)]
pub struct DarshanSummary {
    /// The header.
    pub header: DarshanHeader,
    /// The job. `None`: it could not be read.
    pub job: Option<DarshanJob>,
    /// Every module of the log, read or not.
    pub modules: Vec<ModuleSummary>,
    /// Each file and module, in the order of the log.
    pub files: Vec<FileSums>,
    /// Number of records of further files, which are in the totals of modules alone.
    pub more_records: u64,
    /// Bytes over time, for each interface.
    pub heat: Vec<HeatGrid>,
    /// Bytes of a stripe and number of stripes of files on Lustre, of the first component of each.
    pub stripes: HashMap<DarshanRecordId, (i64, i64)>,
    /// What is missing.
    pub missing: Vec<Missing>,
    /// Number of further things that are missing.
    pub more_missing: u64,
    names: HashMap<DarshanRecordId, Box<[u8]>>,
    name_bytes: usize,
}

impl DarshanSummary {
    /// The sums of a module, where it has any.
    #[must_use]
    pub fn module(&self, module: DarshanModule) -> Option<&ModuleSummary> {
        self.modules.iter().find(|of| of.info.module == module)
    }

    /// The name of a record, as in the log.
    #[must_use]
    pub fn name(&self, id: DarshanRecordId) -> Option<&[u8]> {
        self.names.get(&id).map(|name| &**name)
    }

    /// The name of a record as text. Without one it is `<record NUMBER>`.
    #[must_use]
    pub fn name_text(&self, id: DarshanRecordId) -> String {
        let name = self.name(id).map(String::from_utf8_lossy);
        name.map_or_else(
            || format!("<record {}>", id.0),
            std::borrow::Cow::into_owned,
        )
    }
}

/// Adds up the counters of a log.
///
/// # Errors
/// The system cannot read it, or it is no log of Darshan 3 with a header.
pub fn summarize(path: &Path) -> Result<DarshanSummary, TraceError> {
    summarize_each(DarshanLog::open(path)?, None)
}

/// Takes each record of counters.
pub type EachRecord<'a> = &'a mut dyn FnMut(&RecordSums<'_>) -> io::Result<()>;

/// Adds up the counters of a log that is open already, and hands over each record as it is read.
///
/// # Errors
/// The system cannot read it any further, or `each` fails.
pub fn summarize_each<R: Read + Seek>(
    log: DarshanLog<R>,
    each: Option<EachRecord<'_>>,
) -> Result<DarshanSummary, TraceError> {
    let header = log.header().clone();
    let mut summarizer = Summarizer::new(header, each);
    log.read(&mut summarizer)?;
    Ok(summarizer.finish())
}

/// Adds up a log.
struct Summarizer<'a> {
    summary: DarshanSummary,
    each: Option<EachRecord<'a>>,
    /// Columns of the module whose records are read, and its place.
    current: Option<(DarshanModule, usize, Columns)>,
    by_file: HashMap<(DarshanModule, DarshanRecordId), usize>,
    unnamed: u64,
    /// The grid of the record of bytes over time that is read.
    grid: Option<usize>,
}

impl<'a> Summarizer<'a> {
    fn new(header: DarshanHeader, each: Option<EachRecord<'a>>) -> Self {
        let of = |info: &DarshanModuleInfo| ModuleSummary {
            info: info.clone(),
            reading: match info.module {
                DarshanModule::DxtPosix | DarshanModule::DxtMpiIo => ModuleReading::Events,
                DarshanModule::Heatmap | DarshanModule::Lustre => ModuleReading::Other,
                module if Layout::of(module).is_some() => ModuleReading::Counters,
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
                let with = |spread: Option<Spread>, bytes: u64| Spread::with(spread, bytes as f64);
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
