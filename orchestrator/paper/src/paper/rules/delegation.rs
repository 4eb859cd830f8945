//! Metadata operations of a delegated parallel file system (slides of Arteaga and Zhao).

use super::{CellContext, NotRecomputable, Rule};
use crate::paper::Recomputed;
use cvc_model::metadata::delegation_operations;

/// Operations of the delegation; those of other methods at 128 clients are the sum of their kinds.
#[derive(Debug)]
pub struct MetadataOperations;

/// Metadata servers of a mode.
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
         same, the total at 128 clients the sum of the kinds"
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let clients = at.count("clients")?;
        let delegates = at.text("method") == "pfs_delegation";
        let count = match at.text("operation") {
            "GETCONFIG" => f64::from(servers(at)?) * f64::from(clients),
            "GETATTR" if delegates => f64::from(clients),
            "CREATE" if delegates => 1.0,
            "LOOKUP" | "CRDIRENT" if delegates => 0.0,
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

/// What the authors say of the totals.
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
