//! Checkpoints of a point: which software takes them and when, how each is processed, and where they are stored.

use super::{
    deltas::DeltaSettings,
    levels::{LEVELS, LevelSettings},
    model::{CheckpointSettings, Site, StorageKind},
    spec::Spec,
};
use crate::point::{CheckpointerKind, Compression, Moment, Point};
use crate::strategy::LevelScheme;
use camino::{Utf8Path, Utf8PathBuf};

/// Name of a directory for temporary files of stages, in the working directory of a run. The directory is never kept after the run.
pub const SCRATCH: &str = ".cvc-deltas";

/// How the checkpoints of a point are handled. The plan depends only on the point's factors and the campaign's settings, so that all parts of cvc
/// agree.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointPlan {
    taker: CheckpointerKind,
    timing: Timing,
    compression: Compression,
    restarts: u32,
    timeout_s: f64,
    stages: Vec<StagePlan>,
    places: Vec<Place>,
}

/// What determines the times of checkpoints.
#[derive(Clone, Debug, PartialEq)]
pub enum Timing {
    /// No checkpoint is taken.
    Never,
    /// cvc requests checkpoints at these moments.
    Requested(Moment),
    /// The program decides when to write checkpoints. If they are a series, cvc reads each one as it appears; otherwise cvc reads only the last one.
    ByProgram {
        /// Whether cvc reads each checkpoint as it appears.
        is_series: bool,
    },
}

impl CheckpointSettings {
    /// Returns whether a point's own checkpoints are a series, and the settings of deltas if the checkpoints are compared. The point's
    /// [`CheckpointPlan`] has both, too; this function does not build the plan.
    pub fn series_of(&self, point: &Point) -> (bool, Option<&DeltaSettings>) {
        let timing = Timing::of(self, point, None);
        (
            timing.is_own_series(),
            self.deltas.as_ref().filter(|_| timing.is_compared(self)),
        )
    }
}

impl CheckpointSettings {
    /// Returns how nodes keep the checkpoints of a point; `None` if nodes do not keep them.
    pub fn levels_of(&self, point: &Point) -> Option<LevelSettings> {
        let is_kept =
            point.checkpointer.takes_checkpoints() && point.strategy.level_scheme().is_some();
        is_kept.then(|| self.levels.clone().unwrap_or_default())
    }
}

impl Timing {
    fn of(settings: &CheckpointSettings, point: &Point, levels: Option<LevelScheme>) -> Self {
        let taker = point.checkpointer;
        if taker.is_driven() {
            let moment = point.moment.as_ref().unwrap_or(&settings.moment);
            Self::Requested(moment.clone())
        } else if taker.has_own_files() {
            Self::ByProgram {
                is_series: settings.own_series || levels.is_some(),
            }
        } else {
            Self::Never
        }
    }

    /// Returns whether the program's own checkpoints are a series.
    fn is_own_series(&self) -> bool {
        matches!(self, Self::ByProgram { is_series: true })
    }

    /// Returns whether each checkpoint is compared with earlier ones.
    fn is_compared(&self, settings: &CheckpointSettings) -> bool {
        match self {
            Self::Never => false,
            Self::Requested(moment) => moment.is_compared(),
            Self::ByProgram { .. } => settings.own_series,
        }
    }
}

/// A stage that processes each complete checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum StagePlan {
    /// The checkpoint is compared with all earlier ones.
    Compare,
    /// The checkpoint is stored as changes since an earlier one.
    Delta {
        /// Settings of the deltas.
        deltas: DeltaSettings,
        /// Place of the deltas while the run is active.
        place: Place,
    },
    /// Nodes keep the checkpoint on their own storage, with redundancy.
    Levels(LevelPlan),
}

/// How nodes keep the checkpoints of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelPlan {
    /// Redundancy that survives the loss of a node.
    pub scheme: LevelScheme,
    /// Number of checkpoints, groups of nodes, and copies to shared storage.
    pub settings: LevelSettings,
    /// Place of the checkpoints while the run is active.
    pub place: Place,
    /// Place to which checkpoints are copied, on shared storage.
    pub flushed: Option<Place>,
}

