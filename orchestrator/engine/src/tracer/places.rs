//! Which files of a trace are the run's.

use camino::Utf8Path;

/// Where a run works: tells its files from others in a trace.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Its working directory.
    pub work: &'a Utf8Path,
    /// Its directory of results, where cvc keeps what it prints.
    pub dir: &'a Utf8Path,
    /// Its directory of temporary files, where MPI libraries have their own.
    pub tmp: &'a Utf8Path,
}

/// Where systems have programs, libraries, settings, devices and what they tell of themselves.
const SYSTEM: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr", "/var",
];

/// Programs of MPI libraries and tracers that are installed elsewhere have what they need in these directories.
const INSTALLED: [&str; 3] = ["/etc/", "/share/", "/lib/"];

/// What cvc itself puts into the working directory of a run for launchers, besides names that begin with `.cvc`.
const OWN: [&str; 3] = ["hosts", "romio_hints", "session"];

impl Places<'_> {
    /// Whether a file counts as one that the run itself reads or writes: its own output, input and checkpoints, wherever they are.
    ///
    /// These do not count:
    ///
    /// - what is no file: pipes, sockets, `anon_inode:…`, standard streams, and names that are not absolute paths;
    /// - what belongs to the system: everything below `/proc`, `/sys`, `/dev` (shared memory too), `/run`, `/etc`, `/usr`, `/var`, `/lib…`, `/bin`,
    ///   `/sbin`, `/boot`;
    /// - libraries (`NAME.so`, `NAME.so.1`), wherever they are, and what is installed elsewhere in a directory `etc`, `share` or `lib`;
    /// - what MPI libraries have in the run's directory of temporary files;
    /// - what the program prints, which launchers bring into the run's directory of results;
    /// - what cvc has in the working directory: `.cvc…`, the files of hosts and hints, the session files that it keeps for restarts.
    pub fn has(self, path: &[u8]) -> bool {
        let path = String::from_utf8_lossy(path);
        let below = |path: &str, directory: &str| {
            path.strip_prefix(directory)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !path.starts_with('/') || below(&path, self.tmp.as_str()) || is_library(&path) {
            return false;
        }
        // a working directory may be anywhere
        if let Some(own) = path
            .strip_prefix(self.work.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
        {
            let first = own.split('/').next().unwrap_or(own);
            return !first.starts_with(".cvc") && !OWN.contains(&first);
        }
        !below(&path, self.dir.as_str())
            && !SYSTEM.iter().any(|directory| below(&path, directory))
            && !INSTALLED.iter().any(|part| path.contains(part))
    }
}

fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.ends_with(".so")
        || name
            .rsplit_once(".so.")
            .is_some_and(|(_, version)| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(path: &str) -> bool {
        let places = Places {
            work: Utf8Path::new("/usr/scratch/runs/7"),
            dir: Utf8Path::new("/home/user/runs/7"),
            tmp: Utf8Path::new("/tmp/cvc-7"),
        };
        places.has(path.as_bytes())
    }

    #[test]
    fn output_input_and_checkpoints_count_wherever_they_are() {
        for path in [
            "/usr/scratch/runs/7/out.dat",
            "/usr/scratch/runs/7/lib/data.bin",
            "/usr/scratch/runs/7/hosts.dat",
            "/data/input.nc",
            "/tmp/shared.h5",
            "/home/user/socks.so.data",
        ] {
            assert!(counts(path), "{path}");
        }
    }

    #[test]
    fn what_belongs_to_the_system_the_libraries_or_cvc_does_not_count() {
        for path in [
            "pipe:[7]",
            "socket:[7]",
            "anon_inode:[eventpoll]",
            "<STDOUT>",
            "relative",
            "/proc/self/maps",
            "/sys/devices/system/cpu/online",
            "/dev/shm/segment",
            "/etc/hosts",
            "/usr/share/locale/x",
            "/usr/scratch/runs/8/out.dat",
            "/opt/app/libx.so",
            "/opt/app/libx.so.12.2",
            "/opt/openmpi/share/openmpi/help.txt",
            "/tmp/cvc-7/ompi.node/segment",
            "/home/user/runs/7/stdout",
            "/usr/scratch/runs/7/.cvc-rank.sh",
            "/usr/scratch/runs/7/hosts",
            "/usr/scratch/runs/7/session/0/segment",
            "/usr/scratch/runs/7/libapp.so",
        ] {
            assert!(!counts(path), "{path}");
        }
    }
}
