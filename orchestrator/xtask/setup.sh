# shellcheck shell=bash
# Sourced by ./quickstart, ./two-clusters and ./test: makes this machine ready, installing what is missing of packages.txt. Debian and Ubuntu
# by apt; elsewhere it says what to install. `setup_machine lab` also installs what nodes on this machine need, `setup_machine tests` what all
# tests need: servers of the distribution, none of which is started here, now or at the next boot. `bring_for_tests` brings from PyPI, into
# private directories, MPICH, Ansible, moto and DFTracer.

# Whether one of the things that a package is needed for is here. Administrators' programs may not be on PATH of others.
is_here() {
    case "$1" in
    python:*) python3 -c "import ${1#python:}" >/dev/null 2>&1 ;;
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
    esac
}

# What is missing: the Debian packages in the array `packages`, their services in `units`. With `compile` only what cargo needs, with `lab` also
# for nodes on this machine, with `tests` for these and the tests.
missing_packages() {
    packages=() units=()
    local when package what unit alternatives alternative found missing
    while read -r when package what; do
        what=${what%%#*}
        case "${1:-build}:$when" in
        *:compile) ;;
        compile:*) continue ;;
        *:build | lab:lab | tests:lab | tests:tests) ;;
        *) continue ;;
        esac
        unit='' missing=''
        for alternatives in $what; do
            case "$alternatives" in
            unit=*) unit=${alternatives#unit=} && continue ;;
            esac
            found=''
            for alternative in ${alternatives//|/ }; do
                ! is_here "$alternative" || found=yes
            done
            [ -n "$found" ] || missing=yes
        done
        [ -z "$missing" ] || packages+=("$package")
        [ -z "$missing" ] || [ -z "$unit" ] || units+=("$unit")
    done <"${BASH_SOURCE[0]%/*}/packages.txt"
}

# Installs packages without a daemon of theirs being started, here and now or when the machine boots next. In a shell of its own, so that
# the machine's policy comes back whatever ends it.
install_packages() (
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120)
    policy=/usr/sbin/policy-rc.d
    kept="$policy.cvc-kept"
    # one that is kept already is the machine's own: an earlier set-up was killed
    if [ -e "$policy" ] && [ ! -e "$kept" ]; then
        as_root cp -p "$policy" "$kept" || exit 1
    fi
    # shellcheck disable=SC2317 # the trap calls it
    restore() {
        if [ -e "$kept" ]; then
            as_root mv "$kept" "$policy"
        else
            as_root rm -f "$policy"
        fi
    }
    trap restore EXIT
    trap 'exit 1' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod 755 "$policy" || exit 1
    as_root "${apt[@]}" update && as_root "${apt[@]}" install -y --no-install-recommends "${packages[@]}" || exit 1
    command -v systemctl >/dev/null 2>&1 || exit 0
    for unit in ${units[@]+"${units[@]}"}; do
        as_root systemctl disable "$unit" >/dev/null 2>&1 || true
    done
)

