//! Rules for zones and totals as predicted in the thesis (chapters 3 to 5).

use super::{CellContext, NotRecomputable, Rule};
use crate::paper::Recomputed;
use cvc_core::units::MIB;
use cvc_model::{
    application::{collective_rounds, own_checkpoint_mib},
    dtapp::PowerLaw,
    library,
    shmem::{Algorithm2, algorithm2_clamped_mib, algorithm2_mib, quadratic_mib},
    stored::aux_cloud_mib,
};

/// The rule that recomputes estimates by the power law that is fitted to the rows without an estimate.
#[derive(Debug)]
pub struct DataPowerLaw;

impl Rule for DataPowerLaw {
    fn name(&self) -> &'static str {
        "power-law"
    }
    fn about(&self) -> &'static str {
        "A·P^B by least squares on the logarithms of the rows without an estimate, with A rounded to 5 digits and B to 3 decimals as a spreadsheet \
         labels its trend line"
    }
    fn arguments(&self) -> &'static str {
        "the columns of processes, measured sizes and estimates"
    }
    fn needs(&self) -> usize {
        3
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let [processes, measured, estimated] = [0, 1, 2].map(|i| at.of()[i].as_str());
        let mut points: Vec<(u32, f64)> = Vec::new();
        for row in at.rows().filter(|row| row.is_empty(estimated)) {
            let p = row.count(processes)?;
            // rows with the same number of processes on different kinds of nodes are one point
            if !points.iter().any(|(q, _)| *q == p) {
                points.push((p, row.number(measured)?));
            }
        }
        let law = PowerLaw::fit(&points)?.law.rounded();
        Ok(Recomputed::new(law.at(at.count(processes)?)?))
    }
}

/// The rule that recomputes the zone of libraries with MPICH.
#[derive(Debug)]
pub struct LibraryZone;

impl Rule for LibraryZone {
    fn name(&self) -> &'static str {
        "library-zone"
    }
    fn about(&self) -> &'static str {
        "2.45 MiB, the constant for MPICH: read from the measured libraries of the same tables, so agreement with them proves little"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        at.rests_on("2.45 MiB");
        Ok(Recomputed::new(library::MPICH_MIB.value))
    }
}

/// Cells, as (table, processes on the node), for which the thesis uses equation 3.11 instead of Algorithm 2.
const BY_EQUATION: [(&str, u32); 5] = [
    ("4.1", 64),
    ("4.2", 36),
    ("4.3", 24),
    ("4.5", 32),
    ("4.6", 16),
];

/// Returns the shared memory that the thesis estimates in this table, MiB.
pub(super) fn shared_memory(table: &str, per_node: u32) -> Result<Recomputed, NotRecomputable> {
    if BY_EQUATION.contains(&(table, per_node)) {
        // 156.968 and 216.596 are printed as 156.96 and 216.59
        return Ok(Recomputed::or_cut(quadratic_mib(per_node)?));
    }
    Ok(Recomputed::new(algorithm2_clamped_mib(
        per_node,
        Algorithm2::default(),
    )?))
}

/// The rule that recomputes the zone of shared memory as estimated in Tables 4.1 to 4.3.
#[derive(Debug)]
pub struct SharedMemoryZone;

impl Rule for SharedMemoryZone {
    fn name(&self) -> &'static str {
        "shared-memory-zone"
    }
    fn about(&self) -> &'static str {
        "Algorithm 2 with C1 + C2 = 93, which is not printed but inferred from the estimates (with 64 processes its value at 63), but equation 3.11, rounded or cut off, for 64 processes in Table 4.1, 36 in \
         4.2 and 24 in 4.3, as the printed digits show"
    }
    fn arguments(&self) -> &'static str {
        "the column of processes on a node"
    }
    fn needs(&self) -> usize {
        1
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        at.rests_on("C1 + C2 = 93, or where equation 3.11 replaces Algorithm 2");
        shared_memory(at.table_id(), at.count(&at.of()[0])?)
    }
}

