//! Checks that no output claims "95 %" for a number whose coverage is not on the calibration page.

use camino::{Utf8Path, Utf8PathBuf};
use std::fs;

/// Places in the sources that say "95 %": the end of the file's path, a part of the line, and the rows of the page that show its coverage. A new
/// place needs a claim in `cargo xtask calibrate`, or another wording.
const SAID: [(&str, &str, &[&str]); 36] = [
    (
        "tryout/show.rs",
        "mean ± half of the 95 % interval",
        &["mean of few repeats, by pooled scatter"],
    ),
    (
        "tryout/show.rs",
        " (95 %: {:+.0} to {:+.0} %)",
        &["ratio of independent repeats"],
    ),
    ("tryout/show.rs", "\"95 % interval\"", PREDICTED),
    ("command/demo.rs", "\"95 % interval\"", PREDICTED),
    (
        "report/prediction_plot.rs",
        "95 % prediction intervals",
        PREDICTED,
    ),
    (
        "report/drift.rs",
        "(95 %: {} to {} %",
        &["change over the time of a campaign"],
    ),
    (
        "report/latency.rs",
        "95 % interval of the checkpoint time",
        &["mean of repeats"],
    ),
    (
        "report/prediction.rs",
        "within their 95 % intervals",
        PREDICTED,
    ),
    (
        "report/prediction.rs",
        "within the 95 % prediction interval",
        PREDICTED,
    ),
    (
        "report/prediction.rs",
        "with its 95 % prediction interval",
        PREDICTED,
    ),
    (
        "report/effects.rs",
        "\"adjusted 95 % from\"",
        &["effect that is shown, of eight"],
    ),
    (
        "report/effects.rs",
        "of their intervals 95 % hold",
        &["effect that is shown, of eight"],
    ),
    (
        "report/price_of_checkpoints.rs",
        "\"adjusted 95 % from\"",
        &["effect that is shown, of eight"],
    ),
    (
        "report/answers.rs",
        "{adjusted}95 %: {range}",
        &[
            "effect pooled over three points",
            "effect that is shown, of eight",
        ],
    ),
    ("report/traces.rs", "\"95 % from\"", &["ratio of pairs"]),
    ("show/src/format.rs", "95 % prediction interval", PREDICTED),
    (
        "show/src/format.rs",
        "95 % interval of the mean",
        &["mean of repeats", "mean of stopped repeats"],
    ),
    (
        "report/cost.rs",
        "95 % intervals; lower is better",
        &["mean of repeats"],
    ),
    (
        "report/cost.rs",
        "95 % intervals; lower and further left",
        &["mean of repeats"],
    ),
    (
        "report/summary.rs",
        "95 % interval of the mean; n",
        &["mean of repeats", "mean of stopped repeats"],
    ),
    (
        "report/summary.rs",
        "\"mean, 95 % from\"",
        &["mean of repeats", "mean of stopped repeats"],
    ),
    (
        "report/summary.rs",
        "\"median, 95 % from\"",
        &["median of repeats"],
    ),
    (
        "report/summary.rs",
        "\"95 % from\"",
        &["coefficient of variation"],
    ),
    (
        "report/summary.rs",
        "95 % interval of the mean (from ten",
        &[
            "mean of repeats",
            "mean of few repeats, by pooled scatter",
            "median of repeats",
        ],
    ),
    (
        "report/comparison.rs",
        "of their intervals 95 % hold",
        &["effect that is shown, of eight", "ratio of pairs"],
    ),
    (
        "comparison/page.rs",
        "with 95 % intervals of the mean",
        &["mean of repeats"],
    ),
    (
        "report/abstract_of.rs",
        "95 % interval of the mean is",
        &["mean of repeats"],
    ),
    (
        "report/repeat.rs",
        "95 % intervals of the mean",
        &["mean of repeats"],
    ),
    (
        "report/time.rs",
        "their 95 % intervals",
        &["mean of repeats"],
    ),
    (
        "comparison/page.rs",
        "95 %",
        &["ratio of independent repeats"],
    ),
    ("advice/page.rs", "95 %", &["mean of repeats"]),
    ("command/advise.rs", "95 %", &["mean of repeats"]),
    ("holdout/gate.rs", "within their 95 % interval", PREDICTED),
    ("predict/show.rs", "\"95 % interval\"", PREDICTED),
    ("predict/show.rs", "not calibrated at 95 %", &[]),
    (
        "command/aa_test.rs",
        "95 %",
        &[
            "ratio of independent repeats",
            "ratio of pairs",
            "share of runs",
        ],
    ),
];

/// The page's rows of predicted quantities.
const PREDICTED: &[&str] = &[
    "application data",
    "shared memory",
    "area headers",
    "image of a rank",
    "file of a rank",
    "stored in all",
    "checkpoint time",
];

/// Files about the claim itself: the page, its picture, and the table behind predictions.
const ABOUT_IT: [&str; 3] = [
    "calibration/page.rs",
    "calibration/picture.rs",
    "predict/calibration.rs",
];

fn root() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Collects all sources below a directory, without tests.
fn sources(directory: &Utf8Path, found: &mut Vec<(String, String)>) {
    for entry in directory
        .read_dir_utf8()
        .expect("a directory")
        .map(|e| e.expect("an entry"))
    {
        let path = entry.path();
        if path.is_dir() {
            sources(path, found);
        } else if ["rs", "html", "js", "sql"].contains(&path.extension().unwrap_or_default()) {
            let text = fs::read_to_string(path).expect("a source");
            let text = text
                .split("#[cfg(test)]\nmod ")
                .next()
                .unwrap_or_default()
                .to_owned();
            found.push((path.as_str().replace('\\', "/"), text));
        }
    }
}

#[test]
fn no_output_says_95_percent_of_a_number_that_the_calibration_page_does_not_have() {
    let page = fs::read_to_string(root().join("docs/calibration.md")).expect("the page");
    let mut all = Vec::new();
    let tools = ["ec2", "fuzz", "simulation", "testkit", "xtask"];
    for part in root()
        .join("orchestrator")
        .read_dir_utf8()
        .expect("lists")
        .flatten()
        .filter(|part| !tools.contains(&part.file_name()))
    {
        sources(&part.path().join("src"), &mut all);
    }
    assert!(all.len() > 200, "{} files", all.len());
    let mut used = [false; SAID.len()];
    for (path, text) in all
        .iter()
        .filter(|(path, _)| !ABOUT_IT.iter().any(|end| path.ends_with(end)))
    {
        let said = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for line in said.filter(|line| {
            ["95 %", "95%", "95 percent"]
                .iter()
                .any(|word| line.contains(word))
        }) {
            let known = SAID
                .iter()
                .position(|(end, part, _)| path.ends_with(end) && line.contains(part));
            let at = known.unwrap_or_else(|| {
                panic!(
                    "{path} says 95 % of what the calibration page may not have: {}",
                    line.trim()
                )
            });
            used[at] = true;
        }
    }
    for ((path, part, rows), used) in SAID.iter().zip(used) {
        assert!(used, "{path} no longer says {part:?}");
        for row in *rows {
            assert!(
                page.contains(&format!("\n| {row} | ")),
                "docs/calibration.md has no row {row:?}, of which {path} says {part:?}"
            );
        }
    }
}
