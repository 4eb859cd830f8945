//! Tests of the cloud itself: its answers, its instances, its faults. They call it without the SDK, because moto checks no signatures.

mod faults;
mod nodes;
mod paper;

use base64::prelude::{BASE64_STANDARD, Engine};
use cvc_testkit::{Cloud, Lab};

/// A client of a cloud's EC2, on the laptop of a lab or on this machine.
struct Client<'c> {
    lab: Option<&'c Lab>,
    cloud: &'c Cloud,
    agent: ureq::Agent,
}

impl<'c> Client<'c> {
    fn of(cloud: &'c Cloud, lab: Option<&'c Lab>) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_idle_connections(0);
        Self {
            lab,
            cloud,
            agent: config.build().into(),
        }
    }

    /// Posts a request and returns the status and body of its answer; `None` if the connection was closed without one.
    fn post(&self, headers: &[(&str, &str)], body: &str) -> Option<(u16, String)> {
        let ask = || {
            let mut request = self.agent.post(self.cloud.endpoint());
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let mut answer = request.send(body).ok()?;
            let body = answer.body_mut().read_to_string().expect("a text");
            Some((answer.status().as_u16(), body))
        };
        match self.lab {
            Some(lab) => lab.on_network(ask),
            None => ask(),
        }
    }

    /// Calls an action of EC2 in a region, with additional headers.
    fn in_region(
        &self,
        region: &str,
        headers: &[(&str, &str)],
        action: &str,
        parameters: &[(&str, &str)],
    ) -> Option<(u16, String)> {
        let scope = format!(
            "AWS4-HMAC-SHA256 Credential=AKIACVCTESTKITMADEUP/20260101/{region}/ec2/aws4_request, Signature=0"
        );
        let all = [("Action", action), ("Version", "2016-11-15")]
            .into_iter()
            .chain(parameters.iter().copied());
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(all)
            .finish();
        let own = [
            ("Authorization", scope.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.post(
            &own.into_iter()
                .chain(headers.iter().copied())
                .collect::<Vec<_>>(),
            &body,
        )
    }

    /// Calls an action of EC2.
    fn try_to(&self, action: &str, parameters: &[(&str, &str)]) -> Option<(u16, String)> {
        self.in_region("us-east-1", &[], action, parameters)
    }

    /// Calls an action that must succeed and returns its answer.
    #[track_caller]
    fn ask(&self, action: &str, parameters: &[(&str, &str)]) -> String {
        match self.try_to(action, parameters) {
            Some((200, body)) => body,
            other => panic!(
                "{action} {parameters:?}: {other:?}\n{}",
                self.cloud.troubles()
            ),
        }
    }

    /// Calls an action that must fail and returns the code of its error.
    #[track_caller]
    fn refused(&self, action: &str, parameters: &[(&str, &str)]) -> String {
        match self.try_to(action, parameters) {
            Some((400.., body)) => all(&body, "Code").remove(0),
            other => panic!("{action} {parameters:?}: {other:?}"),
        }
    }

    /// Imports the public part of a key pair.
    fn import_key(&self, name: &str, public: &str) {
        self.ask(
            "ImportKeyPair",
            &[
                ("KeyName", name),
                ("PublicKeyMaterial", &BASE64_STANDARD.encode(public)),
            ],
        );
    }

    /// Launches instances and returns their identifiers.
    #[track_caller]
    fn launch(&self, count: &str, more: &[(&str, &str)]) -> Vec<String> {
        let image = self.cloud.image("x86_64");
        let basic = [
            ("ImageId", image.as_str()),
            ("InstanceType", "c5.large"),
            ("MinCount", "1"),
            ("MaxCount", count),
            ("KeyName", "key"),
        ];
        let basic = basic
            .into_iter()
            .filter(|(name, _)| !more.iter().any(|(m, _)| m == name));
        all(
            &self.ask(
                "RunInstances",
                &basic.chain(more.iter().copied()).collect::<Vec<_>>(),
            ),
            "instanceId",
        )
    }

    /// Returns the states of the instances that pass these filters, in order.
    fn states(&self, parameters: &[(&str, &str)]) -> Vec<String> {
        let body = self.ask("DescribeInstances", parameters);
        body.split("<instanceState>")
            .skip(1)
            .map(|rest| all(rest, "name").remove(0))
            .collect()
    }
}

/// Returns the contents of all elements of this name.
fn all(body: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    body.split(&open)
        .skip(1)
        .filter_map(|rest| rest.split(&close).next())
        .map(str::to_owned)
        .collect()
}

const PUBLIC: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN33SLmG1/nNTBd0EeHsuXoZLGa0th5RMVL6bZUptKxZ test";
