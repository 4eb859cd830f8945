//! Maps the name of an MPI family in the campaign file to its launcher.

use super::launcher::Launcher;
use cvc_core::campaign::MpiFamily;

macro_rules! define_launcher {
    ($($(#[$doc:meta])* $name:ident $word:literal => $module:ident::$member:ident,)+) => {
        /// Returns the launcher of this family.
        pub fn launcher(family: MpiFamily) -> &'static dyn Launcher {
            match family {
                $(MpiFamily::$name => &super::$module::$member,)+
            }
        }
    };
}
cvc_core::mpi_families!(define_launcher);
