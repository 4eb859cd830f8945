//! Records of other activity on the nodes during a run.

use super::{
    judge::Judge,
    noise::{Disturbance, Noise},
};
use crate::transport::Transport;
use cvc_core::record::{Source, Unit, names};
use cvc_probe::shepherd::Exit;

impl Judge<'_> {
    /// Records disturbances of the run and its restart. They never make the run a failure.
    pub(super) fn noise(&mut self) {
        let evidence = self.evidence;
        self.disturbances(evidence.noise, evidence.exit.as_ref(), None);
        if let Some(restarted) = evidence.restarted() {
            self.disturbances(
                &restarted.noise,
                restarted.exit.as_ref(),
                Some(("during", "restart".to_owned())),
            );
        }
    }

    fn disturbances(
        &mut self,
        noise: &Noise,
        exit: Option<&Exit>,
        during: Option<(&'static str, String)>,
    ) {
        let used = &self.evidence.prepared.run.used;
        // the shepherd's measured time includes all ranks only if nothing else starts them: other ranks are children of ssh's or Slurm's daemons
        let is_own = !used.several() && matches!(used.transport, Transport::Local | Transport::Ssh);
        let own_cpu_s = exit
            .filter(|_| is_own)
            .map(|exit| exit.user_s + exit.system_s);
        for (node, after) in &noise.after {
            let Some(before) = noise.before.get(node) else {
                continue;
            };
            let Some(found) = Disturbance::between(before, after, own_cpu_s) else {
                continue;
            };
            let of_node = (used.transport != Transport::Local).then(|| ("node", node.clone()));
            let labels: Vec<(&str, String)> = during.clone().into_iter().chain(of_node).collect();
            let [cpu, io, memory] = found.pressure;
            let values = [
                (names::STEAL_SHARE, found.steal, Unit::One),
                (names::OTHER_CPU_SHARE, found.other_cpu, Unit::One),
                (names::CPU_PRESSURE_SHARE, cpu, Unit::One),
                (names::IO_PRESSURE_SHARE, io, Unit::One),
                (names::MEMORY_PRESSURE_SHARE, memory, Unit::One),
                (names::SWAPPED_BYTES, found.swapped_bytes, Unit::Bytes),
                (
                    names::RUNNABLE_BEFORE,
                    before.activity.runnable.map(f64::from),
                    Unit::Count,
                ),
            ];
            for (name, value, unit) in values {
                if let Some(value) = value {
                    self.record(name, value, unit, Source::Kernel, None, &labels);
                }
            }
        }
    }
}
