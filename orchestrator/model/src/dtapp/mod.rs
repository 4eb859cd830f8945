//! The application's data in an image: the declared arrays, and the heap.
//!
//! | model | needs | file |
//! | --- | --- | --- |
//! | arrays as the source declares them | BT, SP, LU or CG; no run | `arrays.rs` |
//! | the pages of the arrays that the program writes | BT, SP, LU or CG; no run | `written.rs` |
//! | a stored share of the arrays, or all of them and a heap | the same and one run | `arrays.rs` |
//! | the filled part of the arrays | CG and two runs | `nonzeros.rs` |
//! | cells with their halo | BT, SP or LU and two runs | `halo.rs` |
//! | 0.3 + a/P + b/P^(2/3) | a program whose arrays are unknown, runs | `volume_surface.rs` |
//! | a/P + b/√P, a/P + b/√P + c, a/P + b | any program, runs | `curves.rs` |
//! | two of c + s·P + r·P² | any program whose data grow with the processes, runs | `../growth.rs` |
//! | A·P^B, as published | any program, runs | `power_law.rs` |

mod arrays;
mod curves;
mod declared;
mod halo;
mod nonzeros;
mod power_law;
mod volume_surface;
mod written;

pub use curves::VOLUME_AND_CONSTANT;
pub use declared::{HEAP_MIB, static_arrays_mib};
pub use power_law::{PowerLaw, PowerLawFit, eq_3_10_mib};
pub use volume_surface::VOLUME_AND_SURFACE;
pub use written::{written_mib, written_runs};

use super::{curve::Model, growth::Growth};

/// Returns the models of the data zone, those that need the least data first.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![
        arrays::declared(),
        written::with_rest(),
        written::written(),
        arrays::stored_share(),
        nonzeros::filled(),
        Box::new(halo::Halo),
        Box::new(volume_surface::VolumeAndSurface),
        Box::new(Growth::of_data()),
        curves::volume_and_faces(),
        Box::new(power_law::Law { rounded: false }),
        curves::volume_and_constant(),
        curves::volume_faces_and_constant(),
        arrays::stored_share_of_one(),
        arrays::with_heap(),
    ]
}

/// Returns the power law as the thesis evaluates it, with parameters rounded as a spreadsheet prints them. It is not among [`models`], because the
/// rounding only serves to reproduce printed digits.
pub fn published_power_law() -> Box<dyn Model> {
    Box::new(power_law::Law { rounded: true })
}
