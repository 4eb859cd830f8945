# Process 1 of a sandbox: bash sandbox.sh DIRECTORY. The test holds the other end of standard input: when that closes, all of this ends.
# shellcheck shell=bash
set -eu
directory=$1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755,size=64m tmpfs /run
mkdir -p /run/user /run/lock /run/shm
hostname laptop
# home of root is the laptop's: ssh does not ask $HOME
mount --bind "$directory/etc/passwd" /etc/passwd
mount --bind "$directory/etc/hosts" /etc/hosts
mkdir -p "$directory/run"
mount -t tmpfs -o mode=755,size=64m tmpfs "$directory/run"
mkdir "$directory/run/shared"
mount -t tmpfs -o mode=1777,size="$SHARED_MIB"m tmpfs "$directory/run/shared"
ip link set lo up
ip link add lab0 type bridge
ip address add 10.77.0.1/24 dev lab0
ip link set lab0 up
echo ready
while read -r _; do :; done
# the test has been killed, or it would have killed this
umount -l "$directory/run"
exec rm -rf --one-file-system "$directory"
