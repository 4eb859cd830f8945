//! What the models that need no run say of the sizes that were measured: static arrays and the buffers of the MPI library.

use super::{
    At, Because, ModelRule,
    io::{load_of, mapping},
};
use crate::{
    model::{
        Estimate, Tier,
        dtapp::static_arrays_mib,
        library,
        nas::{Benchmark, Problem},
        shmem::{BUFFER_C_MIB, buffer_mib, open_mpi_mib},
        surplus::{aggregator_mib, bt_io_write_bytes},
    },
    paper::Modelled,
};

/// Half widths of the intervals (section 9 of the models' page): data, shared memory, file, MiB.
const BANDS_MIB: [f64; 3] = [0.25, 0.7, 0.8];

/// What the images of LU and CG hold besides data, libraries and the shared segment, MiB: less than those of BT and SP.
const C_OF_LU_AND_CG_MIB: f64 = 24.2;

/// What the data zone has more with Open MPI, least and most, MiB.
const OPEN_MPI_DATA_MIB: [f64; 2] = [1.1, 2.2];

/// A program on processes, as a row of a table says it.
struct Row {
    problem: Problem,
    processes: u32,
    per_node: u32,
}

fn other(text: &str) -> Because {
    Because::Other(text.to_owned())
}

fn problem(benchmark: &str, class: &str) -> Result<Problem, Because> {
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

/// The first of these columns that has a number.
fn first(at: &At<'_>, columns: &[&str]) -> Result<u32, Because> {
    columns.iter().find(|c| !at.is_empty(c)).ok_or_else(|| other("no number of processes")).and_then(|c| at.count(c))
}

/// What a row is about.
fn row(at: &At<'_>) -> Result<Row, Because> {
    let file_kind = at.text("file_kind");
    if let Some(letter) = at.column_id().strip_prefix("class_").and_then(|c| c.chars().next()) {
        let processes = at.count(&format!("class_{letter}_processes"))?;
        let per_node = at.count(&format!("class_{letter}_processes_per_node"))?;
        return Ok(Row { problem: problem(at.text("benchmark"), &letter.to_ascii_uppercase().to_string())?, processes, per_node });
    }
    if file_kind == "ckpt_bt" {
        let per_node = at.text("mapping").rsplit(' ').next().and_then(|n| n.parse().ok()).ok_or_else(|| other("no mapping"))?;
        return Ok(Row { problem: problem("BT", "B")?, processes: 4, per_node });
    }
    if !file_kind.is_empty() && !file_kind.starts_with("ckpt_") {
        return Err(other("an auxiliary file"));
    }
    let name = [file_kind.trim_start_matches("ckpt_"), at.text("app")].concat();
    let mut words = name.split('.');
    let problem = match (words.next(), words.next()) {
        (Some(benchmark), Some(class)) if !benchmark.is_empty() => problem(benchmark, class)?,
        // the caption names it
        _ if matches!(at.table_id(), "4.3") => problem("BT", "D")?,
        _ if matches!(at.table_id(), "5.17") => problem("BT", "B")?,
        _ if at.is_empty("benchmark") => problem("BT", at.text("class"))?,
        _ => problem(at.text("benchmark"), at.text("class"))?,
    };
    let per_node = first(at, &["processes_per_node", "processes_per_instance", "processes", "row_processes"])?;
    let processes = match words.next().and_then(|p| p.parse().ok()) {
        Some(processes) => processes,
        None => match at.table_id() {
            "5.17" => at.count("nodes")? * per_node,
            _ => first(at, &["processes", "row_processes"])?,
        },
    };
    Ok(Row { problem, processes, per_node })
}

fn said(estimate: Estimate, model: &str) -> Modelled {
    Modelled { estimate, model: model.to_owned(), tier: Tier::NoRun }
}

fn data(row: &Row, open_mpi: bool) -> Result<Estimate, Because> {
    let arrays = Estimate::plus_minus(static_arrays_mib(row.problem, row.processes)?, BANDS_MIB[0]);
    let [least, most] = OPEN_MPI_DATA_MIB;
    let more = Estimate::between((least + most) / 2.0, least, most);
    Ok(if open_mpi { arrays.plus(more) } else { arrays })
}

/// Zones and files of the tables without collective I/O.
#[derive(Debug)]
pub struct NoRun;

impl ModelRule for NoRun {
    fn name(&self) -> &'static str {
        "no-run"
    }
    fn cell(&self, at: &At<'_>) -> Result<Modelled, Because> {
        let row = row(at)?;
        let open_mpi = at.text("mpi") == "OpenMPI";
        let shmem = || -> Result<Estimate, Because> {
            if open_mpi {
                return Ok(open_mpi_mib(row.per_node)?);
            }
            let c = match row.problem.benchmark {
                Benchmark::Bt | Benchmark::Sp => BUFFER_C_MIB,
                Benchmark::Lu | Benchmark::Cg => C_OF_LU_AND_CG_MIB,
            };
            Ok(Estimate::plus_minus(buffer_mib(row.per_node, c)?, BANDS_MIB[1]))
        };
        let lb = if open_mpi { library::OPEN_MPI_MIB } else { library::MPICH_MIB };
        let column = at.column_id();
        if column.contains("dtapp") {
            return Ok(said(data(&row, open_mpi)?, if open_mpi { "static arrays + 2.15 MiB" } else { "static arrays + 0.5 MiB" }));
        }
        if column.contains("shmem") {
            return Ok(said(shmem()?, if open_mpi { "constant of Open MPI" } else { "buffers of MPICH" }));
        }
        if column.contains("lb_") {
            return Ok(said(lb, "constant of the library"));
        }
        let data = data(&row, open_mpi)?;
        let file = data.value + lb.value + shmem()?.value;
        let file = if open_mpi { data.plus(lb).plus(shmem()?) } else { Estimate::plus_minus(file, BANDS_MIB[2]) };
        Ok(said(file, "static arrays + libraries + buffers"))
    }
}

/// What plain files of BT-IO FULL have above the sum of their zones, MiB.
const FULL_MIB: f64 = 1.9;

/// Files of BT-IO FULL with MPICH.
#[derive(Debug)]
pub struct NoRunIo;

impl ModelRule for NoRunIo {
    fn name(&self) -> &'static str {
        "no-run-io"
    }
    fn cell(&self, at: &At<'_>) -> Result<Modelled, Because> {
        let problem = problem("BT", at.text("class"))?;
        let processes = at.count("processes")?;
        let mapping = mapping(at)?;
        let load = load_of(&mapping, at.count("file_index")?)?;
        let plain = static_arrays_mib(problem, processes)? + library::ROMIO_MIB.value + buffer_mib(load, BUFFER_C_MIB)? + FULL_MIB;
        if at.number("is_aggregator")? == 0.0 {
            return Ok(said(Estimate::bare(plain), "static arrays + libraries + buffers + 1.9 MiB"));
        }
        let grid = problem.grid_points().ok_or_else(|| other("the program has no grid"))?;
        let surplus = aggregator_mib(bt_io_write_bytes(grid), mapping.nodes(), processes)?;
        Ok(said(Estimate::bare(plain + surplus), "the same + min(16, V/Na) + 0.228·P MiB"))
    }
}
