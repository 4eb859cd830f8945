//! Rules for the worked examples about the number of checkpoints (thesis, Tables 4.5 and 4.6).

use super::{CellContext, NotRecomputable, Rule, sizes::shared_memory};
use crate::paper::Recomputed;
use cvc_core::units::MIB;
use cvc_model::{dtapp::PowerLaw, error_pct, library, schedule, zone_time};

/// The rule that recomputes all rows of the examples.
#[derive(Debug)]
pub struct Checkpoints;

/// Numbers of processes in Table 5.1 that the power law of the examples is fitted to.
const TRAINING: [&str; 3] = ["25", "36", "49"];

/// Returns the number in a row of the example.
fn line(at: &CellContext<'_>, quantity: &str, column: &str) -> Result<f64, NotRecomputable> {
    let row = at.rows().find(|r| r.text("quantity") == quantity);
    row.ok_or_else(|| NotRecomputable::Other(format!("no line `{quantity}`")))?
        .number(column)
}

/// The inputs of an example.
struct Example {
    dtapp_mib: f64,
    lb_mib: f64,
    shmem: Recomputed,
    zones_s: [f64; 3],
    app_s: f64,
    overhead: f64,
}

impl Example {
    fn of(at: &CellContext<'_>) -> Result<Self, NotRecomputable> {
        let count = |quantity: &str| -> Result<u32, NotRecomputable> {
            let value = line(at, quantity, "single_value")?;
            if value.fract() == 0.0 && value >= 0.0 {
                Ok(value as u32)
            } else {
                Err(NotRecomputable::Other(format!(
                    "`{quantity}` is not a whole number"
                )))
            }
        };
        let mut points = Vec::new();
        for p in TRAINING {
            let row = at.find(
                "5.1",
                &[
                    ("benchmark", "BT"),
                    ("class", "D"),
                    ("processes", p),
                    ("mpi", "MPICH"),
                ],
            )?;
            points.push((row.count("processes")?, row.number("dtapp_MiB")?));
        }
        let dtapp_mib = PowerLaw::fit(&points)?
            .law
            .rounded()
            .at(count("total_processes")?)?;
        let lb_mib = library::MPICH_MIB.value;
        let shmem = shared_memory(at.table_id(), count("processes_per_node")?)?;
        let zones_s = [
            zone_time::dtapp_s(dtapp_mib * MIB)?,
            zone_time::lb_s(lb_mib * MIB)?,
            zone_time::shmem_s(shmem.value() * MIB)?,
        ];
        Ok(Self {
            dtapp_mib,
            lb_mib,
            shmem,
            zones_s,
            app_s: line(at, "app_time", "single_value")?,
            overhead: line(at, "overhead_budget", "single_value")? / 100.0,
        })
    }

    fn checkpoint_s(&self) -> f64 {
        self.zones_s.iter().sum()
    }

    fn schedule(&self) -> Result<schedule::Schedule, NotRecomputable> {
        Ok(schedule::published(
            self.app_s,
            self.checkpoint_s(),
            self.overhead,
        )?)
    }
}

impl Rule for Checkpoints {
    fn name(&self) -> &'static str {
        "checkpoint-example"
    }
    fn about(&self) -> &'static str {
        "data: the power law through 25, 36 and 49 processes of Table 5.1; shared memory: equation 3.11; zone times: equations 5.1 to 5.3 with sizes in \
         bytes; k = ⌊f·T/t⌋, of which k − 1 are taken, every (1 + f)·T/k; total T + (k − 1)·t. Chains of unrounded numbers, printed rounded or cut off"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let quantity = at.text("quantity");
        match (at.column_id(), quantity) {
            ("measured", "ckpt_file") => sum(at, ["dtapp", "lb", "shmem"]),
            ("measured", "one_ckpt_time") => sum(at, ["dtapp_time", "lb_time", "shmem_time"]),
            ("measured", _) => Err(NotRecomputable::Measurement),
            ("estimated", _) => {
                match quantity {
                    "lb" => at.rests_on("2.45 MiB"),
                    "shmem" => at.rests_on("where equation 3.11 replaces Algorithm 2"),
                    _ => {}
                }
                estimated(&Example::of(at)?, quantity)
            }
            (_, "ckpt_count") => Ok(Recomputed::new(Example::of(at)?.schedule()?.count as f64)),
            (_, "ckpt_interval") => {
                let interval = Example::of(at)?.schedule()?.interval_s;
                interval
                    .map(Recomputed::new)
                    .ok_or_else(|| NotRecomputable::Other("no checkpoint is taken".to_owned()))
            }
            (_, "total_time_error") => {
                let total = Example::of(at)?.schedule()?.total_s;
                let measured = line(at, "app_plus_two_ckpt_time", "measured")?;
                error_pct(total, measured)
                    .map(Recomputed::new)
                    .ok_or_else(|| NotRecomputable::Other("the measured time is 0".to_owned()))
            }
            (_, "app_time") => Err(NotRecomputable::Measurement),
            (_, _) => Err(NotRecomputable::Input),
        }
    }
}

fn sum(at: &CellContext<'_>, lines: [&str; 3]) -> Result<Recomputed, NotRecomputable> {
    let mut sum = 0.0;
    for quantity in lines {
        sum += line(at, quantity, "measured")?;
    }
    Ok(Recomputed::new(sum))
}

fn estimated(example: &Example, quantity: &str) -> Result<Recomputed, NotRecomputable> {
    Ok(match quantity {
        "dtapp" => Recomputed::new(example.dtapp_mib),
        "lb" => Recomputed::new(example.lb_mib),
        "shmem" => example.shmem,
        "ckpt_file" => {
            Recomputed::or_cut(example.dtapp_mib + example.lb_mib + example.shmem.value())
        }
        "dtapp_time" => Recomputed::new(example.zones_s[0]),
        "lb_time" => Recomputed::new(example.zones_s[1]),
        "shmem_time" => Recomputed::new(example.zones_s[2]),
        "one_ckpt_time" => Recomputed::new(example.checkpoint_s()),
        "two_ckpt_time" => {
            Recomputed::or_cut(example.schedule()?.count as f64 * example.checkpoint_s())
        }
        "app_plus_two_ckpt_time" => Recomputed::or_cut(example.schedule()?.total_s),
        _ => {
            return Err(NotRecomputable::Other(
                "the examples do not explain its computation".to_owned(),
            ));
        }
    })
}
