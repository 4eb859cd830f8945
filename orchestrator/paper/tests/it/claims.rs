//! Claims of papers: the thesis's, and the errors of a file that cannot be judged.

use crate::common::thesis;
use cvc_paper::paper::{ClaimCounts, ClaimOutcome, ClaimVerdict, judge_claims, load};
use cvc_paper::rerun::{self, CampaignMeasurements};
use std::{fmt::Write, fs, path::Path};

#[test]
fn the_claims_of_the_thesis_are_judged_by_its_own_numbers() {
    let claims = judge_claims(&thesis(), |_| None);
    let mut text = String::new();
    for c in &claims {
        let print = c.print.as_ref().map_or_else(String::new, |p| p.describe());
        let (id, verdict, why) = (&c.id, c.verdict.describe(), c.why());
        writeln!(text, "{id}: {verdict} ({print}) {why}").expect("text");
    }
    let counts = ClaimCounts::of(&claims);
    insta::assert_snapshot!(format!("{}\n{text}", counts.describe()));
}

const PAPER: &str = "schema = 1\nid = \"small\"\ntitle = \"A small paper\"\nauthors = [\"A\"]\n[[tables]]\nid = \"1\"\ntitle = \"Table 1\"\nfile = \"1.csv\"\n\
    caption = \"small\"\ncolumns = [\n{ id = \"mpi\", heading = \"mpi\", kind = \"label\" },\n{ id = \"p\", heading = \"p\", kind = \"setting\" },\n\
    { id = \"run1\", heading = \"run 1\", kind = \"measured\" },\n{ id = \"run2\", heading = \"run 2\", kind = \"measured\" },\n]\n";

/// The only claim of a small paper, judged.
fn judge(test: &str) -> Result<ClaimOutcome, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = dir.path().join("small");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("paper.toml"), PAPER).expect("written");
    let rows = "mpi,p,run1,run2\na,2,10,10\na,4,20,22\na,8,30,10\nb,2,11,10\nb,4,22,10\n";
    fs::write(folder.join("1.csv"), rows).expect("written");
    let claims = format!(
        "schema = 1\n[[claims]]\nid = \"c\"\nsection = \"1\"\nsays = \"it grows\"\nprint = [{test}]\n"
    );
    fs::write(folder.join("claims.toml"), claims).expect("written");
    let paper = load(Path::new(&folder)).map_err(|e| e.to_string())?;
    Ok(judge_claims(&paper, |_| None).remove(0))
}

#[track_caller]
fn outcome(test: &str) -> (ClaimVerdict, String, String) {
    let claim = judge(test).unwrap_or_else(|e| panic!("{e}"));
    let words = claim.print.as_ref().expect("print").describe();
    (claim.verdict, words, claim.why())
}

