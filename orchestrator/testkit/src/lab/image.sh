# Builds what nodes start from: bash image.sh DIRECTORY MPICH5. A minimal system of the machine's own distribution in DIRECTORY/root, and in
# DIRECTORY/apt a closed repository of what may be installed on it. Packages come from where apt of this machine takes them.
# MPICH5: where MPICH from PyPI lies; it becomes a package for /opt/mpich5. Empty: no such package.
# shellcheck shell=bash
set -euo pipefail
directory=$1 mpich5=$2
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive LC_ALL=C
. /etc/os-release
mapfile -t sources < <(apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Identifier: Packages' |
    awk -F'|' '($1 == "Debian" || $1 == "Ubuntu") && !seen[$0]++ { print "deb", $2, $3, $4 }')
if [ ${#sources[@]} -eq 0 ]; then
    echo "apt of this machine knows no packages of Debian or Ubuntu (apt-get update?)" >&2
    exit 1
fi
on_nodes=openssh-server,python3,python3-apt,sudo,iproute2,procps,hostname,ca-certificates
installable=(mpich libmpich-dev openmpi-bin libopenmpi-dev gcc g++ libc6-dev make rsync
    moosefs-master moosefs-chunkserver moosefs-client glusterfs-server glusterfs-client)
mkdir -p "$directory/apt"
# the hook runs in the new system before its caches are emptied
mmdebstrap --quiet --mode=root --variant=minbase --include="$on_nodes" \
    --customize-hook="chroot \"\$1\" apt-get -q -y --no-install-recommends --download-only install ${installable[*]} >&2" \
    --customize-hook="cp \"\$1\"/var/cache/apt/archives/*.deb '$directory/apt/'" \
    --customize-hook='rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*' \
    --customize-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"' \
    "$VERSION_CODENAME" "$directory/root" "${sources[@]}"
echo 'deb [trusted=yes] file:/srv/apt ./' >"$directory/root/etc/apt/sources.list"
if [ -n "$mpich5" ]; then
    package=$directory/mpich5
    mkdir -p "$package/DEBIAN" "$package/opt"
    cp -r "$mpich5" "$package/opt/mpich5"
    version=$("$mpich5/bin/mpiexec" --version | awk '$1 == "Version:" { print $2 }')
    printf 'Package: mpich5\nVersion: %s\nArchitecture: %s\nMaintainer: lab\nDepends: libc6\nDescription: MPICH 5 as PyPI has it, in /opt/mpich5\n' \
        "$version" "$(dpkg --print-architecture)" >"$package/DEBIAN/control"
    chmod 755 "$package" "$package/DEBIAN" "$package/opt"
    dpkg-deb -Zgzip --root-owner-group --build "$package" "$directory/apt/mpich5_$version.deb" >&2
    rm -rf "$package"
fi
cd "$directory/apt"
apt-ftparchive packages . >Packages
apt-ftparchive -o APT::FTPArchive::Release::Suite=lab release . >Release