impl StagePlan {
    /// Returns the places where the stage stores checkpoints.
    fn places(&self) -> impl Iterator<Item = &Place> {
        let (first, second) = match self {
            Self::Compare => (None, None),
            Self::Delta { place, .. } => (Some(place), None),
            Self::Levels(plan) => (Some(&plan.place), plan.flushed.as_ref()),
        };
        first.into_iter().chain(second)
    }

    /// Returns the space and I/O of this stage for a series of `states` checkpoints. `is_held` means that the stage works on copies of the files,
    /// because the program does not wait for the stage.
    fn load(&self, states: f64, is_held: bool) -> StageLoad {
        match self {
            Self::Compare => StageLoad::default(),
            Self::Levels(plan) => {
                let peak = plan.settings.peak(plan.scheme);
                StageLoad {
                    peak,
                    kept: 0.0,
                    // each checkpoint is read and written once by its own node, and once for the redundancy on other nodes
                    handled: states * (1.0 + peak / f64::from(plan.settings.keep + 1)),
                }
            }
            Self::Delta { deltas, .. } => {
                let space = |way: super::DeltaWay| way.most_states(states);
                let mut ways = deltas.ways().map(space);
                let first = ways.next().unwrap_or(0.0);
                let other = ways.fold(0.0, f64::max);
                let copies = if is_held { 2.0 } else { 1.0 };
                StageLoad {
                    // the deltas of the run, those of another method next to them, and restored checkpoints
                    peak: first + other + copies,
                    kept: if deltas.keep { first } else { 0.0 },
                    // each checkpoint is read, stored and restored
                    handled: deltas.ways().count() as f64 * states * 3.0,
                }
            }
        }
    }
}

/// Space and I/O of stages, as multiples of the size of one checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageLoad {
    /// Maximum space during the run.
    pub peak: f64,
    /// Space that is kept after the run.
    pub kept: f64,
    /// Bytes read and written, mostly after the program's end.
    pub handled: f64,
}

/// Where checkpoints are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the storage area of the site.
    pub storage: String,
    /// Directory in the storage area.
    pub directory: Directory,
    /// Which nodes have the files.
    pub reach: Reach,
}

impl Place {
    /// Returns whether the files still exist after a loss of this kind.
    pub fn survives(&self, loss: Loss) -> bool {
        match (loss, self.reach) {
            (Loss::Process, _) | (Loss::Node, Reach::Partner | Reach::Site) => true,
            (Loss::Node, Reach::Node) | (Loss::Site, _) => false,
        }
    }
}

/// The directory of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// The working directory of the run itself.
    Work,
    /// A directory of this name in the working directory.
    Below(&'static str),
}

impl Directory {
    /// Returns the path for a run with this working directory.
    pub fn of(self, work: &Utf8Path) -> Utf8PathBuf {
        match self {
            Self::Work => work.to_owned(),
            Self::Below(name) => work.join(name),
        }
    }
}

/// Which nodes have the files of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Each node has the files of its own processes.
    Node,
    /// Each node has the files of its own processes, and another node has a copy.
    Partner,
    /// All nodes of the site have the files, because the storage is shared.
    Site,
}

impl From<StorageKind> for Reach {
    fn from(kind: StorageKind) -> Self {
        match kind {
            StorageKind::NodeLocal => Self::Node,
            StorageKind::Shared => Self::Site,
        }
    }
}

/// What is lost, together with the files that exist only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Processes of a run.
    Process,
    /// One node of a run.
    Node,
    /// The site.
    Site,
}

