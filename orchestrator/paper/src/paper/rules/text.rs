//! Rules for equations and numbers in the thesis's running text.

use super::{CellContext, NotRecomputable, Rule, sizes::OF_TABLE_5_10};
use crate::paper::Recomputed;
use cvc_core::mapping::Mapping;
use cvc_core::units::MIB;
use cvc_model::{
    Estimate,
    application::own_checkpoint_mib,
    dtapp::PowerLaw,
    error_pct, least_squares,
    shmem::algorithm2_mib,
    stored::{Aggregators, FileGroup, files},
    surplus::{IoLayer, bt_io_write_bytes, buffer_mib, constant_mib},
};

/// The rule that recomputes the coefficients of the equations.
#[derive(Debug)]
pub struct FittedEquation;

/// Returns (processes, size) pairs from a column of a table, for the given numbers of processes.
fn points(
    at: &CellContext<'_>,
    table: &str,
    columns: [&str; 2],
    with: &[(&str, &str)],
    counts: &[&str],
) -> Result<Vec<(u32, f64)>, NotRecomputable> {
    counts
        .iter()
        .map(|p| {
            let with: Vec<(&str, &str)> = with.iter().copied().chain([(columns[0], *p)]).collect();
            let row = at.find(table, &with)?;
            Ok((row.count(columns[0])?, row.number(columns[1])?))
        })
        .collect()
}

impl Rule for FittedEquation {
    fn name(&self) -> &'static str {
        "fitted-equation"
    }
    fn about(&self) -> &'static str {
        "3.10: the power law through BT.B of Table 5.16 on 4, 25 and 36 processes; 3.11: the parabola through SP.B of Table 4.2 on 4, 25 and 36; the \
         equations behind the figures and Tables 4.5 and 4.6: the power law with the digits of a spreadsheet's label"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let equation = at.text("equation");
        let measured = ["row_processes", "meas_dtapp_MiB"];
        let law = match equation {
            "3.10" => {
                let columns = ["class_b_processes", "class_b_dtapp_MiB"];
                PowerLaw::fit(&points(
                    at,
                    "5.16",
                    columns,
                    &[("benchmark", "BT")],
                    &["4", "25", "36"],
                )?)?
                .law
            }
            "3.11" => {
                let cells = points(
                    at,
                    "4.2",
                    ["row_processes", "meas_shmem_MiB"],
                    &[],
                    &["4", "25", "36"],
                )?;
                let rows: Vec<Vec<f64>> = cells
                    .iter()
                    .map(|(p, _)| f64::from(*p))
                    .map(|p| vec![p * p, p, 1.0])
                    .collect();
                let values: Vec<f64> = cells.iter().map(|(_, v)| *v).collect();
                let fit = least_squares(&rows, &values, None)?;
                let index = ["a", "b", "c"].iter().position(|c| *c == at.column_id());
                return index
                    .map(|i| Recomputed::new(fit.coefficients[i]))
                    .ok_or(NotRecomputable::Input);
            }
            "fig4.3" => PowerLaw::fit(&points(at, "4.1", measured, &[], &["16", "25", "36"])?)?
                .law
                .rounded(),
            "fig4.4" => PowerLaw::fit(&points(at, "4.2", measured, &[], &["4", "16", "25"])?)?
                .law
                .rounded(),
            "fig4.5" => PowerLaw::fit(&points(
                at,
                "4.3",
                ["processes", "meas_dtapp_MiB"],
                &[],
                &["16", "25", "36"],
            )?)?
            .law
            .rounded(),
            "tables 4.5/4.6" => {
                let with = [("benchmark", "BT"), ("class", "D"), ("mpi", "MPICH")];
                PowerLaw::fit(&points(
                    at,
                    "5.1",
                    ["processes", "dtapp_MiB"],
                    &with,
                    &["25", "36", "49"],
                )?)?
                .law
                .rounded()
            }
            _ => {
                return Err(NotRecomputable::Other(
                    "the writes that it was fitted on are not printed".to_owned(),
                ));
            }
        };
        match at.column_id() {
            "a" => Ok(Recomputed::new(law.a_mib)),
            "b" => Ok(Recomputed::new(law.b)),
            _ => Err(NotRecomputable::Other(
                "a power law has no such coefficient".to_owned(),
            )),
        }
    }
}

/// The rule that recomputes numbers in the running text for which the thesis has a formula.
#[derive(Debug)]
pub struct TextFact;

/// Data zone and libraries of BT.C.25 FULL that follow from the sizes in section 4.1.1, MiB.
const DTAPP_AND_LB_OF_USE_CASE: f64 = 82.15;

