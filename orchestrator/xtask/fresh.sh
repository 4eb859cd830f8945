#!/usr/bin/env bash
# Runs a command in a clone of the checked-out commit on a disposable machine: a minimal system of the distribution with Rust and git, in
# mount, pid, uts and ipc namespaces of its own, with this machine's network. What fails there fails for every newcomer.
#
#   orchestrator/xtask/fresh.sh [--user] [--suite NAME] [--target DIR | --files DIR] COMMAND [ARGUMENT...]
#
#   --user        as an ordinary user with sudo, instead of as root without sudo
#   --suite NAME  this release of Debian, instead of the release of this machine
#   --target DIR  DIR is cargo's target directory, which is kept for the next call
#   --files DIR   the files of DIR are in the command's directory, instead of a clone, Rust and git
#
# It gets the registry settings of apt, pip and cargo and what was downloaded already, but no program that is installed here. The minimal system
# and downloaded packages are kept in CVC_FRESH_CACHE (default: cvc-fresh in the user's cache); delete it to start over. Needs root, mmdebstrap
# and git.
set -euo pipefail
user='' target='' files='' suite=''
while :; do
    case "${1:-}" in
    --user) user=newcomer && shift ;;
    --suite) suite=$2 && shift 2 ;;
    --files) files=$(cd "$2" && pwd) && shift 2 ;;
    --target) mkdir -p "$2" && target=$(cd "$2" && pwd) && shift 2 ;;
    -*) echo "error: unknown option $1" >&2 && exit 2 ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' >&2 && exit 2; }
[ "$(id -u)" = 0 ] || { echo "error: a fresh machine needs root, for mounts and namespaces; hint: sudo env PATH=\"\$PATH\" $0 …" >&2 && exit 2; }
for program in mmdebstrap git unshare setpriv; do
    command -v "$program" >/dev/null || { echo "error: a fresh machine needs $program; hint: apt-get install mmdebstrap git util-linux" >&2 && exit 2; }
done
repository=$(cd "$(dirname "$0")/../.." && pwd)
toolchain=''
if [ -z "$files" ]; then
    toolchain=$(cd "$repository" && rustc --print sysroot)
    case "$toolchain" in
    /usr | /usr/local) echo "error: $toolchain does not hold only a Rust toolchain; hint: install Rust with rustup" >&2 && exit 2 ;;
    esac
fi
cargo_home=${CARGO_HOME:-$HOME/.cargo}
cache=${CVC_FRESH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cvc-fresh}
mkdir -p "$cargo_home/registry/cache"
# nothing of it outlives this script
isolated() { setpriv --pdeathsig KILL unshare --mount --pid --uts --ipc --fork --kill-child --mount-proc "$@"; }

# the mirror of this machine, for another release
other_sources() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' "Created-By: Packages" |
        awk -v own="$own_suite" -v suite="$suite" '$2 == own { print "deb", $1, suite, "main"; exit }'
}

