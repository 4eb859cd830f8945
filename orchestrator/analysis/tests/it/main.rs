//! Tests of results and reports.

mod aa_test;
mod advice;
mod browser;
#[path = "../../../prediction/tests/it/common/mod.rs"]
mod common;
mod comparison;
mod costs;
mod drawings;
mod first_report;
mod owner;
mod pages;
mod predictions;
mod questions;
mod report;
mod series;
mod traces;
mod words;
