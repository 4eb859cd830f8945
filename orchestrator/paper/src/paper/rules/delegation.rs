//! Rules for metadata operations of a delegated parallel file system (slides of Arteaga and Zhao).

use super::{CellContext, NotRecomputable, Rule};
use crate::paper::Recomputed;
use cvc_model::metadata::delegation_operations;

/// The rule that recomputes numbers of operations: with delegation from a formula; for other methods at 128 clients, the total as the sum over the
/// kinds.
#[derive(Debug)]
pub struct MetadataOperations;

/// Returns the number of metadata servers of a mode.
fn servers(at: &CellContext<'_>) -> Result<u32, NotRecomputable> {
    at.find("totals", &[("metadata_mode", at.text("metadata_mode"))])?
        .count("metadata_servers")
}

impl Rule for MetadataOperations {
    fn name(&self) -> &'static str {
        "metadata-operations"
    }
    fn about(&self) -> &'static str {
        "delegation: clients·(servers + 1) + 1, of which servers·clients are GETCONFIG, clients GETATTR and one CREATE; other methods: GETCONFIG the \
         same, the total at 128 clients the sum of the kinds; with n checkpoints (CRDIRENT of the shared file) a shared file has n CREATE and 2·n LOOKUP, \
         files per process have clients·n CRDIRENT"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let clients = at.count("clients")?;
        let delegates = at.text("method") == "pfs_delegation";
        let count = match at.text("operation") {
            "GETCONFIG" => f64::from(servers(at)?) * f64::from(clients),
            "GETATTR" if delegates => f64::from(clients),
            "CREATE" if delegates => 1.0,
            "LOOKUP" | "CRDIRENT" if delegates => 0.0,
            "CREATE" if at.text("method") == "shared_file" => checkpoints(at)?,
            "LOOKUP" if at.text("method") == "shared_file" => 2.0 * checkpoints(at)?,
            "CRDIRENT" if at.text("method") == "file_per_process" => {
                checkpoints(at)? * f64::from(clients)
            }
            "" if delegates => {
                delegation_operations(at.count("metadata_servers")?, clients)? as f64
            }
            "" => {
                let mut kinds = Vec::new();
                for row in at.rows_of("breakdown")? {
                    if ["metadata_mode", "method", "clients"]
                        .iter()
                        .all(|c| row.text(c) == at.text(c))
                    {
                        kinds.push(row.number("metadata_ops")?);
                    }
                }
                if kinds.is_empty() {
                    return Err(NotRecomputable::Measurement);
                }
                kinds.iter().sum()
            }
            _ => return Err(NotRecomputable::Measurement),
        };
        Ok(Recomputed::new(count))
    }
}

/// Returns the number of checkpoints behind the counts. The slides do not print it, but each checkpoint writes one directory entry of the shared
/// file.
fn checkpoints(at: &CellContext<'_>) -> Result<f64, NotRecomputable> {
    let entries = [
        ("metadata_mode", at.text("metadata_mode")),
        ("method", "shared_file"),
        ("operation", "CRDIRENT"),
    ];
    at.find("breakdown", &entries)?.number("metadata_ops")
}

/// The rule that recomputes operations without delegation by a law in clients and checkpoints. The printed numbers are close to the law but not equal
/// to it.
#[derive(Debug)]
pub struct LayoutOperationsRule;

impl Rule for LayoutOperationsRule {
    fn name(&self) -> &'static str {
        "layout-operations"
    }
    fn about(&self) -> &'static str {
        "with C clients, M metadata servers and n checkpoints (n from CRDIRENT of the shared file): shared file M·C + n·(C - 1) + 4·n, file per \
         process C·(M + 4·n)"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let (clients, servers) = (
            f64::from(at.count("clients")?),
            f64::from(at.count("metadata_servers")?),
        );
        let n = checkpoints(at)?;
        Ok(Recomputed::new(match at.text("method") {
            "shared_file" => servers * clients + n * (clients - 1.0) + 4.0 * n,
            "file_per_process" => clients * (servers + 4.0 * n),
            _ => return Err(NotRecomputable::Measurement),
        }))
    }
}

/// The rule that recomputes the shares and savings that the authors state for the totals.
#[derive(Debug)]
pub struct MetadataClaim;

impl Rule for MetadataClaim {
    fn name(&self) -> &'static str {
        "metadata-claim"
    }
    fn about(&self) -> &'static str {
        "shares: 100·operations/operations of the method that it is compared with; savings: their difference"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let of = |method: &str| -> Result<f64, NotRecomputable> {
            let with = [
                ("metadata_mode", at.text("metadata_mode")),
                ("clients", at.text("clients")),
                ("method", method),
            ];
            at.find("totals", &with)?.number("metadata_ops")
        };
        let reference = of(at.text("reference_method"))?;
        let share = |method: &str| -> Result<f64, NotRecomputable> {
            if reference == 0.0 {
                Err(NotRecomputable::Other("the base is 0".to_owned()))
            } else {
                Ok(100.0 * of(method)? / reference)
            }
        };
        Ok(Recomputed::new(match at.text("claim") {
            "metadata ops of delegation as share" => share("pfs_delegation")?,
            "metadata ops of shared file as share" => share("shared_file")?,
            "metadata ops saved" => reference - of("pfs_delegation")?,
            _ => return Err(NotRecomputable::Measurement),
        }))
    }
}
