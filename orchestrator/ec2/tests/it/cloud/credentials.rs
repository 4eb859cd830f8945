//! Tests of identities that expire, and of secrets that must not be printed.

use super::{Site, fleet};
use cvc_cloud::provider::ErrorKind;
use cvc_testkit::{
    Cloud, Tool,
    cloud::{ACCESS_KEY, Fault, SECRET_KEY},
    require,
};
use std::fs;

const WORD: &str = "aVerySecretWord";

#[test]
fn an_identity_that_has_expired_is_asked_for_again() {
    require!(Tool::Moto);
    let files = tempfile::tempdir().expect("a directory");
    let (asked, program) = (files.path().join("asked"), files.path().join("identity.sh"));
    let answer = format!(
        r#"{{"Version":1,"AccessKeyId":"{ACCESS_KEY}","SecretAccessKey":"{SECRET_KEY}","SessionToken":"{WORD}"}}"#
    );
    fs::write(
        &program,
        format!("echo asked >>{}\necho '{answer}'\n", asked.display()),
    )
    .expect("a program");
    let site = Site::with(
        Cloud::without_nodes(),
        &format!("credential_process = sh {}\n", program.display()),
    );
    let times = || {
        fs::read_to_string(&asked)
            .unwrap_or_default()
            .lines()
            .count()
    };
    site.prepare(&fleet("f"));
    assert_eq!(times(), 1, "one identity for many calls");
    site.cloud
        .fault(Fault::error("DescribeInstances", "ExpiredToken", 400));
    assert!(site.alive("f").is_empty());
    assert_eq!(times(), 2, "a fresh one");
    site.cloud
        .fault(Fault::error("DescribeInstances", "RequestExpired", 400).times(2));
    assert!(site.alive("f").is_empty());
    assert_eq!(times(), 3);

    // the fresh identity is not valid either
    site.cloud.expire_credentials();
    let e = site.wait(site.provider.observe("f")).expect_err("expired");
    assert_eq!(e.kind, ErrorKind::Credentials, "{e}");
    assert!(e.hint().is_some_and(|m| m.contains("aws sso login")));
    site.cloud.restore_credentials();
    assert!(site.alive("f").is_empty());

    // no identity is left
    fs::write(
        &program,
        format!("echo '{WORD}'\necho '{WORD}' >&2\nexit 1\n"),
    )
    .expect("a program");
    site.cloud
        .fault(Fault::error("DescribeInstances", "ExpiredToken", 400));
    let e = site
        .wait(site.provider.observe("f"))
        .expect_err("no identity");
    assert_eq!(e.kind, ErrorKind::Credentials, "{e}");
    assert!(
        !format!("{e} {e:?} {:?}", site.provider).contains(WORD),
        "{e:?}"
    );
    fs::write(&program, format!("echo '{answer}'\n")).expect("a program");
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}

#[test]
fn a_file_that_is_corrected_meanwhile_is_read_again_and_nothing_shows_a_secret() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    assert!(site.alive("f").is_empty());
    // a service that quotes the request as it would have been signed, including the token
    let quoted = format!(
        "The Canonical String for this request should have been 'x-amz-security-token:{WORD}'"
    );
    site.cloud.fault(
        Fault::error("DescribeInstances", "SignatureDoesNotMatch", 403)
            .message(&quoted)
            .always(),
    );
    let e = site.wait(site.provider.observe("f")).expect_err("refused");
    assert_eq!(e.kind, ErrorKind::Credentials);
    assert!(!format!("{e} {e:?}").contains(WORD), "{e:?}");
    site.cloud.clear_faults();
    fs::write(
        &site.profiles,
        format!(
            "[profile test]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {WORD}\n"
        ),
    )
    .expect("a file");
    site.cloud
        .fault(Fault::error("DescribeInstances", "AuthFailure", 401));
    assert!(site.alive("f").is_empty());
    let shown = format!("{:?}", site.provider);
    assert!(
        !shown.contains(WORD) && !shown.contains(SECRET_KEY) && shown.contains("us-east-1"),
        "{shown}"
    );
}
