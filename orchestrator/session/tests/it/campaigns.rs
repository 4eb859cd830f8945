//! Campaign files, variants, and the campaign that a command line names.

use crate::bench::{Begun, Bench, CLOUD, LOCAL, TWO_POINTS, asked};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::point::CheckpointerKind;
use cvc_core::store::StoreError;
use cvc_session::SessionError;
use cvc_session::campaigns::{
    campaign_dir, campaign_dir_even_damaged, campaign_here, is_standing, load, load_of_site,
    load_stored, read_plan,
};
use std::fs;

fn silent(_: &str) {}

#[test]
fn a_file_is_read_with_the_applications_next_to_it_and_with_its_variant() {
    let variant = "[variants.small]\nmatrix = { mapping = '1Nx1P' }\n";
    let bench = Bench::new(LOCAL, TWO_POINTS, variant);
    let spec = load(&bench.file(), None).unwrap_or_else(|e| panic!("{e}"));
    assert!(spec.name == "c" && spec.apps.contains_key("demo"));
    let small = load(&bench.file(), Some("small")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(small.name, "c-small");
    assert_eq!(small.variant.as_deref(), Some("small"));
    let error = load(&bench.file(), Some("smal")).expect_err("it has no such variant");
    assert!(error.to_string().contains("smal"), "{error}");
    assert!(matches!(error, SessionError::Spec(_)), "{error:?}");
    let error = load(&bench.path("other.toml"), None).expect_err("there is none");
    assert!(error.to_string().contains("other.toml"), "{error}");
}

#[test]
fn a_campaign_of_this_machine_needs_no_file() {
    let spec =
        campaign_here("here", 3, &[CheckpointerKind::None]).unwrap_or_else(|e| panic!("{e}"));
    let plan = cvc_core::plan::build(&spec);
    assert_eq!(plan.campaign, "here");
    assert!(!plan.points.is_empty());
    for planned in &plan.points {
        let point = &planned.point;
        assert_eq!(
            (point.app.as_str(), point.processes()),
            ("kernel-stencil", 3)
        );
        assert_eq!(point.checkpointer, CheckpointerKind::None);
    }
}

#[test]
fn a_campaign_is_found_by_its_file_its_name_and_its_directory() {
    let begun = Begun::new();
    let (bench, campaigns) = (&begun.bench, begun.bench.campaigns());
    let find = |what: &Utf8Path| campaign_dir(what, None, &campaigns);
    let error = find(&bench.file()).expect_err("it has not begun");
    assert_eq!(
        error.to_string(),
        format!(
            "{} is not a campaign: it has no journal",
            begun.dir().root()
        )
    );
    begun.save();
    for what in [bench.file(), "c".into(), bench.path("campaigns/c")] {
        let found = find(&what).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(found.root(), begun.dir().root(), "{what}");
    }
    let elsewhere = bench.path("campaigns");
    let error = find(&elsewhere).expect_err("it is none");
    assert_eq!(
        error.to_string(),
        format!("{elsewhere} is not a campaign: it has no journal")
    );
    let error = find("nowhere".into()).expect_err("there is none");
    let named = bench.path("campaigns/nowhere");
    assert!(error.to_string().starts_with(named.as_str()), "{error}");
}

#[test]
fn a_campaign_file_may_have_any_ending() {
    let begun = Begun::new();
    begun.save();
    let file = begun.bench.path("campaign.conf");
    fs::copy(begun.bench.file(), &file).expect("copies");
    let found = campaign_dir(&file, None, &begun.bench.campaigns()).expect("a campaign");
    assert_eq!(found.root(), begun.dir().root());
}

#[test]
fn a_variant_is_one_of_a_file() {
    let begun = Begun::new();
    begun.save();
    let campaigns = begun.bench.campaigns();
    let found = campaign_dir("c".into(), Some("small"), &campaigns);
    let (message, hint) = asked(found);
    assert!(
        message.contains("--variant small needs a campaign file"),
        "{message}"
    );
    assert!(hint.contains("NAME-small"), "{hint}");
}

#[test]
fn a_campaign_without_its_journal_is_found_where_damage_is_looked_for() {
    let begun = Begun::new();
    let campaigns = begun.bench.campaigns();
    fs::create_dir_all(begun.dir().runs()).expect("makes");
    campaign_dir("c".into(), None, &campaigns).expect_err("it has no journal");
    let found = campaign_dir_even_damaged("c".into(), None, &campaigns).expect("its runs");
    assert_eq!(found.root(), begun.dir().root());
}

/// A directory of this process's own.
fn here(name: &str) -> (tempfile::TempDir, Utf8PathBuf) {
    let made = tempfile::Builder::new().prefix(name).tempdir_in(".");
    let directory = made.expect("a directory");
    let name = directory.path().file_name().expect("a name").to_owned();
    (
        directory,
        Utf8PathBuf::from(name.into_string().expect("UTF-8")),
    )
}

#[test]
fn a_name_that_is_two_campaigns_is_refused() {
    let begun = Begun::new();
    let campaigns = begun.bench.campaigns();
    let (directory, name) = here("cvc-test-campaign-");
    fs::write(directory.path().join("journal.jsonl"), "").expect("writes");
    // only the directory
    let found = campaign_dir(&name, None, &campaigns).expect("a campaign");
    assert_eq!(found.root(), name);
    begun
        .bench
        .write(&format!("campaigns/{name}/journal.jsonl"), "");
    let (message, hint) = asked(campaign_dir(&name, None, &campaigns));
    assert!(
        message.contains(&format!("{name} is ambiguous")),
        "{message}"
    );
    assert!(hint.contains(&format!("./{name}")), "{hint}");
    // a path is no name
    let path = Utf8Path::new(".").join(&name);
    assert_eq!(
        campaign_dir(&path, None, &campaigns)
            .expect("a campaign")
            .root(),
        path
    );
    // the directory of all campaigns is this one: both are the same
    let same = campaign_dir(&name, None, ".".into()).expect("a campaign");
    assert_eq!(same.root(), name);
}

#[test]
fn a_directory_that_is_none_hides_no_campaign_of_its_name() {
    let begun = Begun::new();
    let campaigns = begun.bench.campaigns();
    let (_directory, name) = here("cvc-test-campaign-");
    let error = campaign_dir(&name, None, &campaigns).expect_err("neither is one");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("neither the directory {name} nor ")),
        "{text}"
    );
    begun
        .bench
        .write(&format!("campaigns/{name}/journal.jsonl"), "");
    let found = campaign_dir(&name, None, &campaigns).expect("a campaign");
    assert_eq!(found.root(), campaigns.join(&name));
}

