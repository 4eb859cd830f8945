//! Tests of results and reports.

mod aa_test;
mod advice;
mod advice_simulated;
mod browser;
#[path = "../../../prediction/tests/it/common/mod.rs"]
mod common;
mod comparison;
mod costs;
mod drawings;
mod first_report;
mod layouts;
mod owner;
mod pages;
mod predictions;
mod questions;
mod rank_files;
mod report;
mod restarts;
mod scaling;
mod series;
mod strategies;
mod traces;
mod words;
