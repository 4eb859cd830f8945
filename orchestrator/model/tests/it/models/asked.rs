//! Settings that models do not know, and samples that they cannot be fitted on.

use crate::models::data::{dtapp as data_zones, on_one_node, pick, setting};
use cvc_model::{
    Answer, FitError, Fitted, Model, MpiKind, Sample, dtapp, headers, latency, library, shmem,
    size, surplus,
};

fn zones(class: &str, processes: &[u32]) -> Vec<Sample> {
    let of = |s: &Sample| {
        s.at.app == "npb-bt" && s.at.class == class && processes.contains(&s.at.processes())
    };
    data_zones().into_iter().filter(of).collect()
}

fn fitted(model: &dyn Model, samples: &[Sample]) -> Result<Box<dyn Fitted>, FitError> {
    model.fit(&samples.iter().collect::<Vec<_>>())
}

fn dtapp_model(id: &str) -> Box<dyn Model> {
    pick(dtapp::models(), id)
}

#[test]
fn answers_far_beyond_the_training_runs_carry_a_warning() {
    let samples = zones("B", &[4, 9, 25]);
    // they need other runs: of one process, of other programs, of data that grow
    let others = [
        "dtapp-growth",
        "dtapp-written-arrays-rest",
        "dtapp-nonzeros",
        "dtapp-volume-surface",
    ];
    for model in dtapp::models()
        .iter()
        .filter(|m| m.info().parameters > 0 && !others.contains(&m.info().id))
    {
        let curve = fitted(&**model, &samples).expect("a fit");
        let warnings = |p: u32| {
            curve
                .predict(&on_one_node("BT", "B", p, MpiKind::Nemesis))
                .expect("an answer")
                .warnings
        };
        assert!(warnings(49).is_empty(), "{}", model.info().id);
        let far = warnings(64);
        assert!(
            far.len() == 1 && far[0].contains("64 processes") && far[0].contains("the 25 of"),
            "{}: {far:?}",
            model.info().id
        );
    }
    let published = pick(shmem::models(), "shmem-algorithm2")
        .fit(&[])
        .expect("nothing is fitted");
    let at = |p: u32| -> Answer {
        published
            .predict(&on_one_node("BT", "B", p, MpiKind::Nemesis))
            .expect("an answer")
    };
    assert!(at(63).warnings.is_empty());
    assert!(
        at(64).warnings[0].contains("Algorithm 2 ends at 63"),
        "{:?}",
        at(64).warnings
    );
    assert_eq!(at(65).warnings.len(), 2);
}

#[test]
fn one_training_run_is_too_few_for_two_parameters_and_repeats_do_not_help() {
    let one = zones("B", &[16]);
    assert_eq!(one.len(), 1);
    for id in [
        "dtapp-halo",
        "dtapp-power-law",
        "dtapp-volume-faces",
        "dtapp-stored-arrays",
    ] {
        let model = dtapp_model(id);
        assert_eq!(
            fitted(&*model, &one).err(),
            Some(FitError::TooFewPoints {
                found: 1,
                needed: 2
            }),
            "{id}"
        );
        let refused = fitted(&*model, &[one.clone(), one.clone(), one.clone()].concat()).err();
        assert!(
            matches!(
                refused,
                Some(FitError::RankDeficient { .. } | FitError::NoConvergence(_))
            ),
            "{id}: {refused:?}"
        );
    }
    assert!(fitted(&*dtapp_model("dtapp-stored-arrays-one-run"), &one).is_ok());
}

