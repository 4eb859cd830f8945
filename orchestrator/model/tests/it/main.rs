//! Tests of the formulas, against published vectors and real runs.

mod models;
