//! The families that cvc knows. This is the one place that goes from the campaign file's word to what it stands for.

use super::{launcher::Launcher, mpich::Mpich, openmpi::OpenMpi};
use cvc_core::campaign::MpiFamily;

/// Returns the launcher of a family of the campaign file. The match is exhaustive, so that a family without a launcher does not compile.
pub fn launcher(family: MpiFamily) -> &'static dyn Launcher {
    match family {
        MpiFamily::Mpich => &Mpich,
        MpiFamily::OpenMpi => &OpenMpi,
    }
}
