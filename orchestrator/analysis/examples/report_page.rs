//! Writes a report of a test campaign in all formats. It can contain sections that a small real campaign may not have:
//! `cargo run -p cvc-analysis --example report_page -- PAGE DIRECTORY`. PAGE is `made-up`, `many-points`, `costs` or `predictions`.

#![expect(clippy::print_stdout, reason = "an example tells what it made")]

#[path = "../../prediction/tests/it/common/mod.rs"]
mod common;

use camino::{Utf8Path, Utf8PathBuf};
use common::measured;
use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_prediction::holdout::rebuild_index;
use cvc_show::write_all;
use std::{error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [page, directory] = &args[..] else {
        return Err("two arguments are needed: PAGE DIRECTORY".into());
    };
    let directory = Utf8Path::new(directory);
    fs::create_dir_all(directory)?;
    match page.as_str() {
        "made-up" => {
            common::campaign(directory.as_std_path());
        }
        "many-points" => common::campaign_of(directory.as_std_path(), common::many_points()),
        "costs" => common::campaign_with_costs(directory.as_std_path()),
        "predictions" => {
            measured::campaign(
                directory.as_std_path(),
                &format!("{}{PREDICT}", measured::CAMPAIGN),
                |_| false,
            );
        }
        other => {
            return Err(format!(
                "unknown page `{other}`; known are made-up, many-points, costs and predictions"
            )
            .into());
        }
    }
    let to: Utf8PathBuf = directory.join("report");
    for file in write_all(&build(&rebuild_index(directory)?)?, &to, &Format::ALL)? {
        println!("{file}");
    }
    Ok(())
}

/// Bounds, some of which the predictions of the recorded runs exceed.
const PREDICT: &str = "[predict]\ntrain = [{ processes = [1, 4, 9] }]\nheld_out = [{ processes = [16, 25] }]\n\
                       max_error = { dtapp = 1.0, image = 2.0 }\nmin_coverage = 90\n";
