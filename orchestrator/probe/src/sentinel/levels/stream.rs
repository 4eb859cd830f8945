//! Streams between nodes: a TCP connection for each, which the receiver recognises by a token. The data are followed by their BLAKE3 digest.

use super::error::LevelError;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(60);
/// Time limit for a new connection to send its token.
const SHOW: Duration = Duration::from_secs(10);
/// Time without data after which a stream counts as broken.
const STALL: Duration = Duration::from_secs(60);
/// Interval between checks for a new connection.
const TICK: Duration = Duration::from_millis(2);
/// Maximum number of connections whose token is read at the same time.
const MAX_CALLERS: usize = 64;
const TOKEN_BYTES: usize = 32;
const DIGEST_BYTES: usize = 32;

/// The secret token by which a receiver recognises the sender.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamToken(String);

impl StreamToken {
    /// Creates a token of random bytes.
    #[must_use]
    pub fn new(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(blake3::Hash::from_bytes(bytes).to_hex().to_string())
    }

    fn hash(&self) -> io::Result<blake3::Hash> {
        blake3::Hash::from_hex(&self.0).map_err(|_| io::Error::other("not a token"))
    }
}

/// The token is a secret: it is not shown.
impl fmt::Debug for StreamToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamToken")
    }
}

/// Where a sender connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamTarget {
    /// Address and port of the receiver.
    pub address: SocketAddr,
    /// The token that the receiver expects.
    pub token: StreamToken,
}

/// Returns the address of a host as this node resolves it. It calls `getent`, because a static program cannot query the node's name services.
pub(super) fn resolve(host: &str) -> Result<IpAddr, LevelError> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let unknown = |error| LevelError::Network {
        what: "cannot find the address of",
        peer: host.to_owned(),
        error,
    };
    let found = Command::new("getent")
        .args(["ahosts", "--", host])
        .stdin(Stdio::null())
        .output()
        .map_err(unknown)?;
    let text = String::from_utf8_lossy(&found.stdout);
    let mut words = text.split_whitespace();
    let first = words.next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| LevelError::NoAddress(host.to_owned()))
}

/// A port that waits for one stream.
#[derive(Debug)]
pub(super) struct StreamPort {
    listener: TcpListener,
    token: StreamToken,
}

