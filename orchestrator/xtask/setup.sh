# shellcheck shell=bash
# Sourced by ./quickstart and ./test: makes this machine ready, installing only what is missing. Debian and Ubuntu by apt; elsewhere it
# says what to install.

# What is missing, as Debian packages, in the array `packages`.
missing_packages() {
    packages=()
    have() { command -v "$1" >/dev/null 2>&1; }
    have cc || packages+=(gcc)
    [ -e /usr/include/stdio.h ] || packages+=(libc6-dev)
    have make || packages+=(make)
    have mpiexec.mpich || have mpiexec.hydra || packages+=(mpich)
    have mpicc.mpich || packages+=(libmpich-dev)
    have mpirun.openmpi || packages+=(openmpi-bin)
    have mpicc.openmpi || packages+=(libopenmpi-dev)
    have h5pcc.mpich || packages+=(libhdf5-mpich-dev)
    have h5pcc.openmpi || packages+=(libhdf5-openmpi-dev)
    have strace || packages+=(strace)
}

# Runs a command as root, or fails.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif ! command -v sudo >/dev/null 2>&1; then
        return 1
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# What to do by hand; ends the script if nothing at all can be built.
by_hand() {
    echo "  $1" >&2
    echo "  Debian, Ubuntu, as root:  apt-get install ${packages[*]}" >&2
    echo "  RHEL, Rocky, Alma, as root:  dnf install gcc make strace mpich-devel openmpi-devel hdf5-mpich-devel hdf5-openmpi-devel" >&2
    echo "  (there, before you type the command again: module load mpi/mpich-x86_64, or mpi/openmpi-x86_64)" >&2
    if ! command -v cc >/dev/null 2>&1; then
        echo "error: without a C compiler nothing can be built" >&2
        exit 1
    fi
    echo "  going on without: what needs them is skipped, and says so" >&2
}

setup_machine() {
    # where rustup puts cargo, also in a shell that has not been started anew since
    PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
    if ! command -v cargo >/dev/null 2>&1; then
        echo "error: cargo is not installed: get Rust 1.90 or newer from https://rustup.rs" >&2
        exit 1
    fi
    local version
    version="$(cargo --version)"
    if [[ "$version" =~ ^cargo\ 1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -lt 90 ]; then
        echo "error: $version is too old: get Rust 1.90 or newer from https://rustup.rs" >&2
        exit 1
    fi
    missing_packages
    [ ${#packages[@]} -eq 0 ] && return
    echo "== missing on this machine: ${packages[*]}" >&2
    if ! command -v apt-get >/dev/null 2>&1; then
        by_hand "there is no apt-get to install them with"
        return
    fi
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120)
    if ! as_root true; then
        by_hand "they can only be installed by root or with sudo"
    elif ! as_root "${apt[@]}" update || ! as_root "${apt[@]}" install -y --no-install-recommends "${packages[@]}"; then
        by_hand "apt-get failed: its message is above"
    fi
}