# the minimal system, made once
own_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?/etc/os-release has no VERSION_CODENAME: Debian or Ubuntu is needed}")
suite=${suite:-$own_suite}
base=$cache/base-$suite packages=$cache/packages
[ "$suite" = "$own_suite" ] || packages=$cache/packages-$suite
mkdir -p "$packages"
exec 8>"$cache/lock"
flock 8
if [ ! -d "$base" ]; then
    echo "== making a minimal $suite in $base (once)" >&2
    rm -rf --one-file-system "$cache/base.partial"
    if [ "$suite" = "$own_suite" ]; then
        mapfile -t sources < <(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' -o -name '*.sources' 2>/dev/null)
    else
        mapfile -t sources < <(other_sources)
    fi
    isolated mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates,git "$suite" "$cache/base.partial" "${sources[@]}" \
        </dev/null >/dev/null || { echo "error: no minimal $suite can be made" >&2 && exit 3; }
    mv "$cache/base.partial" "$base"
fi
flock -u 8

# a copy of it, removed at the end; those of calls that were killed are removed now
for old in "$cache"/run-*; do
    [ ! -e "$old/in-use" ] || ! flock -n "$old/in-use" true || rm -rf --one-file-system "$old"
done
copy=$(mktemp -d "$cache/run-XXXXXX")
exec 9>"$copy/in-use"
flock 9
trap 'rm -rf --one-file-system "$copy"' EXIT
trap 'exit 130' INT TERM HUP
root=$copy/root
isolated cp -a --reflink=auto "$base" "$root"

# registry settings, and what was downloaded
carry() { [ ! -e "$1" ] || { mkdir -p "$root${1%/*}" && cp -a "$1" "$root${1%/*}/"; }; }
carry_content() { [ ! -f "$1" ] || { mkdir -p "$root${1%/*}" && rm -f "$root$1" && cp -L "$1" "$root$1"; }; }
link_all() { # files of a kind from one directory to another, which have them together
    mkdir -p "$2"
    find "$1" -maxdepth 1 -name "*.$3" -exec cp -ln -t "$2" {} + 2>/dev/null || find "$1" -maxdepth 1 -name "*.$3" -exec cp -n -t "$2" {} + || :
}
mkdir -p "$root"/{opt/rust,opt/cargo/registry/cache,target,etc/apt/apt.conf.d}
{ cat /etc/hosts && printf '\n127.0.1.1 fresh\n'; } >"$root/etc/hosts"
echo fresh >"$root/etc/hostname"
carry_content /etc/resolv.conf
parts=(auth.conf auth.conf.d)
if [ "$suite" = "$own_suite" ]; then
    rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d
    parts+=(sources.list sources.list.d keyrings trusted.gpg trusted.gpg.d preferences preferences.d)
fi
for part in "${parts[@]}"; do carry "/etc/apt/$part"; done
for place in /usr/share/keyrings /etc/ssl/certs /usr/local/share/ca-certificates /etc/pip.conf; do carry "$place"; done
# other settings of apt may call programs that are not installed there
apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/90host" || :
printf '%s\n' '#clear DPkg::Post-Invoke;' '#clear APT::Update::Post-Invoke;' 'APT::Keep-Downloaded-Packages "true";' \
    'Binary::apt::APT::Keep-Downloaded-Packages "true";' >"$root/etc/apt/apt.conf.d/99keep"
settings=()
while IFS='=' read -r name value; do
    settings+=("$name=$value")
    case "$value" in /*) carry_content "$value" ;; esac
done < <(env | grep -iE '^((https?|no|all)_proxy|pip_(index_url|extra_index_url|trusted_host|proxy|default_timeout|retries|cert)|ssl_cert_(file|dir)|requests_ca_bundle|curl_ca_bundle|cargo_(http|net|registries|registry|source)_[a-z_]*|term|ci)=')
for file in config.toml config credentials.toml; do [ ! -f "$cargo_home/$file" ] || cp "$cargo_home/$file" "$root/opt/cargo/"; done
[ ! -d "$cargo_home/registry/index" ] || cp -a "$cargo_home/registry/index" "$root/opt/cargo/registry/"
for registry in "$cargo_home"/registry/cache/*/; do link_all "$registry" "$root/opt/cargo/registry/cache/$(basename "$registry")" crate; done
link_all "$packages" "$root/var/cache/apt/archives" deb

# the files, or the clone, without hard links: its owner may change
home=/root
[ -z "$user" ] || home=/home/$user
mkdir -p "$root$home"
cp "$repository/orchestrator/xtask/fresh-inside.sh" "$root/opt/inside.sh"
if [ -n "$files" ]; then
    cp -r "$files" "$root$home/cvc"
    echo "== a fresh machine ($suite) with $files" >&2
else
    git clone --quiet --no-hardlinks "$repository" "$root$home/cvc"
    echo "== a fresh machine ($suite) with $(git -C "$repository" log -1 --format='%h (%s)'), $(git -C "$repository" status --porcelain | wc -l) uncommitted files left out" >&2
fi
echo "== $*, $([ -n "$user" ] && echo 'as a user with sudo' || echo 'as root without sudo')" >&2
began=$SECONDS status=0
isolated env -i "${settings[@]}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CARGO_HOME=/opt/cargo \
    ROOT="$root" TOOLCHAIN="$toolchain" TARGET="$target" NEWCOMER="$user" bash "$repository/orchestrator/xtask/fresh-enter.sh" "$@" 8>&- 9>&- || status=$?
link_all "$root/var/cache/apt/archives" "$packages" deb
for registry in "$root"/opt/cargo/registry/cache/*/; do link_all "$registry" "$cargo_home/registry/cache/$(basename "$registry")" crate; done
seconds=$((SECONDS - began))
echo "== exit status: $status after $((seconds / 60)) min $(printf %02d $((seconds % 60))) s; the machine is removed" >&2
exit "$status"
