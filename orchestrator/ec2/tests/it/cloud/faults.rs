//! Tests of faults between cvc and the cloud.

use super::{Site, fleet, order};
use cvc_cloud::provider::{ErrorKind, SideEffect};
use cvc_testkit::{
    Cloud, Tool,
    cloud::{Fault, SECRET_KEY},
    require,
};

#[test]
fn refusals_are_classified() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    let made = site.prepare(&fleet("f"));
    let cases = [
        (
            "InsufficientInstanceCapacity",
            500,
            "",
            ErrorKind::Capacity,
            SideEffect::Clear,
            true,
        ),
        (
            "Unsupported",
            400,
            "not supported in your requested Availability Zone (us-east-1a)",
            ErrorKind::Capacity,
            SideEffect::Clear,
            true,
        ),
        (
            "SpotMaxPriceTooLow",
            400,
            "",
            ErrorKind::SpotPrice,
            SideEffect::Clear,
            true,
        ),
        (
            "MaxSpotInstanceCountExceeded",
            400,
            "",
            ErrorKind::Quota,
            SideEffect::Clear,
            false,
        ),
        (
            "VcpuLimitExceeded",
            400,
            "",
            ErrorKind::Quota,
            SideEffect::Clear,
            false,
        ),
        (
            "UnauthorizedOperation",
            403,
            "not authorized. Encoded authorization failure message: abc",
            ErrorKind::Denied,
            SideEffect::Clear,
            false,
        ),
        (
            "OptInRequired",
            401,
            "",
            ErrorKind::Account,
            SideEffect::Clear,
            false,
        ),
        (
            "PendingVerification",
            400,
            "Your request for accessing resources in this region is being validated",
            ErrorKind::Account,
            SideEffect::Clear,
            false,
        ),
        (
            "Blocked",
            403,
            "",
            ErrorKind::Account,
            SideEffect::Clear,
            false,
        ),
        (
            "InvalidClientTokenId",
            403,
            "",
            ErrorKind::Credentials,
            SideEffect::Clear,
            false,
        ),
        (
            "InvalidAMIID.NotFound",
            400,
            "",
            ErrorKind::Invalid,
            SideEffect::Clear,
            false,
        ),
        (
            "InvalidParameterValue",
            400,
            "",
            ErrorKind::Invalid,
            SideEffect::Clear,
            false,
        ),
        (
            "SomethingNew",
            400,
            "",
            ErrorKind::Other,
            SideEffect::Clear,
            false,
        ),
    ];
    for (number, (code, http, message, kind, left, elsewhere)) in (10..).zip(cases) {
        site.cloud.fault(
            Fault::error("RunInstances", code, http)
                .message(message)
                .always(),
        );
        let e = site.refused(&order(&site, "f", number, 1, &made));
        assert_eq!(
            (e.kind, &e.left, e.elsewhere()),
            (kind, &left, elsewhere),
            "{code}: {e}"
        );
        assert_eq!(e.code.as_deref(), Some(code));
        assert!(
            !e.to_string().contains("abc") && !format!("{e:?}").contains(SECRET_KEY),
            "{e:?}"
        );
        site.cloud.clear_faults();
    }
    assert_eq!(site.alive("f").len(), 0);
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}

#[test]
fn throttling_and_a_service_that_is_unwell_are_survived() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    site.cloud.fault(Fault::throttle("*").times(3));
    let made = site.prepare(&fleet("f"));
    site.cloud
        .fault(Fault::error("RunInstances", "Unavailable", 503).times(2));
    site.cloud
        .fault(Fault::error("RunInstances", "InternalError", 500));
    site.cloud.fault(Fault::lost_request("RunInstances"));
    assert_eq!(site.launch(&order(&site, "f", 1, 2, &made)).len(), 2);
    assert_eq!(site.alive("f").len(), 2);
    site.cloud.fault(Fault::throttle("*").times(2));
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    assert!(site.cloud.faults_are_over());
    site.cloud.assert_nothing_left();

    // if the answer to a creating call is lost, the next attempt finds the resource
    for action in [
        "ImportKeyPair",
        "CreateSecurityGroup",
        "AuthorizeSecurityGroupIngress",
        "CreatePlacementGroup",
    ] {
        site.cloud.fault(Fault::lost_answer(action));
    }
    site.prepare(&fleet("f"));
    assert!(site.cloud.faults_are_over());
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}

#[test]
fn a_cloud_that_is_not_there_has_done_nothing() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    let made = site.prepare(&fleet("f"));
    let wanted = order(&site, "f", 1, 1, &made);
    let Site {
        runtime,
        provider,
        cloud,
        ..
    } = site;
    drop(cloud);
    let e = runtime
        .block_on(provider.launch(&wanted))
        .expect_err("nobody is there");
    assert_eq!(
        (e.kind, &e.left),
        (ErrorKind::Unreachable, &SideEffect::Clear),
        "{e}"
    );
    assert!(e.later() && !format!("{e:?}").contains(SECRET_KEY), "{e:?}");
}

#[test]
fn a_clock_that_is_wrong_is_put_right_by_the_clouds_answers() {
    require!(Tool::Moto);
    for seconds in [-3600, 3600] {
        let site = Site::new(Cloud::without_nodes());
        site.cloud.skew(seconds);
        let made = site.prepare(&fleet("f"));
        assert_eq!(site.launch(&order(&site, "f", 1, 1, &made)).len(), 1);
        // clients with a fresh identity do not know the cloud's clock yet
        site.cloud
            .fault(Fault::error("DescribeInstances", "ExpiredToken", 400));
        assert_eq!(site.alive("f").len(), 1);
        assert!(site.cloud.faults_are_over());
        assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
        site.cloud.assert_nothing_left();
    }
}
