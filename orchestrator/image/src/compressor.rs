//! Runs compression programs on given data. The output sizes are those of real files, and the processor times are those that the kernel recorded.

use nix::sys::resource::{UsageWho, getrusage};
use parking_lot::Mutex;
use serde::Serialize;
use std::{
    io::{self, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    thread::JoinHandle,
};

/// A way to compress an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// `gzip -1`: the program that DMTCP itself pipes images through
    Gzip,
    /// `zstd -3`: the default of zstd, on one thread
    Zstd,
    /// `lz4 -1`: the default of lz4
    Lz4,
}

impl Method {
    /// All methods, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Zstd, Self::Lz4];

    /// Returns the name of the program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    /// Returns program and level, as written in a shell.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Gzip => "gzip -1",
            Self::Zstd => "zstd -3",
            Self::Lz4 => "lz4 -1",
        }
    }

    /// Returns the command that compresses standard input to standard output. It ignores the user's settings for the program.
    fn start(self) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Self::Gzip => command.args(["-1", "-c"]).env_remove("GZIP"),
            Self::Zstd => command
                .args(["-3", "-T1", "-q", "-c"])
                .env_remove("ZSTD_CLEVEL")
                .env_remove("ZSTD_NBTHREADS"),
            Self::Lz4 => command.args(["-1", "-q", "-c"]),
        };
        command
    }
}

/// Result of compressing one input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Compressed {
    /// Length of the input, bytes.
    pub input_bytes: u64,
    /// Length of the output, bytes.
    pub bytes: u64,
    /// Processor time of the program, user and system, seconds.
    pub cpu_s: f64,
}

/// A running program that compresses its input. If this value is dropped before the program ends, the program is killed.
pub(super) struct Compressor {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<JoinHandle<io::Result<u64>>>,
    input_bytes: u64,
}

impl Compressor {
    pub(super) fn start(method: Method) -> io::Result<Self> {
        let mut child = method
            .start()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut compressor = Self {
            child,
            input,
            output: None,
            input_bytes: 0,
        };
        if let Some(mut output) = output {
            compressor.output =
                Some(std::thread::Builder::new().spawn(move || count(&mut output))?);
        }
        Ok(compressor)
    }

    pub(super) fn feed(&mut self, data: &[u8]) -> io::Result<()> {
        self.input_bytes += data.len() as u64;
        self.input
            .as_mut()
            .map_or(Ok(()), |input| input.write_all(data))
    }

    /// Closes the input and waits for the program to end.
    pub(super) fn finish(mut self) -> io::Result<Compressed> {
        // closes the pipe, so that the program reads the end of its input
        drop(self.input.take());
        let counted = self.output.take().map(JoinHandle::join);
        let bytes = match counted {
            Some(Ok(counted)) => counted?,
            Some(Err(_)) | None => return Err(io::Error::other("its output was not read")),
        };
        let (status, cpu_s) = reap(&mut self.child)?;
        if !status.success() {
            return Err(io::Error::other(format!("it ended with {status}")));
        }
        Ok(Compressed {
            input_bytes: self.input_bytes,
            bytes,
            cpu_s,
        })
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        drop(self.input.take());
        // both calls have no effect on a child that has already been waited for
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(output) = self.output.take() {
            let _ = output.join();
        }
    }
}

/// Reads to the end, and returns the number of bytes read.
fn count(output: &mut impl Read) -> io::Result<u64> {
    let (mut buffer, mut bytes) = (vec![0; 64 << 10], 0);
    loop {
        match output.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(n) => bytes += n as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for a child and returns its status and processor time, seconds. The kernel adds the time to that of all children at the wait, so only one
/// child is waited for at a time.
fn reap(child: &mut Child) -> io::Result<(std::process::ExitStatus, f64)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock();
    let used = || -> io::Result<f64> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
        Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
    };
    let before = used()?;
    let status = child.wait()?;
    Ok((status, (used()? - before).max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_program_and_its_time_is_counted() {
        // noise, which gzip cannot compress, and zeros, which compress to almost nothing
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .take(4 << 20)
        .collect();
        let of = |data: &[u8]| {
            let mut gzip = Compressor::start(Method::Gzip).expect("gzip");
            data.chunks(100_000)
                .for_each(|chunk| gzip.feed(chunk).expect("reads"));
            gzip.finish().expect("ends")
        };
        let (noise, zeros) = (of(&noise), of(&vec![0; 4 << 20]));
        assert_eq!((noise.input_bytes, zeros.input_bytes), (4 << 20, 4 << 20));
        assert!(
            noise.bytes >= 4 << 20 && zeros.bytes < 64 << 10,
            "{noise:?} {zeros:?}"
        );
        assert!(noise.cpu_s > 0.0, "{noise:?}");
    }

    #[test]
    fn a_program_that_is_given_up_is_gone() {
        let mut gzip = Compressor::start(Method::Gzip).expect("gzip");
        gzip.feed(&[1; 4096]).expect("reads");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(gzip.child.id()).expect("a pid"));
        drop(gzip);
        assert_eq!(
            nix::sys::signal::kill(pid, None),
            Err(nix::errno::Errno::ESRCH)
        );
    }
}
