//! Predictions of the measured sizes by models other than the paper's own formulas: static arrays of the programs, and buffers of the MPI library.
//!
//! Only the arrays are known without a run. Every other constant here was read from the paper's measured cells, often from the same column with
//! which it is compared. Agreement with the paper then proves nothing. [`Modelled::basis`] says so below each table.

use super::{
    CellContext, ModelRule, NotRecomputable,
    io::{load_of, mapping},
};
use crate::paper::Modelled;
use cvc_model::{
    Estimate, Tier,
    dtapp::static_arrays_mib,
    library,
    nas::{Benchmark, Problem},
    shmem::{BUFFER_C_MIB, buffer_mib, open_mpi_mib},
    surplus::{aggregator_mib, bt_io_write_bytes},
};

/// Half-widths of the intervals in MiB (section 9 of the models' page): data, shared memory, file. They were chosen from the errors in these
/// tables.
const BANDS_MIB: [f64; 3] = [0.25, 0.7, 0.8];

/// Size of the images of LU and CG without data, libraries and the shared segment, MiB. It is less than for BT and SP (23.8 to 25.1 in Table 5.2).
const C_OF_LU_AND_CG_MIB: f64 = 24.2;

/// Minimum and maximum of the data zone with Open MPI minus the data zone with MPICH, MiB, as read from Table 5.1.
const OPEN_MPI_DATA_MIB: [f64; 2] = [1.1, 2.2];

// the basis of each number, for the note below its table
const ARRAYS: &str = "the arrays that the program declares, which no run is needed to know, and 0.5 MiB for heap and text (0.49 MiB in the memory listing \
                      of Table 5.20; the data zones of Table 5.1 have as much above their arrays)";
const OPEN_MPI_DATA: &str = "the arrays that the program declares + 0.5 MiB + 1.65 MiB for Open MPI: a constant fitted to the measured data zones of \
                             Table 5.1, so no independent prediction of them";
const MPICH_LIBRARIES: &str = "2.45 MiB: a constant read from the measured libraries of Tables 4.1 to 4.3 and 5.1, so no independent prediction of them";
const OPEN_MPI_LIBRARIES: &str = "2.72 MiB: a constant read from the measured libraries of Table 5.1, so no independent prediction of them";
const SEGMENT: &str = "4\u{b7}p + p\u{b7}(p \u{2212} 1)/16 MiB by the layout of MPICH's segment + 26.2 MiB: a constant fitted to the measured shared memory of BT and SP, which \
                       spreads over 25.7 to 26.6 (Tables 4.1, 4.2, 5.1); only the growth with p is predicted independently of it";
const SEGMENT_OF_OTHERS: &str = "4\u{b7}p + p\u{b7}(p \u{2212} 1)/16 MiB by the layout of MPICH's segment + 24.2 MiB: a constant fitted to the measured shared memory of LU \
                                 and CG, which spreads over 23.8 to 25.1 (Table 5.2); only the growth with p is predicted independently of it";
const OPEN_MPI_SHARED: &str = "90.5 MiB, 98.3 MiB with 64 processes: constants fitted to the measured shared memory of Table 5.1, so no independent \
                               prediction of it";
const MPICH_FILE: &str = "arrays + 0.5 MiB + published constants: libraries 2.45 (Tables 4.1 to 4.3, 5.1) and shared memory with 26.2 (BT and SP, Tables 4.1, 4.2, 5.1) or \
                          24.2 (LU and CG, Table 5.2); no independent prediction of the files of those tables";
const OPEN_MPI_FILE: &str = "arrays + 0.5 MiB + published constants of Table 5.1: data 1.65, libraries 2.72, shared memory 90.5 or 98.3; no independent \
                             prediction of the files of that table";
const PLAIN_FILE: &str = "arrays + 0.5 MiB + published constants: libraries with ROMIO 7.71 (Table 5.10), shared memory with 26.2 (Tables 4.1, 4.2, 5.1), and 1.9 fitted to the \
                          plain files of Table 5.8; no independent prediction of those";
