//! Operation counts of file systems that are published or were counted once.
//!
//! | name | source |
//! | --- | --- |
//! | `pvfs2` | Arteaga and Zhao, slides: PVFS2, 16 to 128 clients, 1 and 4 metadata servers |
//! | `orangefs` | counted from the access log of OrangeFS 2.10, with its own library as client |
//! | `moosefs` | messages from the mounts of MooseFS 3.0 to its master, 8 clients, 1 and 9 checkpoints |

use super::{
    law::{Coefficients, Counted, OperationLaw, Undecided},
    layout::{Layout, MetadataSetting},
};
use crate::{estimate::Estimate, fit::FitError};

/// Name for counts that are not split by kind of operation.
pub const TOTAL: &str = "total";

/// A file system whose operation counts are known.
#[derive(Clone, Copy, Debug)]
pub struct KnownFileSystem {
    /// Name of the file system in options.
    pub name: &'static str,
    /// Source of the counts.
    pub source: &'static str,
    /// Whether the file system locks stripes that several clients write; `None` if unknown.
    pub locks_stripes: Option<bool>,
    layouts: &'static [KnownLayout],
}

#[derive(Clone, Copy, Debug)]
struct KnownLayout {
    layout: Layout,
    /// The numbers of metadata servers for which the counts are valid; empty if valid for all.
    servers: &'static [u64],
    operations: Operations,
    /// Remark on facts about the layout that are unknown.
    note: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
enum Operations {
    Laws {
        kinds: &'static [(&'static str, [i64; 5])],
        /// Maximum excess of published or counted totals over the law, operations.
        beyond: f64,
        /// Minimum and maximum relative error of the total.
        misses: (f64, f64),
    },
    /// (clients, checkpoints, total) with one metadata server.
    Counts(&'static [(u64, u64, u64)]),
}

/// Operations of a layout at a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownOperations {
    /// Number of operations by kind.
    pub kinds: Vec<(&'static str, f64)>,
    /// Sum over all kinds.
    pub total: Estimate,
    /// Remark on facts about the layout that are unknown.
    pub note: Option<&'static str>,
}

/// The reason why a file system has no known counts for a setting.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotKnown {
    /// The layout was never counted.
    #[error("{layout} was never counted on {file_system}", layout = .layout.word())]
    Layout {
        /// The file system.
        file_system: &'static str,
        /// The layout.
        layout: Layout,
    },
    /// The layout was counted with other numbers of servers only, and these counts determine no law.
    #[error("{layout} is known for {} metadata server{} only", list(.servers), if *.servers == [1] { "" } else { "s" }, layout = .layout.word())]
    Servers {
        /// The layout.
        layout: Layout,
        /// The numbers of servers with counts.
        servers: &'static [u64],
    },
    /// The counts do not determine the operations at this setting.
    #[error("{layout}: {of}", layout = .layout.word())]
    Undecided {
        /// The layout.
        layout: Layout,
        /// The undetermined terms.
        of: Undecided,
    },
    /// The law cannot be fitted.
    #[error(transparent)]
    Fit(#[from] FitError),
}

fn list(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join(", ")
}

/// The law of the two layouts with a shared file on PVFS2. The four published totals exceed it by 0, 0, 1 and 2 operations.
const SHARED: Operations = Operations::Laws {
    kinds: &[
        ("configuration", [0, 0, 0, 1, 0]),
        ("getattr", [1, -1, 0, 0, 1]),
        ("create", [0, 1, 0, 0, 0]),
        ("lookup", [0, 2, 0, 0, 0]),
        ("directory-entry", [0, 1, 0, 0, 0]),
    ],
    beyond: 2.0,
    misses: (0.0, 0.0),
};

const NINE: &str =
    "counted at 9 checkpoints, a number that the source does not state and its counts imply";