impl StreamPort {
    /// Opens a port at this address.
    pub fn open(address: IpAddr, token: StreamToken) -> Result<(Self, SocketAddr), LevelError> {
        let failed = |error| LevelError::Network {
            what: "cannot listen at",
            peer: address.to_string(),
            error,
        };
        let listener = TcpListener::bind((address, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let at = listener.local_addr().map_err(failed)?;
        Ok((Self { listener, token }, at))
    }

    /// Waits for the connection that sends the token; other connections are closed.
    pub fn accept(self, limit: Duration) -> Result<StreamReader, LevelError> {
        let until = Instant::now() + limit.min(CONNECT);
        let at = self.listener.local_addr();
        let at = at.map_or_else(|e| e.to_string(), |at| at.to_string());
        let failed = |error| LevelError::Network {
            what: "no stream arrived at",
            peer: at.clone(),
            error,
        };
        let expected = self.token.hash().map_err(failed)?;
        let (let_in, heard) = mpsc::channel();
        let mut callers = 0;
        loop {
            match self.listener.accept() {
                Ok((caller, from)) if callers < MAX_CALLERS => {
                    callers += 1;
                    let let_in = let_in.clone();
                    // on a separate thread, so that a silent connection does not delay others
                    std::thread::Builder::new()
                        .name("caller".into())
                        .spawn(move || {
                            if let Ok(caller) = hear(caller, expected) {
                                let _ = let_in.send((caller, from));
                            }
                        })
                        .map_err(failed)?;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
            if let Ok((caller, from)) = heard.recv_timeout(TICK) {
                return Ok(StreamReader {
                    stream: caller,
                    from: from.ip().to_string(),
                    hash: blake3::Hasher::new(),
                });
            }
            if Instant::now() > until {
                let late = io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
                return Err(failed(late));
            }
        }
    }
}

/// Reads the token of a connection, and compares it in constant time.
fn hear(mut caller: TcpStream, expected: blake3::Hash) -> io::Result<TcpStream> {
    caller.set_nonblocking(false)?;
    caller.set_read_timeout(Some(SHOW))?;
    let mut shown = [0; TOKEN_BYTES];
    caller.read_exact(&mut shown)?;
    // the blake3 crate compares hashes in constant time
    if blake3::Hash::from_bytes(shown) != expected {
        return Err(io::Error::other("wrong token"));
    }
    caller.set_read_timeout(Some(STALL))?;
    Ok(caller)
}

/// The receiving end of a stream.
#[derive(Debug)]
pub(super) struct StreamReader {
    stream: TcpStream,
    from: String,
    hash: blake3::Hasher,
}

impl StreamReader {
    /// Reads bytes until the buffer is full.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<(), LevelError> {
        self.read_exact(buffer)?;
        self.hash.update(buffer);
        Ok(())
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), LevelError> {
        self.stream
            .read_exact(buffer)
            .map_err(|error| LevelError::Network {
                what: "cannot receive from",
                peer: self.from.clone(),
                error,
            })
    }

    /// Reads the digest after the data, and compares it with the digest of the received bytes.
    pub fn finish(mut self) -> Result<(), LevelError> {
        let mut digest = [0; DIGEST_BYTES];
        self.read_exact(&mut digest)?;
        if self.hash.finalize() != blake3::Hash::from_bytes(digest) {
            return Err(LevelError::Garbled(self.from));
        }
        Ok(())
    }
}

/// The sending end of a stream.
#[derive(Debug)]
pub(super) struct StreamWriter {
    stream: TcpStream,
    to: SocketAddr,
    hash: blake3::Hasher,
}

impl StreamWriter {
    /// Connects to the receiver, and sends the token.
    pub fn open(target: &StreamTarget) -> Result<Self, LevelError> {
        let to = target.address;
        let open = || {
            let mut stream = TcpStream::connect_timeout(&to, CONNECT)?;
            stream.set_write_timeout(Some(STALL))?;
            stream.write_all(target.token.hash()?.as_bytes())?;
            Ok(stream)
        };
        let stream = open().map_err(|error| LevelError::Network {
            what: "cannot connect to",
            peer: to.to_string(),
            error,
        })?;
        Ok(Self {
            stream,
            to,
            hash: blake3::Hasher::new(),
        })
    }

    pub fn write(&mut self, data: &[u8]) -> Result<(), LevelError> {
        self.hash.update(data);
        self.write_all(data)
    }

    fn write_all(&mut self, data: &[u8]) -> Result<(), LevelError> {
        self.stream
            .write_all(data)
            .map_err(|error| LevelError::Network {
                what: "cannot send to",
                peer: self.to.to_string(),
                error,
            })
    }

    /// Sends the digest of the written data.
    pub fn finish(mut self) -> Result<(), LevelError> {
        let digest = *self.hash.finalize().as_bytes();
        self.write_all(&digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn port() -> (StreamPort, StreamTarget) {
        let token = StreamToken::new([7; TOKEN_BYTES]);
        let (port, address) = StreamPort::open(HERE, token.clone()).expect("a port");
        (port, StreamTarget { address, token })
    }

    #[test]
    fn a_stream_is_let_in_by_its_token_alone_and_verified() {
        let (port, target) = port();
        let wrong = StreamTarget {
            token: StreamToken::new([8; TOKEN_BYTES]),
            ..target.clone()
        };
        // the first connection sends nothing, the second one another token
        let _silent = TcpStream::connect(target.address).expect("connects");
        let _ = StreamWriter::open(&wrong).expect("connects").write(b"bad!");
        let sender = std::thread::spawn(move || {
            let mut to = StreamWriter::open(&target).expect("connects");
            to.write(b"good").and_then(|()| to.finish())
        });
        let mut from = port.accept(SHOW).expect("a stream");
        let mut data = [0; 4];
        from.read(&mut data).expect("four bytes");
        assert_eq!(&data, b"good");
        from.finish().expect("the same digest");
        sender.join().expect("ends").expect("sent");
    }

    #[test]
    fn a_host_has_the_address_that_the_node_knows() {
        assert!(resolve("localhost").expect("known").is_loopback());
        let address = "192.0.2.7";
        assert_eq!(resolve(address).expect("one").to_string(), address);
        let unknown = resolve("no-such-host.invalid").expect_err("unknown");
        assert!(
            unknown.to_string().contains("no-such-host.invalid"),
            "{unknown}"
        );
    }

    #[test]
    fn a_wrong_digest_and_a_missing_end_are_seen() {
        for end in [&[0; DIGEST_BYTES][..], b""] {
            let (port, target) = port();
            let mut to = StreamWriter::open(&target).expect("connects");
            to.write(b"data")
                .and_then(|()| to.write_all(end))
                .expect("sends");
            drop(to);
            let mut from = port.accept(SHOW).expect("a stream");
            from.read(&mut [0; 4]).expect("four bytes");
            let found = from.finish().expect_err("not the digest").to_string();
            let expected = if end.is_empty() {
                "cannot receive from"
            } else {
                "arrived damaged"
            };
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn a_port_is_not_open_for_ever_and_a_token_is_not_shown() {
        let (port, target) = port();
        let found = port.accept(TICK).expect_err("no connection").to_string();
        assert!(found.contains("no connection in time"), "{found}");
        assert!(!format!("{target:?}").contains("0707"));
    }
}