const AGGREGATOR_FILE: &str = "as a plain file, and min(16, V/Na) + 0.228\u{b7}P for an aggregator, with 0.228 fitted to the aggregators of Table 5.8; no \
                               independent prediction of those";

/// The program and the number of processes of a table row.
struct ModelledRow {
    problem: Problem,
    processes: u32,
    per_node: u32,
}

fn other(text: &str) -> NotRecomputable {
    NotRecomputable::Other(text.to_owned())
}

fn problem(benchmark: &str, class: &str) -> Result<Problem, NotRecomputable> {
    let benchmark = match benchmark {
        "BT" => Benchmark::Bt,
        "SP" => Benchmark::Sp,
        "LU" => Benchmark::Lu,
        "CG" => Benchmark::Cg,
        _ => return Err(other("the arrays of this program are not known")),
    };
    let class = class.chars().next().ok_or_else(|| other("no class"))?;
    Ok(Problem { benchmark, class })
}

/// Returns the number in the first of these columns that has one.
fn first(at: &CellContext<'_>, columns: &[&str]) -> Result<u32, NotRecomputable> {
    columns
        .iter()
        .find(|c| !at.is_empty(c))
        .ok_or_else(|| other("no number of processes"))
        .and_then(|c| at.count(c))
}

/// Returns the program and the number of processes of a row.
fn row(at: &CellContext<'_>) -> Result<ModelledRow, NotRecomputable> {
    let file_kind = at.text("file_kind");
    if let Some(letter) = at
        .column_id()
        .strip_prefix("class_")
        .and_then(|c| c.chars().next())
    {
        let processes = at.count(&format!("class_{letter}_processes"))?;
        let per_node = at.count(&format!("class_{letter}_processes_per_node"))?;
        return Ok(ModelledRow {
            problem: problem(
                at.text("benchmark"),
                &letter.to_ascii_uppercase().to_string(),
            )?,
            processes,
            per_node,
        });
    }
    if file_kind == "ckpt_bt" {
        let per_node = at
            .text("mapping")
            .rsplit(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| other("no mapping"))?;
        return Ok(ModelledRow {
            problem: problem("BT", "B")?,
            processes: 4,
            per_node,
        });
    }
    if !file_kind.is_empty() && !file_kind.starts_with("ckpt_") {
        return Err(other("an auxiliary file"));
    }
    let name = [file_kind.trim_start_matches("ckpt_"), at.text("app")].concat();
    let mut words = name.split('.');
    let problem = match (words.next(), words.next()) {
        (Some(benchmark), Some(class)) if !benchmark.is_empty() => problem(benchmark, class)?,
        // the benchmark is named in the caption
        _ if matches!(at.table_id(), "4.3") => problem("BT", "D")?,
        _ if matches!(at.table_id(), "5.17") => problem("BT", "B")?,
        _ if at.is_empty("benchmark") => problem("BT", at.text("class"))?,
        _ => problem(at.text("benchmark"), at.text("class"))?,
    };
    let per_node = first(
        at,
        &[
            "processes_per_node",
            "processes_per_instance",
            "processes",
            "row_processes",
        ],
    )?;
    let processes = match words.next().and_then(|p| p.parse().ok()) {
        Some(processes) => processes,
        None => match at.table_id() {
            "5.17" => at
                .count("nodes")?
                .checked_mul(per_node)
                .ok_or_else(|| other("too many processes"))?,
            _ => first(at, &["processes", "row_processes"])?,
        },
    };
    Ok(ModelledRow {
        problem,
        processes,
        per_node,
    })
}

/// Returns a number with a constant that was read from the paper.
fn published(estimate: Estimate, model: &str, basis: &'static str) -> Modelled {
    Modelled {
        estimate,
        model: model.to_owned(),
        tier: Tier::Published,
        basis,
    }
}

fn data(row: &ModelledRow, open_mpi: bool) -> Result<Estimate, NotRecomputable> {
    let arrays = Estimate::plus_minus(static_arrays_mib(row.problem, row.processes)?, BANDS_MIB[0]);
    let [least, most] = OPEN_MPI_DATA_MIB;
    let more = Estimate::between((least + most) / 2.0, least, most);
    Ok(if open_mpi { arrays.plus(more) } else { arrays })
}

