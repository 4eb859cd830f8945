#!/usr/bin/env bash
# Installs, uses and removes the packages in the current directory on a minimal system: Debian package, wheel, tarball. Fails if anything is left.
#
#   fresh.sh [--user] [--suite NAME] --files DIR bash ./try-packages.sh [demo]
#
#   demo  run the whole main job by the Debian package, instead of one point
set -euo pipefail
here=$PWD
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >>"$here/apt.log" 2>&1 || { tail -40 "$here/apt.log" >&2 && exit 1; }; }
say() { echo "== $* (${SECONDS} s)"; }
# installed files whose names say that they are cvc's; not those of runs, such as the user's cache and state
left() {
    { find /usr /etc /opt /var/lib /var/spool /run -xdev -iname '*cvc*' 2>/dev/null
      find "$HOME"/.local/{bin,lib,share} "$HOME/venv" -iname '*cvc*' 2>/dev/null; } || :
}
refuse_left() {
    local files
    files=$(left)
    [ -z "$files" ] || { printf 'error: %s leaves files:\n%s\n' "$1" "$files" >&2 && exit 1; }
}
# One run of a real MPI program by the `cvc` on PATH, in a directory of its own.
use() {
    [ "$(command -v cvc)" = "$2" ] || { echo "error: cvc is $(command -v cvc), not $2" >&2 && exit 1; }
    cvc --version
    cvc-node --version
    mkdir "$here/$1"
    cd "$here/$1"
    cat >one.toml <<'END'
schema = 1
name = "one"
[sites.local]
kind = "local"
[matrix]
app = "kernel-stencil"
class = "S"
mapping = "1Nx2P"
mpi = "mpich"
checkpointer = "application"
[run]
repeats = 1
END
    cvc run one.toml >run.log 2>&1 || { cat run.log >&2 && exit 1; }
    grep -q '<svg' reports/one/report.html
    cvc status one.toml | grep -q succeeded || cvc status one.toml --json | grep -q '"succeeded"'
    cd "$here"
    say "$1: one run and its report"
}

refuse_left "this machine, before anything is installed,"
apt_get update
say "Debian package"
apt_get install ./cvc_*.deb
if [ "${1:-}" = demo ]; then
    cvc demo
    say "cvc demo"
    grep -q '<svg' cvc-demo/reports/quickstart/report.html
fi
use deb /usr/bin/cvc
for file in man/man1/cvc-run.1.gz bash-completion/completions/cvc doc/cvc/copyright; do test -s "/usr/share/$file"; done
apt_get purge cvc
refuse_left "the Debian package"

say "wheel, in a virtual environment"
apt_get install --no-install-recommends python3-venv python3-pip
python3 -m venv "$HOME/venv"
"$HOME/venv/bin/pip" install -q --no-index "$here"/cvc-*.whl
PATH="$HOME/venv/bin:$PATH" use venv "$HOME/venv/bin/cvc"
"$HOME/venv/bin/python" -c 'import cvc; print("version of the module:", cvc.__version__)'
"$HOME/venv/bin/pip" uninstall -q -y cvc
refuse_left "the wheel in a virtual environment"

say "wheel, for one user"
outside=()
! python3 -m pip install --help | grep -q break-system-packages || outside=(--break-system-packages)
python3 -m pip install -q --no-index --user "${outside[@]}" "$here"/cvc-*.whl
PATH="$HOME/.local/bin:$PATH" use user "$HOME/.local/bin/cvc"
python3 -m pip uninstall -q -y "${outside[@]}" cvc
refuse_left "the wheel of a user"

say "tarball"
sha256sum --check --quiet ./*.tar.gz.sha256
tar -xzf cvc-*-linux.tar.gz
unpacked=$(echo "$here"/cvc-*-linux)
(cd "$unpacked" && sha256sum --check --quiet SHA256SUMS)
PATH="$unpacked/bin:$PATH" use tarball "$unpacked/bin/cvc"
rm -r "$unpacked"
refuse_left "the tarball"
echo "all packages were installed, used and removed"