/// The parameters that Table 5.10 implies: C1 = 31.07, and C2 such that both add up to the 93 MiB of the estimates.
pub(super) const OF_TABLE_5_10: Algorithm2 = Algorithm2 {
    c1: 31.07,
    c2: 93.0 - 31.07,
    b: 5.0,
};

/// The rule that recomputes the shared memory of four processes on a node by Algorithm 2.
#[derive(Debug)]
pub struct SharedMemoryOfFour;

impl Rule for SharedMemoryOfFour {
    fn name(&self) -> &'static str {
        "algorithm-2-table"
    }
    fn about(&self) -> &'static str {
        "Algorithm 2 for 4 processes on a node with C1 = 31.07. C1 is not printed but inferred from this column, so agreement with it proves nothing"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        at.rests_on("C1 = 31.07");
        Ok(Recomputed::new(algorithm2_mib(4, OF_TABLE_5_10)?))
    }
}

/// The rule that recomputes stored sizes from the file sizes of Table 5.1.
#[derive(Debug)]
pub struct StoredRule;

impl Rule for StoredRule {
    fn name(&self) -> &'static str {
        "stored"
    }
    fn about(&self) -> &'static str {
        "processes times the file of Table 5.1, in GiB, cut off after two decimals"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let with = ["benchmark", "class", "processes", "mpi"].map(|c| (c, at.text(c)));
        let file = at.find("5.1", &with)?.number("file_MiB")?;
        Ok(Recomputed::or_cut(at.number("processes")? * file / 1024.0))
    }
}

/// The rule that recomputes the size of a program's own checkpoint from its grid.
#[derive(Debug)]
pub struct GridRule;

impl Rule for GridRule {
    fn name(&self) -> &'static str {
        "grid"
    }
    fn about(&self) -> &'static str {
        "processes times the points of a cubic grid times 8 bytes times 5 variables; for what is read, one variable"
    }
    fn arguments(&self) -> &'static str {
        "the column of processes (or several, joined by *), points to an edge of the grid, variables"
    }
    fn needs(&self) -> usize {
        3
    }
    fn columns(&self) -> usize {
        0
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let edge = whole(at, 1)?;
        Ok(Recomputed::new(own_checkpoint_mib(
            processes_of(at)?,
            edge,
            edge,
            edge,
            whole(at, 2)?,
            8,
        )?))
    }
}

/// The rule that recomputes the number of reads of a program's own checkpoint from its writes.
#[derive(Debug)]
pub struct CollectiveReads;

impl Rule for CollectiveReads {
    fn name(&self) -> &'static str {
        "collective-reads"
    }
    fn about(&self) -> &'static str {
        "writes minus those of the variables not read: for each, the rounds of collective I/O minus one for each aggregator except the first; 1024 writes \
         by one aggregator show that the buffer of 4 MiB has 4 000 000 bytes"
    }
    fn arguments(&self) -> &'static str {
        "the column of processes (or several, joined by *), points to an edge of the grid, variables that are not read"
    }
    fn needs(&self) -> usize {
        3
    }
    fn columns(&self) -> usize {
        0
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let one = own_checkpoint_mib(
            processes_of(at)?,
            whole(at, 1)?,
            whole(at, 1)?,
            whole(at, 1)?,
            1,
            8,
        )?;
        let (aggregators, buffer_mib) = (at.count("aggregators")?, at.number("io_buffer_MiB")?);
        let buffer = if buffer_mib == 4.0 {
            at.rests_on("a buffer of 4 000 000 bytes");
            4e6
        } else {
            buffer_mib * MIB
        };
        let rounds =
            collective_rounds(one * MIB, aggregators, buffer)? - f64::from(aggregators - 1);
        Ok(Recomputed::new(
            at.number("writes")? - f64::from(whole(at, 2)?) * rounds,
        ))
    }
}

/// Returns the number of processes: the product of the columns that an argument joins by `*`.
fn processes_of(at: &CellContext<'_>) -> Result<u32, NotRecomputable> {
    at.of()[0].split('*').try_fold(1_u32, |product, column| {
        product
            .checked_mul(at.count(column)?)
            .ok_or_else(|| NotRecomputable::Other("too many processes".to_owned()))
    })
}

