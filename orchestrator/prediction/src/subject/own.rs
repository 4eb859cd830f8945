//! Checkpoints that the program writes itself: their bytes, and the operations of collective I/O that write them.

use crate::predict::{
    forecast::{Answered, Forecast, Forecasts, Prediction},
    observation::Observation,
    predictor::Predictor,
    question::Question,
};
use crate::subject::contract::Subject;
use cvc_core::{quantity::Quantity, units::MIB};
use cvc_model::{Estimate, ModelInfo, MpiKind, Tier, application, size};

/// Bytes of ROMIO's default collective buffer.
const ROMIO_BUFFER: u64 = 16 << 20;

const DECLARED: ModelInfo = ModelInfo {
    id: "own-bytes",
    title: "the bytes that the descriptor declares",
    formula: "MiB = bytes/2^20, without headers",
    source: "the application's descriptor, `checkpoint.bytes`",
    tier: Tier::NoRun,
    parameters: 0,
};

const OPERATIONS: ModelInfo = ModelInfo {
    id: "own-operations",
    title: "rounds of two-phase I/O",
    formula: "parts · (A·⌈V/(parts·A·B)⌉), A aggregators, B bytes of the collective buffer",
    source: "ROMIO's file domains; thesis, section 4.2, Table 4.8",
    tier: Tier::NoRun,
    parameters: 0,
};

/// Subject of checkpoints that the program writes itself.
pub(super) struct Own;

impl Subject for Own {
    fn is_observed(&self, _: &[Observation]) -> bool {
        true
    }

    fn forecast(&self, predictor: &Predictor<'_>, question: &Question, to: &mut Forecasts) {
        if let Some(bytes) = predictor.own_checkpoint(question) {
            to.add(Quantity::Application, None, bytes);
            operations(question, to);
        }
    }
}

impl Predictor<'_> {
    /// Returns the bytes of a checkpoint that the program writes itself; `None` if neither runs nor its descriptor give a size. The contents of the
    /// file do not depend on the MPI library.
    fn own_checkpoint(&self, question: &Question) -> Option<Answered> {
        let setting = &question.setting;
        let has_size = setting.size.is_some();
        let seen = |o: &Observation| {
            o.setting.app == setting.app
                && o.value(Quantity::Application).is_some()
                && (o.setting.class == setting.class || has_size && o.setting.size.is_some())
        };
        let at = setting.on_node(setting.mapping.node_loads().max()?);
        let declared = size::declared_own_mib(&at);
        if self.count(seen) == 0 {
            let mib = declared.ok()?;
            let reason = "no run with own checkpoints was observed";
            return Some(Answered::of(Prediction::new(
                DECLARED,
                Estimate::bare(mib),
                reason,
            )));
        }
        let alike = |o: &Observation| o.setting.class.clone();
        Some(self.ask(Quantity::Application, size::own_models(), &seen, alike, &at))
    }
}

/// Adds the operations of a program with collective writes, if its descriptor gives the number of calls.
fn operations(question: &Question, to: &mut Forecasts) {
    let setting = &question.setting;
    let Some(own) = setting.size.as_ref().and_then(|size| size.own_checkpoint) else {
        return;
    };
    let aggregators = setting.aggregators.unwrap_or(setting.mapping.nodes());
    let buffer = setting.cb_buffer.map_or(ROMIO_BUFFER, |buffer| buffer.0);
    let counted = [
        (Quantity::OwnWrites, own.writes),
        (Quantity::OwnReads, own.reads),
    ];
    for (quantity, parts) in counted {
        let (Some(parts), Some(all)) = (parts, own.writes.filter(|_| question.collective)) else {
            continue;
        };
        let rounds = application::collective_rounds(own.bytes / all, aggregators, buffer as f64);
        let answered = match rounds {
            Ok(rounds) => {
                let number = Estimate::exact(parts * rounds);
                let reason = format!(
                    "{aggregators} aggregators, buffers of {} MiB",
                    buffer as f64 / MIB
                );
                Answered::of(Prediction::new(OPERATIONS, number, reason))
            }
            Err(why) => Answered::none(why.to_string()),
        };
        if let Forecast::Predicted(_) = to.add(quantity, None, answered)
            && setting.mpi == MpiKind::OpenMpi
        {
            to.warnings.push("the number of writes is that of ROMIO; Open MPI's own OMPIO divides files by other rules".to_owned());
        }
    }
}
