//! Finds the address from which the cloud sees its caller.

use crate::{Region, error::chain};
use aws_sdk_ec2::config::http::HttpRequest;
use aws_smithy_http_client::default_connector;
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorSettings};
use cvc_cloud::provider::{ErrorKind, ProviderError};
use std::{
    net::{IpAddr, ToSocketAddrs, UdpSocket},
    time::Duration,
};

/// Service of AWS that returns the caller's address.
const CHECK_IP_URL: &str = "https://checkip.amazonaws.com/";
const LIMIT: Duration = Duration::from_secs(15);

impl Region {
    /// Returns the caller's address as a network that contains only this address.
    pub(crate) async fn caller(&self) -> Result<String, ProviderError> {
        let found = match &self.session().endpoint {
            // another cloud than AWS may see another address of this machine, namely the one from which calls reach the cloud
            Some(endpoint) => {
                let endpoint = endpoint.clone();
                tokio::task::spawn_blocking(move || towards(&endpoint))
                    .await
                    .unwrap_or_else(|e| Err(e.into()))
            }
            None => asked().await,
        };
        found
            .map(|a| format!("{a}/{}", if a.is_ipv4() { 32 } else { 128 }))
            .map_err(|error| {
                let message = format!("{error}; set it, as in `allow_from = \"203.0.113.7/32\"`");
                ProviderError::before(
                    ErrorKind::Unreachable,
                    "looking for the address of this machine",
                    &self.name,
                    message,
                )
            })
    }
}

/// Why the caller's address is unknown.
#[derive(Debug, thiserror::Error)]
enum AddressError {
    #[error("internal error (please report): no HTTP client is built in")]
    NoClient,
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
    #[error("{CHECK_IP_URL} does not answer: {0}")]
    NoAnswer(String),
    #[error("{CHECK_IP_URL} does not answer with an address")]
    NotAnAddress,
    #[error("the endpoint {0:?} is not a valid address")]
    Endpoint(String),
    #[error("the endpoint {0:?} has no host")]
    NoHost(String),
    #[error("{host}: {error}")]
    Network { host: String, error: std::io::Error },
    #[error("{0} has no address")]
    NoAddress(String),
}

async fn asked() -> Result<IpAddr, AddressError> {
    let settings = HttpConnectorSettings::builder()
        .connect_timeout(LIMIT)
        .read_timeout(LIMIT)
        .build();
    let connector = default_connector(&settings, None).ok_or(AddressError::NoClient)?;
    let request =
        HttpRequest::get(CHECK_IP_URL).map_err(|e| AddressError::NoAnswer(e.to_string()))?;
    let answer = tokio::time::timeout(LIMIT, async {
        let answer = connector
            .call(request)
            .await
            .map_err(|e| AddressError::NoAnswer(chain(&e)))?;
        if !answer.status().is_success() {
            let status = format!("HTTP status {}", answer.status().as_u16());
            return Err(AddressError::NoAnswer(status));
        }
        aws_smithy_types::byte_stream::ByteStream::new(answer.into_body())
            .collect()
            .await
            .map_err(|e| AddressError::NoAnswer(chain(&e)))
    });
    let bytes = answer
        .await
        .unwrap_or_else(|_| Err(AddressError::NoAnswer("no answer in time".into())))?;
    let text = String::from_utf8_lossy(&bytes.into_bytes())
        .trim()
        .to_owned();
    text.parse().map_err(|_| AddressError::NotAnAddress)
}

/// Returns the local address from which the host would be reached. Sends no packet.
fn towards(endpoint: &str) -> Result<IpAddr, AddressError> {
    let uri: http::Uri = endpoint
        .parse()
        .map_err(|_| AddressError::Endpoint(endpoint.to_owned()))?;
    let host = uri
        .host()
        .ok_or_else(|| AddressError::NoHost(endpoint.to_owned()))?;
    let port = uri.port_u16().unwrap_or(443);
    let cannot = |error| AddressError::Network {
        host: host.to_owned(),
        error,
    };
    let there = (host.trim_matches(['[', ']']), port)
        .to_socket_addrs()
        .map_err(cannot)?
        .next()
        .ok_or_else(|| AddressError::NoAddress(host.to_owned()))?;
    let any: IpAddr = if there.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).map_err(cannot)?;
    socket.connect(there).map_err(cannot)?;
    Ok(socket.local_addr().map_err(cannot)?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_this_machine_is_this_machine() {
        assert_eq!(
            towards("http://127.0.0.1:5000").expect("a way"),
            IpAddr::from([127, 0, 0, 1])
        );
        assert!(towards("nothing at all").is_err());
        assert!(towards("/only/a/path").is_err());
    }
}