#[test]
fn tests_compare_values_ratios_steps_differences_and_spreads() {
    use ClaimVerdict::{ContradictedByPrint, Holds, Undecided};
    let of = |test: &str| {
        let (verdict, words, _) = outcome(test);
        (verdict, words)
    };
    let side = |rows: &str, value: &str| format!("{{ table = \"1\"{rows}, value = {value} }}");
    let all = side("", "\"run1\"");
    let (a, b) = (
        side(", rows = { mpi = \"a\" }", "\"run1\""),
        side(", rows = { mpi = \"b\" }", "\"run1\""),
    );
    // values
    let is = of(&format!("{{ each = {all}, between = [10, 30] }}"));
    assert_eq!(is, (Holds, "5 of 5: 10 to 30".into()));
    let is = of(&format!("{{ each = {all}, above = 10 }}"));
    assert_eq!(is, (ContradictedByPrint, "4 of 5: 10 to 30".into()));
    let is = of(&format!("{{ each = {all}, above = 10, share = 0.8 }}"));
    assert_eq!(is.0, Holds);
    let is = of(&format!("{{ each = {all}, of = \"largest\", below = 30 }}"));
    assert_eq!(is, (ContradictedByPrint, "0 of 1: 30".into()));
    // ratios of rows that differ in what the sides select alone
    let is = of(&format!("{{ each = {b}, than = {a}, above = 1 }}"));
    assert_eq!(is, (Holds, "2 of 2: 1.1".into()));
    let is = of(&format!("{{ each = {b}, minus = {a}, between = [1, 2] }}"));
    assert_eq!(is, (Holds, "2 of 2: 1 to 2".into()));
    // steps
    let along = format!("{{ each = {all}, along = \"p\", within = [\"mpi\"], above = 1.5 }}");
    assert_eq!(
        of(&along),
        (ContradictedByPrint, "2 of 3: 1.5 to 2".into()),
        "1.5 is not above 1.5"
    );
    // spreads, also of a rule over columns that a `*` stands for
    let is = of(&format!(
        "{{ each = {all}, spread = true, within = [\"p\"], below = 1.2 }}"
    ));
    assert_eq!(is, (Holds, "2 of 2: 1.1".into()));
    let cv = side("", "{ name = \"variation-coefficient\", of = [\"run*\"] }");
    let is = of(&format!("{{ each = {cv}, above = -1 }}"));
    assert_eq!(is, (Holds, "5 of 5: 0 to 50".into()));
    // no two rows of a group
    let is = of(&format!(
        "{{ each = {all}, spread = true, within = [\"p\", \"mpi\"], below = 2 }}"
    ));
    assert_eq!(is.0, Undecided);
}

#[test]
fn the_counterexample_is_the_farthest() {
    let (_, _, why) = outcome("{ each = { table = \"1\", value = \"run1\" }, below = 20 }");
    assert_eq!(why, "Table 1 (a, p 8): 30");
}

#[test]
fn a_claim_that_cannot_be_judged_is_an_error_with_a_place() {
    let fails = |test: &str| judge(test).expect_err("refused");
    let e = fails("{ each = { table = \"2\", value = \"run1\" }, above = 1 }");
    assert!(
        e.contains("claims.toml:6") && e.contains("unknown table `2`"),
        "{e}"
    );
    let e = fails("{ each = { table = \"1\", value = \"run3\" }, above = 1 }");
    assert!(e.contains("no column `run3`") && e.contains("run"), "{e}");
    let e = fails("{ each = { table = \"1\", value = \"run1\" } }");
    assert!(e.contains("one bound"), "{e}");
    let e = fails(
        "{ each = { table = \"1\", value = \"run1\" }, spread = true, along = \"p\", above = 1 }",
    );
    assert!(e.contains("one way"), "{e}");
    let e = fails(
        "{ each = { table = \"1\", value = { name = \"quotent\", of = [\"run1\", \"run2\"] } }, above = 1 }",
    );
    assert!(e.contains("`quotient`"), "{e}");
    let e = fails("{ each = { table = \"1\", value = \"run1\" }, above = 1, share = 0 }");
    assert!(e.contains("share"), "{e}");
}

/// `measured.toml` names tables, columns, claims and campaign files that exist.
#[test]
fn what_measures_the_thesis_fits_its_tables_and_claims() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/papers/thesis");
    let definition = rerun::load(&folder).unwrap_or_else(|e| panic!("{e}"));
    let definition = definition.expect("it is there");
    let joined = rerun::join(&thesis(), &definition, &CampaignMeasurements::default());
    assert_eq!(joined.mistakes, Vec::<String>::new());
    for campaign in &definition.campaigns {
        assert!(folder.join(&campaign.file).is_file(), "{}", campaign.file);
    }
    let files = fs::read_dir(folder.join("campaigns")).expect("campaigns");
    let is_campaign = |f: &fs::DirEntry| f.path().extension().is_some_and(|e| e == "toml");
    let files = files.flatten().filter(is_campaign).count();
    assert_eq!(definition.campaigns.len(), files, "all are named");
}