impl CheckpointPlan {
    /// Returns the plan for a point of a site.
    pub fn of(settings: &CheckpointSettings, site: Option<&Site>, point: &Point) -> Self {
        let taker = point.checkpointer;
        let levels = taker
            .takes_checkpoints()
            .then(|| point.strategy.level_scheme())
            .flatten();
        let timing = Timing::of(settings, point, levels);
        let area = site.and_then(|site| site.storage.get(&point.storage));
        let reach = area.map(|area| area.kind).unwrap_or_default().into();
        let place = |directory| Place {
            storage: point.storage.clone(),
            directory,
            reach,
        };
        let mut stages = Vec::new();
        if timing.is_compared(settings) {
            stages.push(StagePlan::Compare);
            stages.extend(settings.deltas.as_ref().map(|deltas| StagePlan::Delta {
                deltas: deltas.clone(),
                place: place(Directory::Below(SCRATCH)),
            }));
        }
        stages.extend(levels.map(|scheme| {
            let settings = settings.levels.clone().unwrap_or_default();
            let flushed = settings.flush.as_ref().map(|flush| Place {
                storage: flush.to.clone(),
                directory: Directory::Work,
                reach: Reach::Site,
            });
            let place = Place {
                reach: match scheme {
                    LevelScheme::Local => reach,
                    LevelScheme::Partner | LevelScheme::Xor => reach.max(Reach::Partner),
                },
                ..place(Directory::Below(LEVELS))
            };
            StagePlan::Levels(LevelPlan {
                scheme,
                settings,
                place,
                flushed,
            })
        }));
        let taken_to = taker.takes_checkpoints().then(|| place(Directory::Work));
        let places = stages.iter().flat_map(StagePlan::places).cloned();
        Self {
            places: taken_to.into_iter().chain(places).collect(),
            compression: match taker.compresses() {
                true => point.compression,
                false => Compression::None,
            },
            restarts: if taker.takes_checkpoints()
                && point.restart_check.unwrap_or(settings.restart_check)
            {
                settings.restarts.max(1)
            } else {
                0
            },
            timeout_s: settings.timeout_s,
            taker,
            timing,
            stages,
        }
    }

    /// Returns the checkpointer.
    pub fn taker(&self) -> CheckpointerKind {
        self.taker
    }

    /// Returns what determines the times of checkpoints.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Returns the moments at which cvc requests checkpoints; `None` if cvc requests none.
    pub fn requested(&self) -> Option<&Moment> {
        match &self.timing {
            Timing::Requested(moment) => Some(moment),
            Timing::Never | Timing::ByProgram { .. } => None,
        }
    }

    /// Returns whether the program's own checkpoints are a series.
    pub fn is_own_series(&self) -> bool {
        self.timing.is_own_series()
    }

    /// Returns whether cvc requests checkpoints periodically.
    pub fn is_requested_series(&self) -> bool {
        self.requested().is_some_and(Moment::is_series)
    }

    /// Returns whether the program is killed after its checkpoint, and not restarted.
    pub fn kills(&self) -> bool {
        self.requested().is_some_and(Moment::kills)
    }

    /// Returns whether the run is restarted from its last checkpoint, and must pass its verification again.
    pub fn is_restarted(&self) -> bool {
        self.restarts > 0
    }

    /// Returns the number of restarts. Each restart after the first begins from a checkpoint of the restarted program.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Returns the compression through which the checkpointer pipes images.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the time limit of a checkpoint that cvc requests, seconds.
    pub fn timeout_s(&self) -> f64 {
        self.timeout_s
    }

    /// Returns the stages of each checkpoint, in order.
    pub fn stages(&self) -> &[StagePlan] {
        &self.stages
    }

    /// Returns the places of checkpoints: first that of the checkpointer, then those of the stages.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns the settings of deltas; `None` if checkpoints are not stored as deltas.
    pub fn deltas(&self) -> Option<&DeltaSettings> {
        self.stages.iter().find_map(|stage| match stage {
            StagePlan::Delta { deltas, .. } => Some(deltas),
            StagePlan::Compare | StagePlan::Levels(_) => None,
        })
    }

    /// Returns how nodes keep the checkpoints; `None` if nodes do not keep them.
    pub fn levels(&self) -> Option<&LevelPlan> {
        self.stages.iter().find_map(|stage| match stage {
            StagePlan::Levels(plan) => Some(plan),
            StagePlan::Compare | StagePlan::Delta { .. } => None,
        })
    }

