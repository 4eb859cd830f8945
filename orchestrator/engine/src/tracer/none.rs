//! No tracing.

use super::{
    contract::{Instrumentation, Tracer},
    totals::Totals,
};
use crate::mpi::{Launcher, Missing};
use camino::{Utf8Path, Utf8PathBuf};

/// The tracer that traces nothing.
pub(super) struct NoTracer;

impl Tracer for NoTracer {
    fn name(&self) -> &'static str {
        "none"
    }

    fn title(&self) -> &'static str {
        "no tracer"
    }

    fn find(&self) -> Result<Utf8PathBuf, Missing> {
        Ok(Utf8PathBuf::new())
    }

    fn instrument(&self, _: &Utf8Path, _: &Utf8Path, _: &dyn Launcher) -> Instrumentation {
        Instrumentation::default()
    }

    fn trace(&self) -> Option<&'static str> {
        None
    }

    fn add_up(&self, _: &Utf8Path, _: &mut Totals<'_>) -> Result<(), cvc_trace::TraceError> {
        Ok(())
    }

    fn cost_of_absence(&self) -> &'static str {
        "nothing"
    }
}
