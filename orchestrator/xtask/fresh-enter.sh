# Runs in mount, pid, uts and ipc namespaces of its own: makes $ROOT the root of a machine, then continues there.
# Mounts vanish with the namespace.
set -eu
# a mount point of its own rather than an overlay, on which no further overlay could be mounted
mount --bind "$ROOT" "$ROOT"
cd "$ROOT"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mkdir -m 1777 run/lock
if [ -n "$TOOLCHAIN" ]; then
    mount --bind "$TOOLCHAIN" opt/rust
    mount -o remount,bind,ro opt/rust
fi
if [ -n "$TARGET" ]; then
    mount --bind "$TARGET" target
fi
hostname fresh
# not chroot: namespaces that are made below must see this root as theirs
mkdir .host
pivot_root . .host
umount -l /.host
rmdir /.host
exec /bin/bash /opt/inside.sh "$@"