# MPICH of the distributions (ch4:ucx) hangs at the end of programs on several nodes; the one of PyPI does not. It is unpacked, not
# installed: it works from where it lies.
bring_mpich() {
    local cache="${CVC_LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/cvc-lab}" work
    [ -n "${CVC_MPICH5:-}" ] || [ -x "$cache/mpich5/bin/mpiexec" ] && return 0
    echo "== bringing MPICH 5 from PyPI into $cache/mpich5" >&2
    mkdir -p "$cache" && work="$(mktemp -d "$cache/mpich5-XXXXXX")" || return 0
    if python3 -m pip download -q --no-deps --only-binary :all: -d "$work" 'mpich==5.0.*' &&
        python3 -m zipfile -e "$work"/mpich-*.whl "$work/wheel" && chmod 755 "$work"/wheel/mpich-*.data/data/bin/*; then
        # by a rename, so that what is there is whole
        mv -T "$work"/wheel/mpich-*.data/data "$cache/mpich5" 2>/dev/null || [ -x "$cache/mpich5/bin/mpiexec" ]
    else
        echo "  going on without: what needs it is skipped, and says so" >&2
    fi
    rm -rf "$work"
}

# ansible-core and ansible-lint, into a private environment: the one that cvc itself would make where there is no ansible-playbook.
bring_ansible() {
    local minor version environment lint=()
    minor="$(python3 -c 'import sys; print(sys.version_info.minor)' 2>/dev/null)" || return 0
    if [ "$minor" -ge 11 ]; then
        version=2.19.14 lint=(ansible-lint==26.10.1)
    elif [ "$minor" -ge 10 ]; then
        version=2.17.14
    elif [ "$minor" -ge 9 ]; then
        version=2.15.13
    else
        return 0
    fi
    environment="${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/cvc/ansible-$version"
    if [ -x "$environment/bin/ansible-playbook" ] && { [ ${#lint[@]} -eq 0 ] || [ -x "$environment/bin/ansible-lint" ]; }; then
        return 0
    fi
    echo "== bringing ansible-core $version from PyPI into $environment" >&2
    local pip=("$environment/bin/python" -m pip install -q --disable-pip-version-check)
    if ! python3 -m venv "$environment" ||
        ! "${pip[@]}" --require-hashes -r "orchestrator/sites/src/install/requirements/ansible-core-$version.txt" ||
        ! { [ ${#lint[@]} -eq 0 ] || "${pip[@]}" "${lint[@]}"; }; then
        echo "  going on without: what needs it is skipped, and says so" >&2
        [ -x "$environment/bin/ansible-playbook" ] || rm -rf "$environment"
    fi
}

# moto with its server, which stands for EC2 in tests, into a private environment.
bring_moto() {
    local version=5.2.5 environment
    environment="${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/cvc/moto-$version"
    [ -x "$environment/bin/moto_server" ] && return 0
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || return 0
    echo "== bringing moto $version from PyPI into $environment" >&2
    if ! python3 -m venv "$environment" ||
        ! "$environment/bin/python" -m pip install -q --disable-pip-version-check "moto[ec2,ssm,server]==$version"; then
        echo "  going on without: what needs it is skipped, and says so" >&2
        rm -rf "$environment"
    fi
}

# DFTracer's library for preloading, and the libraries that it needs. The wheel is unpacked, not installed: it works from where it lies.
bring_dftracer() {
    local version=2.2.0 cache place work
    cache="${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/cvc" place="$cache/dftracer-$version"
    [ -n "${CVC_DFTRACER_LIB:-}" ] || [ -d "$place/dftracer" ] && return 0
    echo "== bringing DFTracer $version from PyPI into $place" >&2
    # whose name no search for DFTracer takes for it
    mkdir -p "$cache" && work="$(mktemp -d "$cache/new-dftracer-XXXXXX")" || return 0
    if python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$work" "dftracer==$version" &&
        python3 -m zipfile -e "$work"/dftracer-*.whl "$work/wheel"; then
        # by a rename, so that what is there is whole
        mv -T "$work/wheel" "$place" 2>/dev/null || [ -d "$place/dftracer" ]
    else
        echo "  going on without: what needs it is skipped, and says so" >&2
    fi
    rm -rf "$work"
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

# Ends the script without a cargo that is new enough.
require_cargo() {
    local oldest version
    oldest="$(sed -n 's/^rust-version = "1\.\([0-9]*\).*/\1/p' "${BASH_SOURCE[0]%/*}/../../Cargo.toml")"
    # where rustup puts cargo, also in a shell that has not been started anew since
    PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
    if ! command -v cargo >/dev/null 2>&1; then
        echo "error: cargo is not installed: get Rust 1.$oldest or newer from https://rustup.rs" >&2
        exit 1
    fi
    version="$(cargo --version)"
    if [[ "$version" =~ ^cargo\ 1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -lt "$oldest" ]; then
        echo "error: $version is too old: get Rust 1.$oldest or newer from https://rustup.rs" >&2
        exit 1
    fi
}

# Installs what is missing, of what `missing_packages` finds with the same argument.
install_missing() {
    missing_packages "${1:-}"
    [ ${#packages[@]} -gt 0 ] || return 0
    echo "== missing on this machine: ${packages[*]}" >&2
    if ! command -v apt-get >/dev/null 2>&1; then
        by_hand "without apt-get they cannot be installed"
    elif ! as_root true; then
        by_hand "they can only be installed by root or with sudo"
    elif ! install_packages; then
        by_hand "apt-get failed: its message is above"
    fi
}

setup_machine() {
    require_cargo
    install_missing "${1:-}"
}

# The same for ./quickstart, while a command runs that only compiles.
setup_machine_during() {
    local log installing status=0
    require_cargo
    install_missing compile
    missing_packages
    # here sudo can ask for a password
    [ ${#packages[@]} -eq 0 ] || as_root true || true
    log="$(mktemp)"
    install_missing >"$log" 2>&1 </dev/null &
    installing=$!
    "$@" || status=$?
    wait "$installing" || true
    ! grep -q 'going on without' "$log" || cat "$log" >&2
    rm -f "$log"
    return "$status"
}

# What tests need from PyPI, which takes neither root nor a compiler: it can be brought while something else is done.
bring_for_tests() {
    bring_mpich
    bring_ansible
    bring_moto
    bring_dftracer
}