/// Returns the files of the use case in section 4.1.1.
fn use_case() -> Result<Vec<FileGroup>, NotRecomputable> {
    let mapping = "6Nx4P+1Nx1P".parse::<Mapping>();
    let mapping = mapping.map_err(|error| NotRecomputable::Other(error.to_string()))?;
    let surplus = Estimate::exact(constant_mib(IoLayer::Romio));
    Ok(files(&mapping, Aggregators::OnePerNode, surplus, |load| {
        let shmem = algorithm2_mib(load, OF_TABLE_5_10)?;
        Ok(Estimate::exact(DTAPP_AND_LB_OF_USE_CASE + shmem))
    })?)
}

/// Returns the median file size of BT.C.25 in Table 5.8 on full nodes. `aggregator` is the text in the column `is_aggregator`.
fn typical(at: &CellContext<'_>, aggregator: &str) -> Result<f64, NotRecomputable> {
    let mut sizes = Vec::new();
    for row in at
        .rows_of("5.8")?
        .filter(|r| r.text("class") == "C" && r.text("processes") == "25")
    {
        if row.text("is_aggregator") == aggregator && row.text("file_index") != "24" {
            sizes.push(row.number("file_MiB")?);
        }
    }
    sizes.sort_by(f64::total_cmp);
    let middle = sizes.len() / 2;
    match sizes.len() {
        0 => Err(NotRecomputable::Other(
            "Table 5.8 has no such file".to_owned(),
        )),
        n if n % 2 == 1 => Ok(sizes[middle]),
        _ => Ok((sizes[middle - 1] + sizes[middle]) / 2.0),
    }
}

impl Rule for TextFact {
    fn name(&self) -> &'static str {
        "text-fact"
    }
    fn about(&self) -> &'static str {
        "section 3.2.2: each of the 40 steps of BT.C writes 40·162³ bytes in pieces of 16 MiB; section 4.1.1: Algorithm 1 with 82.15 MiB of data and \
         libraries, inferred from the plain file, against the medians of Table 5.8; section 4.2: half of the grid of 4 processes"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        if at.text("section") == "4.1.1"
            && (at.text("quantity").contains("size") || at.text("quantity").contains("error"))
        {
            at.rests_on("82.15 MiB of data and libraries, C1 = 31.07");
        }
        let group = |load: u32, aggregator: bool| -> Result<FileGroup, NotRecomputable> {
            let found = use_case()?
                .into_iter()
                .find(|g| g.node_load == load && g.aggregator == aggregator);
            found.ok_or_else(|| NotRecomputable::Other("Algorithm 1 gives no such file".to_owned()))
        };
        let step_mib = bt_io_write_bytes(162) as f64 / MIB;
        let piece_mib = buffer_mib(bt_io_write_bytes(162), 1)?;
        let value = match (at.text("section"), at.text("quantity")) {
            ("3.2.2", "application writes") => 40.0 * (step_mib / piece_mib).ceil(),
            ("3.2.2", "last write of each burst") => {
                step_mib - piece_mib * (step_mib / piece_mib).floor()
            }
            ("4.1.1", "plain files") => f64::from(group(4, false)?.count),
            ("4.1.1", "plain file size estimated") => group(4, false)?.size.value,
            ("4.1.1", "aggregator files (4 per node)") => f64::from(group(4, true)?.count),
            ("4.1.1", "aggregator file size estimated (4 per node)") => group(4, true)?.size.value,
            ("4.1.1", "aggregator files (1 per node)") => f64::from(group(1, true)?.count),
            ("4.1.1", "aggregator file size estimated (1 per node)") => group(1, true)?.size.value,
            ("4.1.1", "stated error of plain files") => error(group(4, false)?, typical(at, "0")?)?,
            // 5.8 % is printed as 5 %
            ("4.1.1", "stated error of aggregator files") => {
                return Ok(Recomputed::or_cut(error(
                    group(4, true)?,
                    typical(at, "1")?,
                )?));
            }
            ("4.2", "data written per aggregator (2 aggregators)") => {
                own_checkpoint_mib(4, 100, 100, 100, 5, 8)? / 2.0
            }
            _ => return Err(NotRecomputable::Measurement),
        };
        Ok(Recomputed::new(value))
    }
}

fn error(estimated: FileGroup, measured: f64) -> Result<f64, NotRecomputable> {
    error_pct(estimated.size.value, measured)
        .ok_or_else(|| NotRecomputable::Other("the measured size is 0".to_owned()))
}
