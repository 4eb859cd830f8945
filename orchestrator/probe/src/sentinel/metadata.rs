//! Client of the EC2 metadata service, version 2 (IMDSv2), which requires a token.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use ureq::{Agent, Body, http::Response};

/// Address of the metadata service, the same on every instance.
pub const METADATA: &str = "http://169.254.169.254";
/// Time limit of a request; short, because the service is on the same machine.
const LIMIT: Duration = Duration::from_secs(2);
/// Lifetime of a token, seconds; a token serves one query.
const TOKEN_LIFE_S: &str = "60";
/// Maximum length of an answer, bytes.
const MAX_LENGTH: u64 = 16 << 10;

/// A notice that the cloud will reclaim a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataNotice {
    /// The announced action: `terminate`, `stop`, `hibernate`.
    pub action: String,
    /// Announced time, RFC 3339, as the service returns it.
    pub time: String,
}

/// Facts of the cloud instance on which this node runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceFacts {
    /// Instance id: `i-...`.
    pub id: Option<String>,
    /// Instance type, as in `c5.xlarge`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Availability zone.
    pub zone: Option<String>,
    /// Purchase option: `spot`, `on-demand`.
    pub market: Option<String>,
}

/// A failure of the metadata service.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The service does not answer. A machine that is not an instance has no such service.
    #[error("the metadata service at {address} does not answer: {error}")]
    Silent {
        /// Address of the service.
        address: String,
        /// The reason.
        error: Box<ureq::Error>,
    },
    /// The service did not return a token.
    #[error("the metadata service at {address} did not give a token: {why}")]
    NoToken {
        /// Address of the service.
        address: String,
        /// The reason.
        why: NoText,
    },
    /// A value could not be requested from the service.
    #[error("{url}: {error}")]
    Ask {
        /// The requested address.
        url: String,
        /// The reason.
        error: Box<ureq::Error>,
    },
    /// An answer of the service could not be read.
    #[error("{url}: {why}")]
    Read {
        /// The requested address.
        url: String,
        /// The reason.
        why: NoText,
    },
    /// A notice does not have the expected form.
    #[error("spot/instance-action of the metadata service: {error}: {message}")]
    Notice {
        /// The reason.
        error: serde_json::Error,
        /// Text of the notice.
        message: String,
    },
}

/// Why the text of an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub enum NoText {
    /// The service answered with this error status.
    #[error("it answers {0}")]
    Status(u16),
    /// The service does not offer the requested item.
    #[error("it does not support tokens")]
    Unsupported,
    /// The answer was interrupted, or is too long.
    #[error("{0}")]
    Unreadable(Box<ureq::Error>),
}

/// A metadata service, with the token that it returned.
struct Service<'a> {
    agent: Agent,
    address: &'a str,
    token: String,
}

impl<'a> Service<'a> {
    fn open(address: Option<&'a str>) -> Result<Self, MetadataError> {
        let address = address.unwrap_or(METADATA).trim_end_matches('/');
        // ignore the node's proxies: the service is local
        let config = Agent::config_builder()
            .timeout_global(Some(LIMIT))
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false);
        let agent: Agent = config.build().into();
        let asked = agent
            .put(format!("{address}/latest/api/token"))
            .header("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_LIFE_S);
        let silent = |error| MetadataError::Silent {
            address: address.to_owned(),
            error: Box::new(error),
        };
        let token = text(asked.send_empty().map_err(silent)?)
            .and_then(|token| token.ok_or(NoText::Unsupported));
        let token = token.map_err(|why| MetadataError::NoToken {
            address: address.to_owned(),
            why,
        })?;
        Ok(Self {
            agent,
            address,
            token,
        })
    }

    /// Reads a value of the service; `None` if the value does not exist.
    fn get(&self, name: &str) -> Result<Option<String>, MetadataError> {
        let url = format!("{}/latest/meta-data/{name}", self.address);
        match self
            .agent
            .get(&url)
            .header("X-aws-ec2-metadata-token", &self.token)
            .call()
        {
            Ok(answer) => text(answer).map_err(|why| MetadataError::Read { url, why }),
            Err(error) => Err(MetadataError::Ask {
                url,
                error: Box::new(error),
            }),
        }
    }
}

