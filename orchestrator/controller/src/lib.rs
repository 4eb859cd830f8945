//! The walk through a plan: what opens its sites, hands out their runs and gives the machines back; and the doctor, who looks at them before.

pub mod doctor;
pub mod observe;
pub mod runner;
