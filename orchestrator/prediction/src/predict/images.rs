//! Reads observations from checkpoint images alone: programs, ranks, MPI library and zones are detected in the images of any version of DMTCP.

use super::{
    environment::{Environment, ZoneRules},
    error::PredictError,
    observation::Observation,
    setting::RunSetting,
};
use camino::Utf8Path;
use cvc_core::app::size::ProblemSize;
use cvc_core::{
    mapping::{Mapping, MappingError},
    point::Compression,
    quantity::Quantity,
    units::{MIB, counted},
};
use cvc_image::{ImageTree, MpiFlavour, OwnerZone, Role, TreeImage, Zone, find_images, read_tree};
use cvc_model::{MpiKind, stats};
use std::{
    collections::{BTreeMap, BTreeSet},
    num::TryFromIntError,
    path::{Path, PathBuf},
};

/// The class of a program whose images do not contain it.
pub const UNNAMED_CLASS: &str = "default";
/// Bytes of the header of a memory area.
const AREA_HEADER_BYTES: f64 = 4096.0;

/// Observations from all images below a directory.
#[derive(Debug, Default)]
pub struct ImageObservations {
    /// One observation for each checkpoint.
    pub observations: Vec<Observation>,
    /// Notes about facts that are missing, skipped or assumed.
    pub notes: Vec<String>,
}

/// Returns whether there are images in a directory or below it.
pub fn holds_images(directory: &Utf8Path) -> bool {
    find_images(directory.as_std_path()).is_ok_and(|found| !found.files.is_empty())
}

/// Key of the images of one checkpoint: images of the same computation in the same directory.
type CheckpointKey = (PathBuf, Option<(u64, u64, i32)>, String);

