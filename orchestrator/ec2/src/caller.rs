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

/// AWS's own service that answers with the caller's address.
const ASKED: &str = "https://checkip.amazonaws.com/";
const LIMIT: Duration = Duration::from_secs(15);

impl Region {
    /// The caller's address as a network of one.
    pub(crate) async fn caller(&self) -> Result<String, ProviderError> {
        let found = match &self.session().endpoint {
            // a cloud other than AWS may see another address: the one from which calls to it leave
            Some(endpoint) => {
                let endpoint = endpoint.clone();
                tokio::task::spawn_blocking(move || towards(&endpoint))
                    .await
                    .unwrap_or_else(|e| Err(e.to_string()))
            }
            None => asked().await,
        };
        found
            .map(|a| format!("{a}/{}", if a.is_ipv4() { 32 } else { 128 }))
            .map_err(|message| {
                let message = format!("{message}; set it, as in `allow_from = \"203.0.113.7/32\"`");
                ProviderError::before(
                    ErrorKind::Unreachable,
                    "looking for the address of this machine",
                    &self.name,
                    message,
                )
            })
    }
}

async fn asked() -> Result<IpAddr, String> {
    let settings = HttpConnectorSettings::builder()
        .connect_timeout(LIMIT)
        .read_timeout(LIMIT)
        .build();
    let connector = default_connector(&settings, None)
        .ok_or("internal error (please report): no HTTP client is built in")?;
    let request = HttpRequest::get(ASKED).map_err(|e| e.to_string())?;
    let answer = tokio::time::timeout(LIMIT, async {
        let answer = connector.call(request).await.map_err(|e| chain(&e))?;
        if !answer.status().is_success() {
            return Err(format!("HTTP status {}", answer.status().as_u16()));
        }
        aws_smithy_types::byte_stream::ByteStream::new(answer.into_body())
            .collect()
            .await
            .map_err(|e| chain(&e))
    });
    let bytes = answer
        .await
        .unwrap_or_else(|_| Err("no answer in time".into()))
        .map_err(|e| format!("{ASKED} does not answer: {e}"))?;
    let text = String::from_utf8_lossy(&bytes.into_bytes())
        .trim()
        .to_owned();
    text.parse()
        .map_err(|_| format!("{ASKED} does not answer with an address"))
}

/// The local address from which a host is reached. Nothing is sent.
fn towards(endpoint: &str) -> Result<IpAddr, String> {
    let uri: http::Uri = endpoint
        .parse()
        .map_err(|_| format!("the endpoint {endpoint:?} is not a valid address"))?;
    let host = uri
        .host()
        .ok_or_else(|| format!("the endpoint {endpoint:?} has no host"))?;
    let port = uri.port_u16().unwrap_or(443);
    let cannot = |e: std::io::Error| format!("{host}: {e}");
    let there = (host.trim_matches(['[', ']']), port)
        .to_socket_addrs()
        .map_err(cannot)?
        .next()
        .ok_or_else(|| format!("{host} has no address"))?;
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
            towards("http://127.0.0.1:5000").map(|a| a.to_string()),
            Ok("127.0.0.1".into())
        );
        assert!(towards("nothing at all").is_err());
        assert!(towards("/only/a/path").is_err());
    }
}
