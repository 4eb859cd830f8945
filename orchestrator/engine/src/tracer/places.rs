//! Determines which files in a trace belong to the run.

use camino::Utf8Path;

/// The directories of a run, by which its files are distinguished from other files in a trace.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Working directory.
    pub work: &'a Utf8Path,
    /// Directory of results, where cvc stores the run's output.
    pub dir: &'a Utf8Path,
    /// Directory of temporary files, including files of MPI libraries.
    pub tmp: &'a Utf8Path,
}

/// System directories with programs, libraries, settings, devices and kernel information.
const SYSTEM: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr", "/var",
];

/// Parts of paths at which MPI libraries and tracers in other directories install their files.
const INSTALLED: [&str; 3] = ["/etc/", "/share/", "/lib/"];

/// Files that cvc creates in a run's working directory for launchers, in addition to names that begin with `.cvc`.
const OWN: [&str; 3] = ["hosts", "romio_hints", "session"];

impl Places<'_> {
    /// Returns whether a file is read or written by the run itself: its own output, input and checkpoints, in any directory.
    ///
    /// The following are excluded:
    ///
    /// - objects that are not files: pipes, sockets, `anon_inode:…`, standard streams, and names that are not absolute paths;
    /// - files of the system: everything below `/proc`, `/sys`, `/dev` (including shared memory), `/run`, `/etc`, `/usr`, `/var`, `/lib…`, `/bin`,
    ///   `/sbin`, `/boot`;
    /// - libraries (`NAME.so`, `NAME.so.1`) in any directory, and files installed elsewhere in a directory `etc`, `share` or `lib`;
    /// - files of MPI libraries in the run's directory of temporary files;
    /// - the program's output, which launchers write into the run's directory of results;
    /// - files of cvc in the working directory: `.cvc…`, host and hint files, session files kept for restarts.
    pub fn has(self, path: &[u8]) -> bool {
        let path = String::from_utf8_lossy(path);
        let below = |path: &str, directory: &str| {
            path.strip_prefix(directory)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !path.starts_with('/') || below(&path, self.tmp.as_str()) || is_library(&path) {
            return false;
        }
        // the working directory may be in any directory, even an excluded one
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
    fn files_of_the_system_the_libraries_or_cvc_do_not_count() {
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