/// All known file systems.
pub const KNOWN: [KnownFileSystem; 3] = [
    KnownFileSystem {
        name: "pvfs2",
        source: "Arteaga and Zhao, slides on parallel-file-system delegation",
        locks_stripes: Some(false),
        layouts: &[
            KnownLayout {
                layout: Layout::PerProcess,
                servers: &[1],
                operations: Operations::Laws {
                    kinds: &[
                        ("configuration", [0, 0, 0, 1, 0]),
                        ("getattr", [1, 0, 0, 0, 0]),
                        ("create", [1, 0, 0, 0, 0]),
                        ("lookup", [1, 0, 0, 0, 0]),
                        ("directory-entry", [1, 0, 0, 0, 0]),
                    ],
                    beyond: 0.0,
                    // 37 operations for each client at 9 checkpoints: the law gives 592, 1184, 2368, 4736, published are 608, 1034, 2376, 4132
                    misses: (-0.13, 0.03),
                },
                note: Some(NINE),
            },
            KnownLayout {
                layout: Layout::Segmented,
                servers: &[1],
                operations: SHARED,
                note: Some(NINE),
            },
            KnownLayout {
                layout: Layout::Strided,
                servers: &[1],
                operations: SHARED,
                note: Some(NINE),
            },
            KnownLayout {
                layout: Layout::Delegated,
                servers: &[],
                operations: Operations::Laws {
                    kinds: &[
                        ("configuration", [0, 0, 0, 1, 0]),
                        ("getattr", [0, 0, 1, 0, 0]),
                        ("create", [0, 0, 0, 0, 1]),
                    ],
                    beyond: 0.0,
                    misses: (0.0, 0.0),
                },
                note: None,
            },
        ],
    },
    KnownFileSystem {
        name: "orangefs",
        source: "access log of OrangeFS 2.10",
        locks_stripes: Some(false),
        layouts: &[KnownLayout {
            layout: Layout::Delegated,
            servers: &[],
            operations: Operations::Laws {
                kinds: &[
                    ("configuration", [0, 0, 1, 1, 0]),
                    ("getattr", [0, 0, 1, 0, 2]),
                    ("create", [0, 0, 0, 0, 1]),
                    ("directory-entry", [0, 0, 0, 0, 1]),
                ],
                beyond: 0.0,
                misses: (0.0, 0.0),
            },
            note: None,
        }],
    },
    KnownFileSystem {
        name: "moosefs",
        source: "statistics of the mounts of MooseFS 3.0",
        locks_stripes: None,
        layouts: &[
            KnownLayout {
                layout: Layout::PerProcess,
                servers: &[1],
                operations: Operations::Counts(&[(8, 1, 36), (8, 9, 328)]),
                note: None,
            },
            KnownLayout {
                layout: Layout::Segmented,
                servers: &[1],
                operations: Operations::Counts(&[(8, 1, 40), (8, 9, 360)]),
                note: None,
            },
            KnownLayout {
                layout: Layout::Strided,
                servers: &[1],
                operations: Operations::Counts(&[(8, 1, 40), (8, 9, 368)]),
                note: None,
            },
            KnownLayout {
                layout: Layout::Delegated,
                servers: &[1],
                operations: Operations::Counts(&[(8, 1, 40), (8, 9, 168)]),
                note: None,
            },
        ],
    },
];