/// Reads all images below a directory. `progress` is called with the number of images read, and the total number.
///
/// # Errors
/// The directory cannot be listed, or no image below it belongs to a rank.
pub fn from_images(
    directory: &Utf8Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<ImageObservations, PredictError> {
    let unreadable = |message: String, hint: &str| PredictError::Unreadable {
        path: directory.to_owned(),
        message,
        hint: hint.to_owned(),
    };
    let tree = read_tree(directory.as_std_path(), progress).map_err(|error| {
        unreadable(
            error.kind.to_string(),
            "give a directory with images (`*.dmtcp`)",
        )
    })?;
    let mut found = ImageObservations::default();
    for broken in &tree.broken {
        let place = broken.path.display();
        found
            .notes
            .push(format!("{place} is left out: {}", broken.error));
    }
    if !tree.temporary.is_empty() {
        let count = counted(tree.temporary.len(), "image");
        found.notes.push(format!(
            "{count} in {directory} left out: the checkpoint was still being written"
        ));
    }
    found
        .notes
        .extend(tree.ended_at.map(|limit| limit.to_string()));
    let mut checkpoints: BTreeMap<CheckpointKey, Vec<&TreeImage>> = BTreeMap::new();
    for image in tree.images.iter().filter(|image| image.role == Role::Rank) {
        checkpoints.entry(key_of(image)).or_default().push(image);
    }
    for ((place, _, program), ranks) in &checkpoints {
        match observation(&tree, place, program, ranks, &mut found.notes) {
            Ok(observation) => found.observations.push(observation),
            Err(reason) => found.notes.push(format!(
                "{program} in {} is left out: {reason}",
                place.display()
            )),
        }
    }
    if found.observations.is_empty() {
        let message = if tree.images.is_empty() {
            "no image (`*.dmtcp`, `*.dmtcp.gz`) that can be read in this directory or below"
                .to_owned()
        } else {
            format!(
                "none of its {} can be used: {}",
                counted(tree.images.len(), "image"),
                found.notes.join("; ")
            )
        };
        return Err(unreadable(
            message,
            "name the directories of checkpoints of an MPI program",
        ));
    }
    Ok(found)
}

fn key_of(image: &TreeImage) -> CheckpointKey {
    let directory = image.path.parent().unwrap_or(Path::new("")).to_owned();
    let root = image
        .computation
        .map(|(root, _)| (root.hostid, root.time, root.pid));
    (directory, root, image.program.clone())
}

/// Returns whether the image was compressed after DMTCP had written it.
fn is_packed_copy(image: &TreeImage) -> bool {
    image
        .path
        .extension()
        .is_some_and(|extension| extension == "gz")
}

/// Returns the bytes of the image as DMTCP wrote it.
fn file_bytes(image: &TreeImage) -> u64 {
    if is_packed_copy(image) {
        image.uncompressed_bytes
    } else {
        image.file_bytes
    }
}

/// Returns program and class from the name of an executable: `bt.A.4` and `bt.A.x` are NAS programs, and `bt.A.4.mpi_io_full` is BT-IO.
fn program_and_class(name: &str) -> (String, String) {
    let unnamed = || {
        (
            name.replace(char::is_whitespace, "-"),
            UNNAMED_CLASS.to_owned(),
        )
    };
    let parts: Vec<&str> = name.splitn(4, '.').collect();
    let [program, class, processes, rest @ ..] = parts.as_slice() else {
        return unnamed();
    };
    let is_nas = ["bt", "cg", "ep", "ft", "is", "lu", "mg", "sp"].contains(program)
        && ["S", "W", "A", "B", "C", "D", "E", "F"].contains(class)
        && (*processes == "x" || processes.bytes().all(|b| b.is_ascii_digit()));
    let app = match rest {
        _ if !is_nas => return unnamed(),
        [] => format!("npb-{program}"),
        ["mpi_io_full"] => "btio-full".to_owned(),
        ["mpi_io_simple"] => "btio-simple".to_owned(),
        [kind, ..] => format!("npb-{program}-{kind}"),
    };
    (app, (*class).to_owned())
}

fn library(flavour: MpiFlavour) -> Option<(&'static str, MpiKind)> {
    Some(match flavour {
        MpiFlavour::None => return None,
        MpiFlavour::MpichCh4Ucx | MpiFlavour::MpichCh4Ofi => ("mpich", MpiKind::Mpich),
        MpiFlavour::MpichCh3 => ("mpich-ch3", MpiKind::Nemesis),
        MpiFlavour::OpenMpi => ("openmpi", MpiKind::OpenMpi),
    })
}

/// Returns the number of processes that a library's launcher adds to a computation on one node.
fn launchers_on_one_node(kind: MpiKind) -> u32 {
    match kind {
        MpiKind::Nemesis | MpiKind::Mpich => 2,
        MpiKind::OpenMpi => 1,
    }
}

/// Returns the number of ranks of a computation with `peers` processes, given the images of ranks and launchers that were found.
fn processes(mpi: MpiKind, ranks: u32, launchers: u32, peers: u32) -> u32 {
    if ranks + launchers >= peers {
        ranks
    } else if launchers > 0 {
        peers - launchers
    } else {
        peers.saturating_sub(launchers_on_one_node(mpi)).max(ranks)
    }
}

/// The reason why a checkpoint is skipped.
#[derive(Debug, thiserror::Error)]
enum LeftOut {
    #[error("no ranks")]
    NoRanks,
    #[error("no MPI library is mapped in its images")]
    NoMpi,
    #[error(transparent)]
    Count(#[from] TryFromIntError),
    #[error(transparent)]
    Mapping(#[from] MappingError),
}

/// Returns the observation of one checkpoint.
fn observation(
    tree: &ImageTree,
    place: &Path,
    program: &str,
    ranks: &[&TreeImage],
    notes: &mut Vec<String>,
) -> Result<Observation, LeftOut> {
    let first = ranks.first().ok_or(LeftOut::NoRanks)?;
    let (mpi_name, mpi) = library(first.library).ok_or(LeftOut::NoMpi)?;
    let beside = |role: Role| {
        let key = key_of(first);
        tree.images.iter().filter(move |image| {
            let (directory, root, _) = key_of(image);
            image.role == role && (&directory, root) == (&key.0, key.1)
        })
    };
    let label = format!("{program} in {}", place.display());
    let launchers: Vec<&TreeImage> = beside(Role::Launcher).collect();
    let found = u32::try_from(ranks.len())?;
    let started = u32::try_from(launchers.len())?;
    // if the number of processes is not recorded, the images are assumed to be complete
    let peers = first
        .computation
        .map_or(found + started, |(_, peers)| peers);
    let processes = processes(mpi, found, started, peers);
    let is_whole = found >= processes;
    if !is_whole {
        notes.push(format!(
            "{label}: images of {found} of {processes} ranks; sizes are means of these, and the total is unknown"
        ));
    }
    let mapping = mapping(ranks, processes, is_whole, &label, notes)?;
    let (app, class) = program_and_class(program);
    let setting = RunSetting {
        size: ProblemSize::by_embedded(&app, &class, mapping.processes()),
        app,
        class,
        mapping,
        mpi_name: mpi_name.to_owned(),
        mpi,
        compression: if first.gzip && !is_packed_copy(first) {
            Compression::Gzip
        } else {
            Compression::None
        },
        aggregators: None,
        cb_buffer: None,
    };
    let by_owner = ranks.iter().all(|rank| rank.has_baseline);
    let mut quantities = of_ranks(ranks, by_owner);
    if is_whole {
        quantities.extend(in_all(tree, place, ranks));
        if let Some(bytes) = surplus(ranks).filter(|_| setting.load().is_some()) {
            quantities.insert(Quantity::Surplus, bytes / MIB);
        }
        if found + started >= peers {
            let in_launchers: u64 = launchers.iter().map(|image| file_bytes(image)).sum();
            let launchers_mib = in_launchers as f64 / MIB;
            let stored_mib =
                quantities[&Quantity::Ranks] + launchers_mib + quantities[&Quantity::Aux];
            quantities.extend([
                (Quantity::Launchers, launchers_mib),
                (Quantity::LauncherFiles, f64::from(started)),
                (Quantity::Stored, stored_mib),
            ]);
        } else {
            notes.push(format!(
                "{label}: images of {started} of {} launchers; the total size is unknown",
                peers - found
            ));
        }
    }
    Ok(Observation {
        id: place.display().to_string(),
        label: setting.label(),
        origin: place.display().to_string(),
        setting,
        environment: Some(Environment {
            dmtcp: first.dmtcp.to_owned(),
            kernel: None,
            zones: if by_owner {
                ZoneRules::Owner
            } else {
                ZoneRules::Structural
            },
        }),
        cores: None,
        quantities,
        zone_ratios: BTreeMap::new(),
    })
}

/// Returns the totals of all ranks, and of what DMTCP saved beside their images, MiB and files.
fn in_all(tree: &ImageTree, place: &Path, ranks: &[&TreeImage]) -> [(Quantity, f64); 4] {
    let in_ranks: u64 = ranks.iter().map(|rank| file_bytes(rank)).sum();
    let beside = tree
        .saved
        .iter()
        .filter(|saved| saved.path.parent() == Some(place));
    let (aux, aux_files) = beside.fold((0, 0), |sums, saved| {
        (sums.0 + saved.bytes, sums.1 + saved.files)
    });
    [
        (Quantity::Ranks, in_ranks as f64 / MIB),
        (Quantity::RankFiles, ranks.len() as f64),
        (Quantity::Aux, aux as f64 / MIB),
        (Quantity::AuxFiles, aux_files as f64),
    ]
}

/// Returns the means over the images of ranks, MiB.
fn of_ranks(ranks: &[&TreeImage], by_owner: bool) -> BTreeMap<Quantity, f64> {
    let mean = |value: &dyn Fn(&TreeImage) -> f64| {
        ranks.iter().map(|rank| value(rank)).sum::<f64>() / ranks.len() as f64 / MIB
    };
    let zone = |owner: &'static [OwnerZone], structural: Zone| {
        mean(&|rank| {
            if by_owner {
                owner
                    .iter()
                    .map(|zone| rank.zones.owner.stored.zone(*zone) as f64)
                    .sum()
            } else {
                rank.zones.structural.stored.get(structural) as f64
            }
        })
    };
    BTreeMap::from([
        (Quantity::Dtapp, zone(&[OwnerZone::Dtapp], Zone::Dtapp)),
        (Quantity::Lb, zone(&[OwnerZone::Lb], Zone::Lb)),
        // as for campaigns, stacks count as shared memory
        (
            Quantity::Shmem,
            zone(&[OwnerZone::Shmem, OwnerZone::Rest], Zone::Shmem),
        ),
        (
            Quantity::Headers,
            mean(&|rank| rank.area_headers as f64 * AREA_HEADER_BYTES),
        ),
        (
            Quantity::Image,
            mean(&|rank| rank.uncompressed_bytes as f64),
        ),
        (Quantity::File, mean(&|rank| file_bytes(rank) as f64)),
    ])
}

/// Returns the excess of the largest image over the median one, MiB. With fewer than three images, none is typical, and the result is `None`.
fn surplus(ranks: &[&TreeImage]) -> Option<f64> {
    let mut sizes: Vec<f64> = ranks
        .iter()
        .map(|rank| rank.uncompressed_bytes as f64)
        .collect();
    sizes.sort_by(f64::total_cmp);
    let median = stats::quantile(&sizes, 0.5)?;
    sizes
        .last()
        .filter(|_| sizes.len() >= 3)
        .map(|largest| largest - median)
}

/// Returns the mapping of processes to hosts, if all images name their host.
fn mapping(
    ranks: &[&TreeImage],
    processes: u32,
    is_whole: bool,
    label: &str,
    notes: &mut Vec<String>,
) -> Result<Mapping, MappingError> {
    let mut loads: BTreeMap<Option<u64>, u32> = BTreeMap::new();
    for rank in ranks {
        *loads.entry(rank.hostid).or_default() += 1;
    }
    if !is_whole || loads.contains_key(&None) {
        notes.push(format!(
            "{label}: all {processes} processes are assumed to be on one node"
        ));
        return Ok(Mapping::one_node(processes));
    }
    let mut counts: Vec<u32> = loads.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let groups: Vec<String> = counts
        .chunk_by(|a, b| a == b)
        .map(|group| format!("{}Nx{}P", group.len(), group[0]))
        .collect();
    groups.join("+").parse()
}

/// Returns observations as a table that [`from_csv`](super::from_csv) reads.
pub fn to_csv(observations: &[Observation]) -> String {
    let quantities: BTreeSet<Quantity> = observations
        .iter()
        .flat_map(|o| o.quantities.keys().copied())
        .collect();
    let mut table = String::from("app,class,mapping,mpi,compression,dmtcp,zones");
    for quantity in &quantities {
        table.push(',');
        table.push_str(quantity.name());
    }
    table.push('\n');
    for o in observations {
        let (dmtcp, zones) = o
            .environment
            .as_ref()
            .map_or(("", ""), |e| (e.dmtcp.as_str(), e.zones.name()));
        let setting = &o.setting;
        let mapping = setting.mapping.to_string();
        let compression = setting.compression.program().unwrap_or("none");
        let mut row: Vec<String> = [
            &*setting.app,
            &*setting.class,
            &*mapping,
            &*setting.mpi_name,
            compression,
            dmtcp,
            zones,
        ]
        .map(field)
        .into();
        row.extend(quantities.iter().map(|quantity| {
            o.value(*quantity)
                .map_or_else(String::new, |value| value.to_string())
        }));
        table.push_str(&row.join(","));
        table.push('\n');
    }
    table
}

fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::program_and_class;

    #[test]
    fn names_of_nas_programs_say_program_and_class() {
        for (name, app, class) in [
            ("bt.A.4", "npb-bt", "A"),
            ("lu.C.x", "npb-lu", "C"),
            ("bt.W.9.mpi_io_full", "btio-full", "W"),
            ("python3.11", "python3.11", "default"),
            ("lmp", "lmp", "default"),
            ("bt.A.4x", "bt.A.4x", "default"),
        ] {
            assert_eq!(
                program_and_class(name),
                (app.into(), class.into()),
                "{name}"
            );
        }
    }
}