fn text(mut answer: Response<Body>) -> Result<Option<String>, NoText> {
    match answer.status().as_u16() {
        200 => {
            let read = answer
                .body_mut()
                .with_config()
                .limit(MAX_LENGTH)
                .read_to_string();
            read.map(|t| Some(t.trim().to_owned()))
                .map_err(|error| NoText::Unreadable(Box::new(error)))
        }
        404 => Ok(None),
        status => Err(NoText::Status(status)),
    }
}

/// Queries whether the cloud is about to reclaim this machine.
pub(super) fn notice(address: Option<&str>) -> Result<Option<MetadataNotice>, MetadataError> {
    let Some(message) = Service::open(address)?.get("spot/instance-action")? else {
        return Ok(None);
    };
    serde_json::from_str(&message)
        .map(Some)
        .map_err(|error| MetadataError::Notice { error, message })
}

/// Queries the facts of the instance on which this process runs.
pub(super) fn instance(address: Option<&str>) -> Result<InstanceFacts, MetadataError> {
    let service = Service::open(address)?;
    Ok(InstanceFacts {
        id: service.get("instance-id")?,
        kind: service.get("instance-type")?,
        zone: service.get("placement/availability-zone")?,
        market: service.get("instance-life-cycle")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::BTreeMap,
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        thread,
    };

    /// Starts a service that behaves like the real one: it returns tokens for PUT only, and refuses requests without a token. Returns its address. It
    /// serves a given number of requests.
    fn service(entries: &[(&str, &str)], requests: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/", listener.local_addr().expect("an address"));
        let entries: BTreeMap<String, String> = entries
            .iter()
            .map(|(k, v)| (format!("/latest/meta-data/{k}"), (*v).to_owned()))
            .collect();
        thread::spawn(move || {
            for stream in listener.incoming().take(requests) {
                let mut stream = stream.expect("a connection");
                let mut lines = BufReader::new(stream.try_clone().expect("a clone"))
                    .lines()
                    .map_while(Result::ok);
                let request = lines.next().unwrap_or_default();
                let headers: Vec<String> = lines
                    .take_while(|l| !l.is_empty())
                    .map(|l| l.to_ascii_lowercase())
                    .collect();
                let has = |header: &str| headers.iter().any(|h| h == header);
                let path = request.split(' ').nth(1).unwrap_or_default();
                let (status, body) = if path == "/latest/api/token" {
                    let good = request.starts_with("PUT ")
                        && has("x-aws-ec2-metadata-token-ttl-seconds: 60");
                    if good {
                        (200, "secret=".to_owned())
                    } else {
                        (400, String::new())
                    }
                } else if !has("x-aws-ec2-metadata-token: secret=") {
                    (401, String::new())
                } else {
                    entries
                        .get(path)
                        .map_or((404, "no such thing".to_owned()), |v| (200, v.clone()))
                };
                let answer = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    #[test]
    fn an_instance_says_who_it_is_and_whether_it_is_taken_back() {
        let quiet = [
            ("instance-id", "i-1"),
            ("instance-type", "c5.xlarge\n"),
            ("placement/availability-zone", "us-east-1a"),
        ];
        let address = service(&quiet, 7);
        let facts = instance(Some(&address)).expect("it answers");
        assert_eq!(
            (facts.id.as_deref(), facts.kind.as_deref(), facts.market),
            (Some("i-1"), Some("c5.xlarge"), None)
        );
        assert_eq!(notice(Some(&address)).expect("it answers"), None);
        let address = service(
            &[(
                "spot/instance-action",
                "{\"action\": \"terminate\", \"time\": \"2026-01-02T03:04:05Z\"}",
            )],
            2,
        );
        let announced = notice(Some(&address))
            .expect("it answers")
            .expect("a notice");
        assert_eq!(
            (announced.action.as_str(), announced.time.as_str()),
            ("terminate", "2026-01-02T03:04:05Z")
        );
    }

    #[test]
    fn a_wrong_metadata_service_is_reported() {
        let address = service(&[("spot/instance-action", "soon")], 2);
        assert!(
            notice(Some(&address))
                .expect_err("no JSON")
                .to_string()
                .contains("soon")
        );
        let silent = TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("an address");
        let message = instance(Some(&format!("http://{silent}")))
            .expect_err("not listening")
            .to_string();
        assert!(
            message.contains(&format!(
                "the metadata service at http://{silent} does not answer"
            )),
            "{message}"
        );
    }
}
