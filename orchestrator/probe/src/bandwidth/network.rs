//! Bandwidth between two nodes: one node listens for one connection, the other sends.

use super::MIB;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

/// Bytes of one write.
const BLOCK: usize = 1 << 20;
/// Time limit for each read or write of either side.
const PATIENCE: Duration = Duration::from_secs(30);
/// First bytes of a valid sender, so that other connections are not measured.
const GREETING: &[u8; 16] = b"cvc bandwidth 1\n";

/// Bandwidth from one node to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkBandwidth {
    /// Address of the receiving node.
    pub peer: String,
    /// MiB sent.
    pub sent_mib: f64,
    /// Bandwidth from the first byte until the receiver had confirmed all bytes, MiB/s.
    pub mib_s: f64,
}

/// Waits for one sender, and confirms the received bytes. `ready` is called with the address to which the sender can connect.
///
/// # Errors
/// Listening at the address fails, no valid sender connects, or the sender disconnects.
pub fn receive_bandwidth(
    at: SocketAddr,
    ready: &mut dyn FnMut(SocketAddr),
) -> io::Result<NetworkBandwidth> {
    let listener = TcpListener::bind(at)?;
    ready(listener.local_addr()?);
    let (mut stream, peer) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting)?;
    if &greeting != GREETING {
        return Err(io::Error::other(format!(
            "{peer} is no `cvc bandwidth --to`"
        )));
    }
    let begin = Instant::now();
    let mut block = vec![0u8; BLOCK];
    let mut bytes = 0u64;
    loop {
        let got = stream.read(&mut block)?;
        if got == 0 {
            break;
        }
        bytes += got as u64;
    }
    stream.write_all(&bytes.to_le_bytes())?;
    Ok(of(peer.to_string(), bytes, begin.elapsed()))
}

/// Sends data for this time to a node that runs [`receive_bandwidth`].
///
/// # Errors
/// The receiver does not answer, disconnects, or received less than was sent.
pub fn send_bandwidth(to: &str, time: Duration) -> io::Result<NetworkBandwidth> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut stream = None;
    for address in to.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(connected) => {
                stream = Some(connected);
                break;
            }
            Err(error) => last = error,
        }
    }
    let Some(mut stream) = stream else {
        return Err(last);
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(GREETING)?;
    let block = vec![0x5au8; BLOCK];
    let begin = Instant::now();
    let mut bytes = 0u64;
    while begin.elapsed() < time {
        stream.write_all(&block)?;
        bytes += BLOCK as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut confirmed = [0; 8];
    stream.read_exact(&mut confirmed)?;
    let elapsed = begin.elapsed();
    let received = u64::from_le_bytes(confirmed);
    if received != bytes {
        return Err(io::Error::other(format!(
            "{to} received {received} bytes of {bytes}"
        )));
    }
    Ok(of(to.to_owned(), bytes, elapsed))
}

fn of(peer: String, bytes: u64, elapsed: Duration) -> NetworkBandwidth {
    let sent_mib = bytes as f64 / MIB;
    NetworkBandwidth {
        peer,
        sent_mib,
        mib_s: sent_mib / elapsed.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    #[test]
    fn both_sides_count_the_same_and_strangers_are_refused() {
        let listen = || {
            let (to, addresses) = mpsc::channel();
            let receiver = thread::spawn(move || {
                let at = "127.0.0.1:0".parse().expect("an address");
                receive_bandwidth(at, &mut |at| to.send(at).expect("a channel"))
            });
            (receiver, addresses.recv().expect("an address"))
        };
        let (receiver, at) = listen();
        let sent = send_bandwidth(&at.to_string(), Duration::from_millis(50)).expect("sent");
        let received = receiver.join().expect("no panic").expect("received");
        assert_eq!(sent.sent_mib, received.sent_mib);
        assert!(sent.mib_s > 1.0 && sent.mib_s.is_finite(), "{sent:?}");

        let (receiver, at) = listen();
        let mut stranger = TcpStream::connect(at).expect("connected");
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
        let error = receiver.join().expect("no panic").expect_err("a stranger");
        assert!(error.to_string().contains("is no"), "{error}");
        assert!(send_bandwidth(&at.to_string(), Duration::from_millis(1)).is_err());
    }
}
