//! Tests the attribution of memory in images with programs whose memory is known: compiled here, and checkpointed by DMTCP if it is installed.

use crate::real_dmtcp::{Session, bin_or_skip};
use cvc_image::{Image, MpiFlavour, OwnerZone, Part, Role, is_complete, read_dir};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const MIB: f64 = 1_048_576.0;

/// Compiles a program; without a compiler the test is reported as skipped.
fn compile(
    test: &str,
    compiler: &str,
    flags: &[&str],
    dir: &Path,
    file: &str,
    source: &str,
) -> Option<PathBuf> {
    let is_there = Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !is_there.is_ok_and(|status| status.success()) {
        cvc_testkit::tool::skipped(test, compiler);
        return None;
    }
    let (path, program) = (dir.join(file), dir.join("known"));
    fs::write(&path, source).unwrap();
    let status = Command::new(compiler)
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(&path)
        .args(flags)
        .status()
        .unwrap();
    assert!(status.success(), "{compiler} cannot compile {file}");
    Some(program)
}

/// Waits until the launched program is ready, checkpoints it, and reads the images of its ranks.
fn checkpoint(session: &Session, ranks: usize) -> Vec<Image> {
    session.wait("output of the program", |s| {
        fs::read_to_string(s.dir.path().join("stdout")).is_ok_and(|out| out.contains("computing"))
    });
    session.command("-kc");
    session.wait("complete images", |s| {
        let images = s.images();
        let temporary = fs::read_dir(s.dir.path())
            .unwrap()
            .any(|e| e.unwrap().file_name().to_string_lossy().ends_with(".temp"));
        !temporary
            && images.len() >= ranks
            && images
                .iter()
                .all(|image| is_complete(image).unwrap_or(false))
    });
    let dir = read_dir(session.dir.path()).unwrap();
    let images: Vec<Image> = dir
        .images
        .into_iter()
        .filter(|image| image.role == Role::Rank)
        .map(|image| image.image)
        .collect();
    assert_eq!(images.len(), ranks);
    images
}

/// Asserts that a size differs by at most 2 % from the memory that the program declares, allocates or shares, and touches.
fn assert_mib(image: &Image, what: &str, found_bytes: u64, expected_mib: f64) {
    let found = found_bytes as f64 / MIB;
    assert!(
        (found / expected_mib - 1.0).abs() <= 0.02,
        "{what}: {found} MiB, not {expected_mib}; {:?} of {:?}",
        image.zones.owner.stored,
        image.baseline
    );
}

/// Memory that a program of these tests has, MiB.
struct Known {
    r#static: f64,
    allocated: f64,
    shared: f64,
}