#[test]
fn a_plan_that_is_damaged_names_its_line() {
    let begun = Begun::new();
    begun.save();
    assert_eq!(read_plan(begun.dir()).expect("a plan"), begun.session.plan);
    begun
        .bench
        .write("campaigns/c/plan.json", "{\n\"schema\": \"x\"}");
    let error = read_plan(begun.dir()).expect_err("it is damaged");
    let is_at = matches!(&error, StoreError::Damaged { line: Some(2), .. });
    assert!(is_at, "{error}");
}

#[test]
fn the_stored_campaign_is_the_one_that_ran() {
    let begun = Begun::new();
    begun.save();
    begun.bench.write("campaigns/c/apps/demo.toml", &{
        fs::read_to_string(begun.bench.path("apps/demo.toml")).expect("an application")
    });
    begun.bench.write("campaign.toml", "changed since");
    let spec = load_stored(begun.dir()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(spec.name, "c");
}

#[test]
fn a_site_is_one_of_the_file() {
    let bench = Bench::new(
        &format!("{LOCAL}[sites.there]\nkind = 'local'\n"),
        TWO_POINTS,
        "",
    );
    let file = bench.file();
    let spec = load_of_site("there", Some(&file), None, &silent);
    assert!(spec.is_ok_and(|spec| spec.sites.len() == 2));
    let (message, hint) = asked(load_of_site("nowhere", Some(&file), None, &silent));
    assert_eq!(message, format!("{file} has no site `nowhere`"));
    assert_eq!(hint, "its sites: here, there");
    // this directory has a file for Cargo, which is none
    let (message, hint) = asked(load_of_site("here", None, None, &silent));
    assert_eq!(message, "no campaign file in this directory");
    assert_eq!(hint, "name it: --file FILE");
}

#[test]
fn machines_of_a_cloud_are_there_only_while_the_campaign_runs() {
    let bench = Bench::new(&format!("{LOCAL}{CLOUD}"), TWO_POINTS, "");
    let spec = load(&bench.file(), None).unwrap_or_else(|e| panic!("{e}"));
    is_standing(&spec, "here").expect("this machine");
    let (message, _) = asked(is_standing(&spec, "cloud"));
    assert!(message.contains("`cloud` exist only while"), "{message}");
}
