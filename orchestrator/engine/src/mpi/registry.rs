//! From the campaign file's word for an MPI family to its launcher.

use super::launcher::Launcher;
use cvc_core::campaign::MpiFamily;

macro_rules! define_launcher {
    ($($(#[$doc:meta])* $name:ident $word:literal => $module:ident::$member:ident,)+) => {
        /// Returns the launcher of a family of the campaign file.
        pub fn launcher(family: MpiFamily) -> &'static dyn Launcher {
            match family {
                $(MpiFamily::$name => &super::$module::$member,)+
            }
        }
    };
}
cvc_core::mpi_families!(define_launcher);