/// Returns an argument as a whole number.
fn whole(at: &CellContext<'_>, place: usize) -> Result<u32, NotRecomputable> {
    let text = &at.of()[place];
    text.parse()
        .map_err(|_| NotRecomputable::Other(format!("`{text}` is not a whole number")))
}

/// The rule that recomputes the number of files of one kind from the numbers of nodes and processes.
#[derive(Debug)]
pub struct FileCountRule;

impl Rule for FileCountRule {
    fn name(&self) -> &'static str {
        "file-count"
    }
    fn about(&self) -> &'static str {
        "an image for each process; one file each of mpiexec, the proxy and the restart script; one each of ssh, sshd and the second kind of proxy for \
         every node but the first"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let (nodes, per_node) = match at.text("mapping").split_once('x') {
            // such as "4 nodes x 1"
            Some((nodes, per_node)) => {
                let number = |text: &str| {
                    text.split_whitespace()
                        .next()
                        .and_then(|t| t.parse::<u32>().ok())
                };
                number(nodes).zip(number(per_node)).ok_or_else(|| {
                    NotRecomputable::Other("the mapping cannot be read".to_owned())
                })?
            }
            None if at.is_empty("instances") => {
                (at.count("nodes")?, at.count("processes_per_node")?)
            }
            None => (at.count("instances")?, at.count("processes_per_instance")?),
        };
        let kind = at.text("file_kind");
        let count = match kind {
            "mpiexec" | "restart_script" | "proxy_main_node" | "pmi_proxy_main" => 1,
            "ssh" | "sshd" | "proxy_secondary_node" | "pmi_proxy_secondary" => {
                nodes.saturating_sub(1)
            }
            _ if kind.is_empty() || kind.starts_with("ckpt_") => nodes
                .checked_mul(per_node)
                .ok_or_else(|| NotRecomputable::Other("too many processes".to_owned()))?,
            other => {
                return Err(NotRecomputable::Other(format!(
                    "unknown kind of files: {other}"
                )));
            }
        };
        Ok(Recomputed::new(f64::from(count)))
    }
}

/// The rule that recomputes the total size of images and auxiliary files on cloud instances.
#[derive(Debug)]
pub struct StoredInTheCloud;

impl Rule for StoredInTheCloud {
    fn name(&self) -> &'static str {
        "stored-in-the-cloud"
    }
    fn about(&self) -> &'static str {
        "files times their size, and 48 MiB of auxiliary files with 28.6 MiB more for each instance but the first; both constants are inferred from this \
         column, for one, two and four instances"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        at.rests_on("48 MiB of auxiliary files and 28.6 MiB for each further instance");
        Ok(Recomputed::new(
            at.number("files")? * at.number("file_MiB")? + aux_cloud_mib(at.count("instances")?)?,
        ))
    }
}

/// The rule that recomputes the size of a memory area, or of all areas together.
#[derive(Debug)]
pub struct MemoryArea;

impl Rule for MemoryArea {
    fn name(&self) -> &'static str {
        "memory-area"
    }
    fn about(&self) -> &'static str {
        "an area's end minus its start; the total is the sum of the areas, where all of them are printed"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        if !at.is_empty("area_start_hex") {
            let address = |column: &str| {
                let text = at.text(column);
                u64::from_str_radix(text, 16)
                    .map_err(|_| NotRecomputable::Other(format!("`{text}` is not an address")))
            };
            let (start, end) = (address("area_start_hex")?, address("area_end_hex")?);
            let size = end.checked_sub(start).ok_or_else(|| {
                NotRecomputable::Other("the area ends before it starts".to_owned())
            })?;
            return Ok(Recomputed::new(size as f64));
        }
        if at.table_id() != "5.20" {
            return Err(NotRecomputable::Other(
                "only some of the areas are printed".to_owned(),
            ));
        }
        let mut sum = 0.0;
        for row in at.rows().filter(|r| {
            r.text("environment") == at.text("environment") && !r.is_empty("area_start_hex")
        }) {
            sum += row.number("size_bytes")?;
        }
        Ok(Recomputed::new(sum))
    }
}
