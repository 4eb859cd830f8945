//! Rules for the overhead of asynchronous checkpoints (slides of Shahzad et al.).

use super::{CellContext, NotRecomputable, Rule};
use crate::paper::Recomputed;
use cvc_model::asynchronous::{overhead_s, synchronous_s};

/// The rule that recomputes the overhead in the example of the authors' model.
#[derive(Debug)]
pub struct AsynchronousOverhead;

/// Returns a value of the example by its symbol.
fn symbol(at: &CellContext<'_>, symbol: &str) -> Result<f64, NotRecomputable> {
    let row = at.rows_of("model")?.find(|r| r.text("symbol") == symbol);
    row.ok_or_else(|| NotRecomputable::Other(format!("no value {symbol}")))?
        .number("value")
}

impl Rule for AsynchronousOverhead {
    fn name(&self) -> &'static str {
        "asynchronous-overhead"
    }
    fn about(&self) -> &'static str {
        "n·m·S/B: checkpoints, memory traffic for each byte written, size and memory bandwidth of a node"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        match at.text("symbol") {
            "t_est" => {
                let n = symbol(at, "n")?;
                Ok(Recomputed::new(overhead_s(
                    n.round() as u32,
                    symbol(at, "m")?,
                    symbol(at, "S_node")?,
                    symbol(at, "B_M")?,
                )?))
            }
            "t_meas" => Err(NotRecomputable::Measurement),
            _ => Err(NotRecomputable::Input),
        }
    }
}

/// The rule that recomputes the time of asynchronous checkpoints relative to the run time.
#[derive(Debug)]
pub struct AsynchronousShare;

impl Rule for AsynchronousShare {
    fn name(&self) -> &'static str {
        "asynchronous-share"
    }
    fn about(&self) -> &'static str {
        "the model's m·S/B for one checkpoint, of a run time that follows from the synchronous share: size/bandwidth/share. Only for LiMa, whose memory \
         bandwidth is given"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        if at.text("cluster") != "LiMa" {
            return Err(NotRecomputable::Other(
                "the memory bandwidth of this cluster is not given".to_owned(),
            ));
        }
        let share = at.number("sync_overhead_pct_per_ckpt")? / 100.0;
        let synchronous = synchronous_s(
            1,
            at.number("checkpoint_GB")?,
            at.number("pfs_bandwidth_GBps")?,
        )?;
        if share <= 0.0 {
            return Err(NotRecomputable::Other(
                "the synchronous share is 0".to_owned(),
            ));
        }
        let per_node = at.number("checkpoint_GB")? / at.number("nodes_used")?;
        let asynchronous = overhead_s(1, symbol(at, "m")?, per_node, symbol(at, "B_M")?)?;
        Ok(Recomputed::new(
            100.0 * asynchronous / (synchronous / share),
        ))
    }
}