fn assert_known(image: &Image, known: &Known) {
    let stored = &image.zones.owner.stored;
    assert_mib(image, "static", stored.get(Part::Static), known.r#static);
    assert_mib(
        image,
        "allocated",
        stored.get(Part::Allocated),
        known.allocated,
    );
    assert_mib(image, "shared", stored.zone(OwnerZone::Shmem), known.shared);
    assert_mib(
        image,
        "data",
        stored.dtapp(),
        known.r#static + known.allocated,
    );
}

/// A program with static data, a large allocation, many small allocations, and memory shared by processes. With `MPI` it also calls MPI's start and a
/// barrier.
const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef MPI
#include <mpi.h>
#endif
static volatile double field[3 << 20];
int main(int argc, char **argv) {
    int rank = 0;
#ifdef MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
    for (size_t i = 0; i < 3 << 20; i++) field[i] = (double)i + 1;
    memset(malloc(48 << 20), 7, 48 << 20);
    for (size_t n = 0; n < 315; n++) memset(malloc(65536), (int)(n % 250) + 1, 65536);
    memset(mmap(0, 16 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 9, 16 << 20);
#ifdef MPI
    MPI_Barrier(MPI_COMM_WORLD);
#endif
    if (rank == 0) { puts("computing"); fflush(stdout); }
    for (;;) usleep(1000);
}
"#;
const OF_C: Known = Known {
    r#static: 24.0,
    allocated: 48.0 + 315.0 / 16.0,
    shared: 16.0,
};

/// Sequential programs with other allocators: C++ containers, arenas of threads, a private `/dev/zero`, a System V segment.
const CXX: &str = r#"
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <thread>
#include <unistd.h>
#include <vector>
static char table[8 << 20];
int main() {
    memset(table, 5, sizeof table);
    auto large = std::make_unique<std::vector<double>>(2 << 20, 1.5);
    std::vector<std::unique_ptr<char[]>> small;
    for (int n = 0; n < 2048; n++) { small.emplace_back(new char[8192]); memset(small.back().get(), n % 250 + 1, 8192); }
    std::thread([] {
        auto *of_thread = new std::vector<char *>;
        for (int n = 0; n < 1024; n++) { of_thread->push_back(new char[8192]); memset(of_thread->back(), n % 250 + 1, 8192); }
    }).join();
    int zero = open("/dev/zero", O_RDWR);
    memset(mmap(nullptr, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0), 3, 8 << 20);
    int segment = shmget(IPC_PRIVATE, 12 << 20, IPC_CREAT | 0600);
    void *attached = shmat(segment, nullptr, 0);
    shmctl(segment, IPC_RMID, nullptr);
    memset(attached, 4, 12 << 20);
    puts("computing");
    fflush(stdout);
    for (;;) usleep(1000);
}
"#;
const OF_CXX: Known = Known {
    r#static: 8.0,
    allocated: 16.0 + 16.0 + 8.0 + 8.0,
    shared: 12.0,
};

const FORTRAN: &str = r"
program known
  use iso_c_binding
  implicit none
  real(8), save :: fixed(1048576)
  real(8), allocatable :: large(:, :), rows(:)
  type box
    real(8), allocatable :: values(:)
  end type
  type(box) :: boxes(256)
  integer :: i
  interface
    integer(c_int) function usleep(us) bind(c)
      import c_int
      integer(c_int), value :: us
    end function
  end interface
  fixed = 1.5d0
  allocate(large(1024, 4096), rows(524288))
  large = 2.5d0
  rows = 3.5d0
  do i = 1, 256
    allocate(boxes(i)%values(8192))
    boxes(i)%values = dble(i)
  end do
  print '(a, f4.1)', 'computing ', fixed(1) + large(1, 1) + rows(1) + boxes(1)%values(1)
  flush(6)
  do
    i = usleep(1000)
  end do
end program
";

#[test]
fn what_a_c_program_declares_allocates_and_shares_is_told_within_two_percent() {
    let test = "what_a_c_program_declares_allocates_and_shares_is_told_within_two_percent";
    let Some(bin) = bin_or_skip(test) else { return };
    let mut session = Session::start(bin);
    let Some(program) = compile(test, "cc", &[], session.dir.path(), "known.c", C) else {
        return;
    };
    session.launch_peers("--no-gzip", &[&program], 1, &[]);
    assert_known(&checkpoint(&session, 1)[0], &OF_C);
}

#[test]
fn what_a_cxx_program_allocates_is_its_own_wherever_it_comes_from() {
    let test = "what_a_cxx_program_allocates_is_its_own_wherever_it_comes_from";
    let Some(bin) = bin_or_skip(test) else { return };
    let mut session = Session::start(bin);
    let Some(program) = compile(
        test,
        "c++",
        &["-pthread"],
        session.dir.path(),
        "known.cpp",
        CXX,
    ) else {
        return;
    };
    session.launch_peers("--gzip", &[&program], 1, &[]);
    assert_known(&checkpoint(&session, 1)[0], &OF_CXX);
}

#[test]
fn allocatable_arrays_of_fortran_are_the_programs() {
    let test = "allocatable_arrays_of_fortran_are_the_programs";
    let Some(bin) = bin_or_skip(test) else { return };
    let mut session = Session::start(bin);
    let Some(program) = compile(
        test,
        "gfortran",
        &[],
        session.dir.path(),
        "known.f90",
        FORTRAN,
    ) else {
        return;
    };
    session.launch_peers("--no-gzip", &[&program], 1, &[]);
    let image = &checkpoint(&session, 1)[0];
    let stored = &image.zones.owner.stored;
    assert_mib(image, "static", stored.get(Part::Static), 8.0);
    assert_mib(
        image,
        "allocated",
        stored.get(Part::Allocated),
        32.0 + 4.0 + 16.0,
    );
    assert_eq!(stored.zone(OwnerZone::Shmem), 0);
}

#[test]
fn what_jemalloc_hands_out_is_the_programs() {
    let test = "what_jemalloc_hands_out_is_the_programs";
    let Some(bin) = bin_or_skip(test) else { return };
    let libraries = Command::new("ldconfig")
        .arg("-p")
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    if !libraries.is_ok_and(|names| names.contains("libjemalloc.so.2")) {
        return cvc_testkit::tool::skipped(test, "libjemalloc.so.2");
    }
    let mut session = Session::start(bin);
    let flags = ["-Wl,--no-as-needed", "-l:libjemalloc.so.2"];
    let Some(program) = compile(test, "cc", &flags, session.dir.path(), "known.c", C) else {
        return;
    };
    session.launch_peers("--no-gzip", &[&program], 1, &[]);
    let image = &checkpoint(&session, 1)[0];
    let stored = &image.zones.owner.stored;
    assert_mib(image, "static", stored.get(Part::Static), OF_C.r#static);
    assert_mib(image, "shared", stored.zone(OwnerZone::Shmem), OF_C.shared);
    // jemalloc keeps its own tables among the memory that it allocates: 1.7 MiB of them
    let tables_mib = stored.get(Part::Allocated) as f64 / MIB - OF_C.allocated;
    assert!(
        (0.0..=2.5).contains(&tables_mib),
        "{tables_mib} MiB more than was allocated: {stored:?}"
    );
}

/// A program that requests huge pages from the kernel: it writes 32 MiB completely, and every second huge page of 8 MiB.
const HUGE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static const size_t HUGE_PAGE = 2 << 20;
int main(void) {
    char *whole = aligned_alloc(HUGE_PAGE, 32 << 20), *half = aligned_alloc(HUGE_PAGE, 8 << 20);
    madvise(whole, 32 << 20, MADV_HUGEPAGE);
    madvise(half, 8 << 20, MADV_HUGEPAGE);
    memset(whole, 7, 32 << 20);
    for (size_t at = 0; at < 8 << 20; at += 2 * HUGE_PAGE) memset(half + at, 5, HUGE_PAGE);
    puts("computing");
    fflush(stdout);
    for (;;) usleep(1000);
}
"#;

#[test]
fn huge_pages_are_told_as_far_as_they_are_touched() {
    let test = "huge_pages_are_told_as_far_as_they_are_touched";
    let Some(bin) = bin_or_skip(test) else { return };
    let mut session = Session::start(bin);
    let Some(program) = compile(test, "cc", &[], session.dir.path(), "huge.c", HUGE) else {
        return;
    };
    session.launch_peers("--no-gzip", &[&program], 1, &[]);
    let image = &checkpoint(&session, 1)[0];
    assert_mib(
        image,
        "allocated",
        image.zones.owner.stored.get(Part::Allocated),
        36.0,
    );
    assert_eq!(image.zones.owner.stored.zone(OwnerZone::Shmem), 0);
}

/// Checks the ranks of an MPI program. They also have the library's memory, which the baseline subtracts.
fn check_mpi(test: &str, compiler: &str, launcher: &[&str], peers: u32, library: MpiFlavour) {
    let Some(bin) = bin_or_skip(test) else { return };
    let mut session = Session::start(bin);
    let Some(program) = compile(test, compiler, &["-DMPI"], session.dir.path(), "known.c", C)
    else {
        return;
    };
    let is_there = Command::new(launcher[0])
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !is_there.is_ok_and(|status| status.success()) {
        return cvc_testkit::tool::skipped(test, launcher[0]);
    }
    let mut command: Vec<&Path> = launcher.iter().map(Path::new).collect();
    command.push(&program);
    // settings that cvc makes for known hazards
    let env = [
        ("HWLOC_COMPONENTS", "-linuxio"),
        ("UCX_MEM_MMAP_HOOK_MODE", "none"),
        ("UCX_MEM_EVENTS", "n"),
        ("UCX_TLS", "self,tcp"),
        ("UCX_NET_DEVICES", "lo"),
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ];
    session.launch_peers("--no-gzip", &command, peers, &env);
    for image in checkpoint(&session, 2) {
        assert_eq!(
            image
                .baseline
                .as_ref()
                .map(|baseline| (baseline.library, baseline.processes)),
            Some((library, Some(2)))
        );
        assert_known(&image, &OF_C);
    }
}

#[test]
fn with_mpich_the_librarys_memory_is_taken_off() {
    let launcher = ["mpiexec.mpich", "-n", "2"];
    check_mpi(
        "with_mpich_the_librarys_memory_is_taken_off",
        "mpicc.mpich",
        &launcher,
        4,
        MpiFlavour::MpichCh4Ucx,
    );
}

#[test]
fn with_open_mpi_the_librarys_memory_is_taken_off() {
    let launcher = [
        "mpirun.openmpi",
        "--mca",
        "pml",
        "ob1",
        "--mca",
        "osc",
        "^ucx",
        "--mca",
        "btl",
        "self,vader,tcp",
        "--oversubscribe",
        "-n",
        "2",
    ];
    check_mpi(
        "with_open_mpi_the_librarys_memory_is_taken_off",
        "mpicc.openmpi",
        &launcher,
        3,
        MpiFlavour::OpenMpi,
    );
}
