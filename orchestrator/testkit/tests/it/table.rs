//! Tests of reading tables of the repository.

use cvc_testkit::table::{Row, csv, printed};
use std::path::Path;

#[test]
fn every_committed_table_is_read_with_its_lines() {
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/papers");
    let mut tables = 0;
    for paper in std::fs::read_dir(&papers).expect("the papers").flatten() {
        let paper = paper.file_name().into_string().expect("a name");
        for table in std::fs::read_dir(papers.join(&paper).join("tables"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = format!(
                "experiments/papers/{paper}/tables/{}",
                table.file_name().to_string_lossy()
            );
            let rows = csv(&path);
            assert_eq!(
                rows.first().map(Row::place),
                Some(format!("{path}:2").as_str())
            );
            tables += 1;
        }
    }
    assert!(tables > 20, "{tables}");
}

#[test]
fn cells_are_texts_numbers_and_counts() {
    let rows = printed("t4-1");
    assert_eq!(
        (rows[0].text("app"), rows[0].count("row_processes")),
        ("BT.D", 16)
    );
    assert_eq!(
        (
            rows[0].number("meas_dtapp_MiB"),
            rows[0].maybe("est_dtapp_MiB")
        ),
        (1626.72, None)
    );
    let quoted = csv("experiments/papers/pas2p-io/tables/t1.csv")
        .into_iter()
        .find(|row| row.text("element") == "io_library")
        .expect("a row");
    assert_eq!(quoted.text("finisterrae"), "mpich2, HDF5");
}