#[test]
fn a_curve_refuses_settings_that_it_does_not_know() {
    let samples = zones("B", &[4, 9, 25]);
    let other_class = on_one_node("BT", "C", 16, MpiKind::Nemesis);
    let other_program = on_one_node("SP", "B", 16, MpiKind::Nemesis);
    for id in ["dtapp-power-law", "dtapp-volume-faces"] {
        let curve = fitted(&*dtapp_model(id), &samples).expect("a fit");
        assert!(
            matches!(curve.predict(&other_class), Err(FitError::OutOfDomain(why)) if why.contains("npb-bt.C")),
            "{id}"
        );
    }
    let halo = fitted(&*dtapp_model("dtapp-halo"), &samples).expect("a fit");
    assert!(
        halo.predict(&other_class).is_ok(),
        "the halo carries over between classes"
    );
    assert!(
        matches!(halo.predict(&other_program), Err(FitError::OutOfDomain(why)) if why.contains("SP"))
    );
    assert!(
        matches!(halo.predict(&on_one_node("BT", "B", 24, MpiKind::Nemesis)), Err(FitError::OutOfDomain(why)) if why.contains("square"))
    );
    let mixed = [zones("B", &[4, 9]), zones("C", &[16, 25])].concat();
    assert!(
        matches!(fitted(&*dtapp_model("dtapp-power-law"), &mixed), Err(FitError::OutOfDomain(why)) if why.contains("differ"))
    );
    let unknown = setting(
        "lulesh",
        "30",
        "1Nx8P".parse().expect("a mapping"),
        8,
        MpiKind::Nemesis,
    );
    for id in ["dtapp-arrays", "dtapp-written-arrays"] {
        let curve = dtapp_model(id).fit(&[]).expect("nothing is fitted");
        assert!(
            matches!(curve.predict(&unknown), Err(FitError::OutOfDomain(why)) if why.contains("lulesh.30")),
            "{id}"
        );
    }
    let buffers = pick(shmem::models(), "shmem-buffers-published")
        .fit(&[])
        .expect("nothing is fitted");
    assert!(
        buffers
            .predict(&on_one_node("BT", "B", 16, MpiKind::OpenMpi))
            .is_err()
    );
}

/// One process has no segment, so its size must not move the constant of several processes.
#[test]
fn runs_with_one_process_do_not_affect_models_of_shared_memory() {
    let sample = |p: u32, value: f64| Sample {
        id: p.to_string(),
        at: on_one_node("BT", "A", p, MpiKind::Nemesis),
        value,
    };
    let model = pick(shmem::models(), "shmem-buffers-copies");
    let predicted = |samples: &[Sample]| {
        let curve = fitted(&*model, samples).expect("a fit");
        curve
            .predict(&on_one_node("BT", "A", 16, MpiKind::Nemesis))
            .expect("an answer")
            .estimate
            .value
    };
    let several = [sample(4, 28.43), sample(9, 52.86)];
    let with_one = [several.to_vec(), vec![sample(1, 9.92)]].concat();
    assert!((predicted(&several) - predicted(&with_one)).abs() < 1e-9);
    let alone = fitted(&*pick(shmem::models(), "shmem-alone"), &with_one).expect("a fit");
    assert!(
        alone
            .predict(&with_one[2].at)
            .is_ok_and(|a| (a.estimate.value - 9.92).abs() < 1e-9)
    );
    assert!(alone.predict(&with_one[0].at).is_err());
}

#[test]
fn every_model_has_a_unique_name_and_a_description() {
    let all = [
        dtapp::models(),
        shmem::models(),
        shmem::models_with_data(),
        library::models(),
        headers::models(),
        surplus::models(),
        latency::models(),
        latency::restart(),
        size::data_models(),
        size::own_models(),
        size::own_time_models(),
        size::time_models(),
    ];
    let mut ids = std::collections::HashSet::new();
    for model in all.iter().flatten() {
        let info = model.info();
        assert!(ids.insert(info.id), "{} twice", info.id);
        assert!(
            !info.title.is_empty() && !info.source.is_empty() && info.formula.contains('='),
            "{info:?}"
        );
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md"))
                .expect("the page");
        let shown = ["lb-", "headers-"]
            .iter()
            .any(|zone| info.id.starts_with(zone))
            || page.contains(info.id);
        assert!(shown, "{} is not in docs/models.md", info.id);
    }
    assert!(ids.len() >= 30, "{}", ids.len());
}