impl KnownFileSystem {
    /// Returns the file system with this name.
    pub fn from_name(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|of| of.name == name)
    }

    /// Returns the operations of a layout at a setting.
    ///
    /// # Errors
    /// There are no counts for the layout, or for this setting.
    pub fn operations(
        &self,
        layout: Layout,
        at: MetadataSetting,
    ) -> Result<KnownOperations, NotKnown> {
        let known = self.layouts.iter().find(|of| of.layout == layout);
        let known = known.ok_or(NotKnown::Layout {
            file_system: self.name,
            layout,
        })?;
        if !known.servers.is_empty() && !known.servers.contains(&at.servers) {
            return Err(NotKnown::Servers {
                layout,
                servers: known.servers,
            });
        }
        match known.operations {
            Operations::Laws {
                kinds,
                beyond,
                misses,
            } => {
                let kinds: Vec<(&str, f64)> = kinds
                    .iter()
                    .map(|(kind, coefficients)| (*kind, Coefficients(*coefficients).at(at)))
                    .collect();
                let value: f64 = kinds.iter().map(|(_, count)| count).sum();
                Ok(KnownOperations {
                    kinds,
                    total: Estimate::between(
                        value,
                        value * (1.0 + misses.0),
                        value * (1.0 + misses.1) + beyond,
                    ),
                    note: known.note,
                })
            }
            Operations::Counts(counts) => {
                let counts: Vec<Counted> = counts
                    .iter()
                    .map(|(clients, checkpoints, count)| Counted {
                        at: MetadataSetting {
                            clients: *clients,
                            checkpoints: *checkpoints,
                            servers: 1,
                        },
                        count: *count,
                    })
                    .collect();
                let total = OperationLaw::fit(&counts)?
                    .at(at)
                    .map_err(|of| NotKnown::Undecided { layout, of })?;
                Ok(KnownOperations {
                    kinds: vec![(TOTAL, total.value)],
                    total,
                    note: known.note,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(clients: u64, checkpoints: u64, servers: u64) -> MetadataSetting {
        MetadataSetting {
            clients,
            checkpoints,
            servers,
        }
    }

    fn of(name: &str, layout: Layout, at: MetadataSetting) -> Result<KnownOperations, NotKnown> {
        KnownFileSystem::from_name(name)
            .expect("known")
            .operations(layout, at)
    }

    #[test]
    fn shared_totals_of_the_slides_come_out_to_the_unit_with_nine_checkpoints() {
        for (clients, printed) in [(16, 188.0), (32, 348.0), (64, 669.0), (128, 1310.0)] {
            let known = of("pvfs2", Layout::Segmented, at(clients, 9, 1)).expect("known");
            let c = clients as f64;
            assert_eq!(known.total.value, c + 9.0 * (c - 1.0) + 36.0 + 1.0);
            assert_eq!(known.total.covers(printed), Some(true), "{known:?}");
        }
        let kinds = of("pvfs2", Layout::Segmented, at(128, 9, 1))
            .expect("known")
            .kinds;
        let printed = [
            ("configuration", 128.0),
            ("getattr", 1144.0),
            ("create", 9.0),
            ("lookup", 18.0),
            ("directory-entry", 9.0),
        ];
        assert_eq!(kinds, printed);
    }

    #[test]
    fn totals_per_process_are_within_their_interval() {
        for (clients, printed) in [(16, 608.0), (32, 1034.0), (64, 2376.0), (128, 4132.0)] {
            let known = of("pvfs2", Layout::PerProcess, at(clients, 9, 1)).expect("known");
            assert_eq!(known.total.value, 37.0 * clients as f64);
            assert_eq!(known.total.covers(printed), Some(true), "{known:?}");
        }
    }

    #[test]
    fn delegation_gives_all_eight_totals_for_any_number_of_checkpoints() {
        let printed = [(1, [33, 65, 129, 257]), (4, [81, 161, 321, 641])];
        for (servers, totals) in printed {
            for (clients, total) in [16, 32, 64, 128].into_iter().zip(totals) {
                for checkpoints in [1, 9, 100] {
                    let at = at(clients, checkpoints, servers);
                    let known = of("pvfs2", Layout::Delegated, at).expect("known");
                    assert_eq!(known.total, Estimate::exact(f64::from(total)));
                }
            }
        }
    }

    #[test]
    fn delegation_saves_the_openings_after_the_first() {
        let saved = |n| {
            let total = |layout| {
                of("pvfs2", layout, at(128, n, 1))
                    .expect("known")
                    .total
                    .value
            };
            total(Layout::Segmented) - total(Layout::Delegated)
        };
        // 257 against about 260 operations for a single checkpoint, and C + 3 for each further one
        assert!((0.0..=6.0).contains(&saved(1)), "{}", saved(1));
        assert_eq!(saved(9) - saved(1), 8.0 * 131.0);
    }

    #[test]
    fn orangefs_asks_each_server_and_one_more_for_its_configuration() {
        let known = of("orangefs", Layout::Delegated, at(128, 9, 4)).expect("known");
        assert_eq!(known.kinds[0], ("configuration", 640.0));
        assert_eq!(known.total, Estimate::exact(640.0 + 130.0 + 2.0));
        let missing = of("orangefs", Layout::Segmented, at(2, 1, 1)).expect_err("never counted");
        assert_eq!(
            missing.to_string(),
            "segmented was never counted on orangefs"
        );
    }

    #[test]
    fn moosefs_answers_for_eight_clients_only() {
        let total = |layout, at| of("moosefs", layout, at).map(|known| known.total);
        assert_eq!(
            total(Layout::Delegated, at(8, 5, 1)),
            Ok(Estimate::bare(104.0))
        );
        assert_eq!(
            total(Layout::PerProcess, at(8, 9, 1)),
            Ok(Estimate::bare(328.0))
        );
        let refused = total(Layout::Segmented, at(16, 9, 1)).expect_err("never varied");
        assert!(
            refused
                .to_string()
                .ends_with("all have the same number of clients"),
            "{refused}"
        );
        let refused = total(Layout::Segmented, at(8, 9, 2)).expect_err("one master");
        assert_eq!(
            refused.to_string(),
            "segmented is known for 1 metadata server only"
        );
    }
}