/// The rule that models the zones and files in tables without collective I/O.
#[derive(Debug)]
pub struct ZonesRule;

impl ModelRule for ZonesRule {
    fn name(&self) -> &'static str {
        "zones"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Modelled, NotRecomputable> {
        let row = row(at)?;
        let open_mpi = at.text("mpi") == "OpenMPI";
        let (c, segment) = match row.problem.benchmark {
            Benchmark::Bt | Benchmark::Sp => (BUFFER_C_MIB, SEGMENT),
            Benchmark::Lu | Benchmark::Cg => (C_OF_LU_AND_CG_MIB, SEGMENT_OF_OTHERS),
        };
        let shmem = || -> Result<Estimate, NotRecomputable> {
            if open_mpi {
                return Ok(open_mpi_mib(row.per_node)?);
            }
            Ok(Estimate::plus_minus(
                buffer_mib(row.per_node, c)?,
                BANDS_MIB[1],
            ))
        };
        let lb = if open_mpi {
            library::OPEN_MPI_MIB
        } else {
            library::MPICH_MIB
        };
        let column = at.column_id();
        if column.contains("dtapp") {
            let zone = data(&row, open_mpi)?;
            return Ok(if open_mpi {
                published(zone, "static arrays + 2.15 MiB", OPEN_MPI_DATA)
            } else {
                Modelled {
                    estimate: zone,
                    model: "static arrays + 0.5 MiB".to_owned(),
                    tier: Tier::NoRun,
                    basis: ARRAYS,
                }
            });
        }
        if column.contains("shmem") {
            let (model, basis) = if open_mpi {
                ("constant of Open MPI", OPEN_MPI_SHARED)
            } else {
                ("buffers of MPICH + constant", segment)
            };
            return Ok(published(shmem()?, model, basis));
        }
        if column.contains("lb_") {
            return Ok(published(
                lb,
                "constant of the library",
                if open_mpi {
                    OPEN_MPI_LIBRARIES
                } else {
                    MPICH_LIBRARIES
                },
            ));
        }
        let data = data(&row, open_mpi)?;
        let file = data.value + lb.value + shmem()?.value;
        let file = if open_mpi {
            data.plus(lb).plus(shmem()?)
        } else {
            Estimate::plus_minus(file, BANDS_MIB[2])
        };
        Ok(published(
            file,
            "static arrays + libraries + buffers",
            if open_mpi { OPEN_MPI_FILE } else { MPICH_FILE },
        ))
    }
}

/// Size of plain files of BT-IO FULL minus the sum of their zones, MiB: 1.7 to 5.8 in Table 5.8.
const FULL_MIB: f64 = 1.9;

/// The rule that models the files of BT-IO FULL with MPICH.
#[derive(Debug)]
pub struct IoFiles;

impl ModelRule for IoFiles {
    fn name(&self) -> &'static str {
        "io-files"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Modelled, NotRecomputable> {
        let problem = problem("BT", at.text("class"))?;
        let processes = at.count("processes")?;
        let mapping = mapping(at)?;
        let load = load_of(&mapping, at.count("file_index")?)?;
        let plain = static_arrays_mib(problem, processes)?
            + library::ROMIO_MIB.value
            + buffer_mib(load, BUFFER_C_MIB)?
            + FULL_MIB;
        if at.number("is_aggregator")? == 0.0 {
            return Ok(published(
                Estimate::bare(plain),
                "static arrays + libraries + buffers + 1.9 MiB",
                PLAIN_FILE,
            ));
        }
        let grid = problem
            .grid_points()
            .ok_or_else(|| other("the program has no grid"))?;
        let surplus = aggregator_mib(bt_io_write_bytes(grid), mapping.nodes(), processes)?;
        Ok(published(
            Estimate::bare(plain + surplus),
            "the same + min(16, V/Na) + 0.228·P MiB",
            AGGREGATOR_FILE,
        ))
    }
}