    /// Returns whether each checkpoint is compared with earlier ones.
    pub fn is_compared(&self) -> bool {
        self.stages.contains(&StagePlan::Compare)
    }

    /// Returns the space and I/O of all stages together, for a series of `states` checkpoints.
    pub fn load(&self, states: f64) -> StageLoad {
        let is_held = self.is_own_series();
        let loads = self.stages.iter().map(|stage| stage.load(states, is_held));
        loads.fold(StageLoad::default(), |sum, one| StageLoad {
            peak: sum.peak + one.peak,
            kept: sum.kept + one.kept,
            handled: sum.handled + one.handled,
        })
    }
}

impl Spec {
    /// Returns the plan of a point's checkpoints.
    pub fn checkpoint_plan(&self, point: &Point) -> CheckpointPlan {
        CheckpointPlan::of(&self.checkpoint, self.sites.get(&point.site), point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(
        checkpointer: CheckpointerKind,
        moment: Moment,
        own_series: bool,
        area: StorageKind,
    ) -> CheckpointPlan {
        let settings = CheckpointSettings {
            moment,
            restart_check: true,
            restarts: 1,
            baseline: false,
            own_series,
            timeout_s: 60.0,
            levels: None,
            deltas: Some(DeltaSettings {
                methods: vec![cvc_delta_rules::MethodName::Incremental],
                codecs: vec![cvc_delta_rules::Codec::Lz4],
                blocks: vec![crate::units::ByteSize(4 << 10)],
                keep: true,
            }),
            resume: false,
        };
        let mut site = Site::local();
        site.storage[0].kind = area;
        let point = Point {
            storage: "run".into(),
            checkpointer,
            compression: Compression::Gzip,
            ..Point::default()
        };
        CheckpointPlan::of(&settings, Some(&site), &point)
    }

    #[test]
    fn only_a_series_has_stages_and_only_who_takes_checkpoints_has_places() {
        use CheckpointerKind as Kind;
        let series = || Moment::Series {
            every_s: 1.0,
            count: 3,
            compare: true,
        };
        let of = |kind, moment, own| plan(kind, moment, own, StorageKind::NodeLocal);
        let parts = |plan: &CheckpointPlan| (plan.stages().len(), plan.places().len());
        assert_eq!(parts(&of(Kind::None, series(), true)), (0, 0));
        assert!(!of(Kind::None, series(), true).is_restarted());
        assert_eq!(parts(&of(Kind::Dmtcp, Moment::SizeOnly, true)), (0, 1));
        assert_eq!(parts(&of(Kind::Dmtcp, series(), false)), (2, 2));
        assert_eq!(parts(&of(Kind::Application, series(), false)), (0, 1));
        let own = of(Kind::Application, Moment::SizeOnly, true);
        assert_eq!(parts(&own), (2, 2));
        // the program compresses nothing, and ignores moments
        assert_eq!((own.compression(), own.kills()), (Compression::None, false));
        // one more for the copy of a checkpoint that the program would overwrite
        let requested = of(Kind::Dmtcp, series(), true);
        assert_eq!(own.load(2.0).peak, requested.load(2.0).peak + 1.0);
    }

    #[test]
    fn shared_storage_survives_a_node_and_nothing_survives_the_site() {
        let of = |area| plan(CheckpointerKind::Dmtcp, Moment::SizeOnly, false, area);
        let survives = |plan: &CheckpointPlan, loss| plan.places().iter().all(|p| p.survives(loss));
        let (node, shared) = (of(StorageKind::NodeLocal), of(StorageKind::Shared));
        let all = [Loss::Process, Loss::Node, Loss::Site];
        assert_eq!(all.map(|loss| survives(&node, loss)), [true, false, false]);
        assert_eq!(all.map(|loss| survives(&shared, loss)), [true, true, false]);
        let partner = Place {
            reach: Reach::Partner,
            ..node.places()[0].clone()
        };
        assert!(partner.survives(Loss::Node) && !partner.survives(Loss::Site));
    }
}
