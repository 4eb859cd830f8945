//! A cable that delays, loses and limits packets, implemented by a thread between two TAP devices.

use parking_lot::Mutex;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::OpenOptionsExt,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout},
};

use super::{namespaces::Namespaces, sandbox::Sandbox};

/// The quality of a cable, in each direction; perfect by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// Delay of each packet.
    pub delay: Duration,
    /// Share of lost packets, from 0 to 1.
    pub loss: f64,
    /// Bandwidth, 10^6 bits per second; `None` for no limit.
    pub mbit_per_s: Option<f64>,
}

/// Maximum number of packets in flight, as in the queue of a switch; further packets are lost.
const QUEUE: usize = 4000;

#[derive(Debug)]
pub(super) struct Wire {
    line: Arc<Mutex<Line>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Replaces the cable between the switch and this port.
    pub(super) fn new(sandbox: &Sandbox, node: &str, port: &str, line: Line) -> Self {
        let line = Arc::new(Mutex::new(line));
        let ends = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn({
            let (line, ends, namespaces) = (
                Arc::clone(&line),
                Arc::clone(&ends),
                Arc::clone(&sandbox.namespaces),
            );
            let names = [format!("t-{node}"), format!("u-{node}")];
            move || {
                let devices = devices(&namespaces, &names);
                let _ = sender.send(devices.as_ref().map(|_| ()).map_err(ToString::to_string));
                if let Ok(devices) = devices {
                    pass(devices, &line, &ends);
                }
            }
        });
        receiver
            .recv()
            .expect("the wire's thread")
            .unwrap_or_else(|e| panic!("cannot make a wire for {node}: {e}"));
        sandbox.shell(&format!(
            "ip link add w-{node} type bridge\n\
             ip link set u-{node} master w-{node} up\n\
             ip link set t-{node} master lab0 up\n\
             ip link set w-{node} up\n\
             ip link set {port} master w-{node}"
        ));
        Self {
            line,
            ends,
            thread: Some(thread),
        }
    }

    pub(super) fn set(&self, line: Line) {
        *self.line.lock() = line;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes two TAP devices in the sandbox's network; they disappear when their files close.
fn devices(namespaces: &Namespaces, names: &[String; 2]) -> io::Result<[File; 2]> {
    namespaces.enter_network()?;
    Ok([tap(&names[0])?, tap(&names[1])?])
}

fn tap(name: &str) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    #[expect(unsafe_code, reason = "a device is made by an ioctl")]
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request
            .ifr_name
            .iter_mut()
            .zip(name.bytes().take(libc::IFNAMSIZ - 1))
        {
            *to = libc::c_char::try_from(from).unwrap_or(0);
        }
        request.ifr_ifru.ifru_flags =
            libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI).unwrap_or(0);
        if libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &request) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(file)
}

/// A packet in flight: its due time, sequence number, target device and bytes.
type Packet = Reverse<(Instant, u64, usize, Vec<u8>)>;

fn pass(mut devices: [File; 2], line: &Mutex<Line>, ends: &AtomicBool) {
    let mut queue: BinaryHeap<Packet> = BinaryHeap::new();
    let (mut order, mut dice) = (0u64, Dice(0x9E37_79B9_7F4A_7C15));
    let mut free = [Instant::now(); 2];
    let mut buffer = vec![0u8; 70_000];
    while !ends.load(Ordering::Relaxed) {
        let now = Instant::now();
        let wait = queue
            .peek()
            .map_or(Duration::from_millis(20), |Reverse((due, ..))| {
                due.saturating_duration_since(now)
                    .min(Duration::from_millis(20))
            });
        // rounded up, because a poll of 0 ms would spin until a packet is due
        let wait = u16::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(20);
        let mut polled = devices
            .each_ref()
            .map(|d| PollFd::new(d.as_fd(), PollFlags::POLLIN));
        let _ = nix::poll::poll(&mut polled, PollTimeout::from(wait));
        let is = *line.lock();
        for from in 0..2 {
            for _ in 0..64 {
                let Ok(length) = devices[from].read(&mut buffer) else {
                    break;
                };
                let now = Instant::now();
                if dice.next() < is.loss || queue.len() >= QUEUE {
                    continue;
                }
                let mut sent = now;
                if let Some(rate) = is.mbit_per_s.filter(|r| *r > 0.0) {
                    sent = free[from].max(now)
                        + Duration::from_secs_f64(length as f64 * 8.0 / (rate * 1e6));
                    free[from] = sent;
                }
                queue.push(Reverse((
                    sent + is.delay,
                    order,
                    1 - from,
                    buffer[..length].to_vec(),
                )));
                order += 1;
            }
        }
        let now = Instant::now();
        while let Some(Reverse((_, _, to, packet))) = due(&mut queue, now) {
            // a port that is down accepts nothing: the packet is lost, as on a cable
            let _ = devices[to].write(&packet);
        }
    }
}

/// Pseudo-random numbers from 0 to 1, the same in every run (xorshift64*).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Removes and returns the next packet if it is due.
fn due(queue: &mut BinaryHeap<Packet>, now: Instant) -> Option<Packet> {
    if queue.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
        queue.pop()
    } else {
        None
    }
}
