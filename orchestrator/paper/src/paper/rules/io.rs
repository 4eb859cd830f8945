//! Rules for file sizes with collective I/O: the thesis's Algorithm 1 (Tables 5.8, 5.9, 5.11, 5.15).

use super::{CellContext, NotRecomputable, Rule, sizes::OF_TABLE_5_10};
use crate::paper::Recomputed;
use cvc_core::mapping::Mapping;
use cvc_model::{
    library,
    shmem::algorithm2_mib,
    surplus::{IoLayer, constant_mib},
};

/// The rule that recomputes the size of a file by Algorithm 1.
#[derive(Debug)]
pub struct Algorithm1;

/// Returns the mapping of a row. Spaces in the printed text are removed.
pub(super) fn mapping(at: &CellContext<'_>) -> Result<Mapping, NotRecomputable> {
    let written = [at.text("mapping"), at.text("mapping_printed")]
        .concat()
        .replace(' ', "");
    let mapping = written.parse::<Mapping>();
    mapping.map_err(|error| NotRecomputable::Other(error.to_string()))
}

/// Returns the number of processes on the node of a process.
pub(super) fn load_of(mapping: &Mapping, process: u32) -> Result<u32, NotRecomputable> {
    let mut first = 0;
    for load in mapping.node_loads() {
        first += load;
        if process < first {
            return Ok(load);
        }
    }
    Err(NotRecomputable::Other(format!(
        "{mapping} has no process {process}"
    )))
}

/// Returns whether two cells belong to the same run of a table.
fn same_run(a: &CellContext<'_>, b: &CellContext<'_>) -> bool {
    ["class", "processes", "run"]
        .iter()
        .all(|c| a.text(c) == b.text(c))
}

/// Returns BT's data zone with MPICH, MiB, which is printed in another table.
fn data_zone(at: &CellContext<'_>, class: &str, processes: &str) -> Result<f64, NotRecomputable> {
    let (count, size) = match class {
        "B" => ("class_b_processes", "class_b_dtapp_MiB"),
        _ => ("class_c_processes", "class_c_dtapp_MiB"),
    };
    let of_table_5_1 = || {
        at.find(
            "5.1",
            &[("class", class), ("processes", processes), ("mpi", "MPICH")],
        )?
        .number("dtapp_MiB")
    };
    let of_table_5_16 = || {
        at.find("5.16", &[("benchmark", "BT"), (count, processes)])?
            .number(size)
    };
    of_table_5_1().or_else(|_| of_table_5_16()).map_err(|_| {
        NotRecomputable::Other(format!(
            "the data zone of BT.{class} with {processes} processes is not printed"
        ))
    })
}

impl Rule for Algorithm1 {
    fn name(&self) -> &'static str {
        "algorithm-1"
    }
    fn about(&self) -> &'static str {
        "Algorithm 1: data zone (Tables 5.1, 5.16) + libraries (7.71 MiB with ROMIO) + shared memory (Algorithm 2 for the node's processes, C1 = 31.07, C2 = 61.93), \
         and 16 MiB more for an aggregator. Where that data zone or a formula of the shared memory is missing (FLASH, Open MPI), an aggregator is the \
         mean of the plain files on as full nodes of its run and 16 MiB (ROMIO) or 32 MiB (OMPIO)"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let aggregates = at.number("is_aggregator")? != 0.0;
        let layer = if at.table_id() == "5.11" {
            IoLayer::Ompio
        } else {
            IoLayer::Romio
        };
        let surplus = if aggregates { constant_mib(layer) } else { 0.0 };
        let mapping = mapping(at)?;
        let load = load_of(&mapping, at.count("file_index")?)?;
        if matches!(at.table_id(), "5.8" | "5.9")
            && let Ok(dtapp) = data_zone(at, at.text("class"), at.text("processes"))
        {
            let shmem = algorithm2_mib(load, OF_TABLE_5_10)?;
            return Ok(Recomputed::new(
                dtapp + library::ROMIO_MIB.value + shmem + surplus,
            ));
        }
        if !aggregates {
            return Err(match at.table_id() {
                "5.8" | "5.9" => data_zone(at, at.text("class"), at.text("processes"))
                    .err()
                    .unwrap_or(NotRecomputable::Measurement),
                "5.11" => NotRecomputable::Other(
                    "no formula for the shared memory of Open MPI".to_owned(),
                ),
                _ => NotRecomputable::Other("the zones of this program are not printed".to_owned()),
            });
        }
        let mut plain = Vec::new();
        for row in at.rows().filter(|r| same_run(r, at)) {
            if row.number("is_aggregator")? == 0.0
                && load_of(&mapping, row.count("file_index")?)? == load
            {
                plain.push(row.number("file_MiB")?);
            }
        }
        if plain.is_empty() {
            return Err(NotRecomputable::Other(
                "no plain file of a node as full is printed".to_owned(),
            ));
        }
        Ok(Recomputed::new(
            plain.iter().sum::<f64>() / plain.len() as f64 + surplus,
        ))
    }
}
