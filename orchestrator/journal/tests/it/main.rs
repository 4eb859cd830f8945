//! Tests of journals that earlier versions wrote, and of the script that ends a machine at its deadline.

mod deadline;
mod journals;
