# Process 1 of a node, before it becomes its root file system. Everything mounted here goes with its mount namespace.
# In the environment: NAME ADDRESS LOWER OWN (the node's directory) RUN (the sandbox's) SCRATCH_MIB SHM_MIB HIDE BOUND OPEN (directories) APT
# PORTUGUESE: not empty if log-ins are to speak Portuguese
# GUEST: the user of a guest, which only the keys in OWN/authorized_keys open; empty for a node of the lab itself
# shellcheck shell=bash
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
read -r _ # the network is there
hostname "$NAME"
root=$OWN/root
ip link set lo up
ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
is_new=yes
[ ! -d "$OWN/upper" ] || is_new=no
mkdir -p "$OWN/upper" "$OWN/work" "$root"
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$OWN/upper,workdir=$OWN/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup" || true
mount -t tmpfs -o mode=755,size=64k tmpfs "$root/dev"
while read -r name major minor; do
    mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done <<DEVICES
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
DEVICES
# the kernel is the machine's: a node that switches itself off by it would take the machine along
[ ! -e "$root/proc/sysrq-trigger" ] || mount --bind "$root/dev/null" "$root/proc/sysrq-trigger"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777,size="$SHM_MIB"m tmpfs "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
mount -t tmpfs -o mode=755,size=64m tmpfs "$root/run"
mkdir -p "$root/run/sshd" "$root/run/lock"
mount -t tmpfs -o mode=1777,size=512m tmpfs "$root/tmp"
mkdir -p "$root/var/tmp" "$root/scratch-local" "$root/shared"
mount -t tmpfs -o mode=1777,size="$SCRATCH_MIB"m tmpfs "$root/scratch-local"
mount --bind "$RUN/shared" "$root/shared"
# directories of tests lie on the laptop alone
for hidden in $HIDE; do
    [ ! -d "$root$hidden" ] || mount -t tmpfs -o mode=1777,size=1m tmpfs "$root$hidden"
done
# what lies on other disks of the machine, and tools that lie where tests write
for folder in $BOUND; do
    mkdir -p "$root$folder"
    mount --bind -o ro "$folder" "$root$folder"
done
if [ -n "$APT" ]; then
    mkdir -p "$root/srv/apt"
    mount --bind -o ro "$APT" "$root/srv/apt"
fi
# what is this machine's own, not the node's
if [ $is_new = yes ]; then
    rm -rf "$root/root/.ssh" "$root"/etc/ssh/ssh_host_* "$root/etc/ssh/sshd_config.d" "$root/etc/munge" "$root/etc/slurm" "$root/etc/resolv.conf" \
        "$root"/var/spool/slurm* "$root"/var/lib/slurm* "$root/var/lib/munge" "$root/var/log/munge" "$root"/var/log/slurm* "$root"/var/lib/gluster* \
        "$root"/root/.{bashrc,profile,bash_profile,bash_login,bash_logout,config,ansible,local/share} # log-ins are the same everywhere
fi
# other users reach tools that lie in root's home
for folder in $OPEN; do
    [ ! -d "$root$folder" ] || chmod a+x "$root$folder"
done
ln -sf ../proc/self/mounts "$root/etc/mtab"
echo "$NAME" >"$root/etc/hostname"
: >"$root/etc/resolv.conf"
# guests know each other's keys once these are written into their own file
shared_files="hosts ssh/ssh_known_hosts"
[ -z "$GUEST" ] || { shared_files=hosts; : >"$root/etc/ssh/ssh_known_hosts"; }
for shared in $shared_files; do
    [ -e "$root/etc/$shared" ] || : >"$root/etc/$shared"
    mount --bind "$RUN/etc/${shared##*/}" "$root/etc/$shared"
done
install -m 600 "$OWN/ssh_host_ed25519_key" "$root/etc/ssh/"
# as every machine has it; the lab's own nodes know each other already, by a mounted file that cannot be replaced
[ -z "$GUEST" ] || install -m 644 "$OWN/ssh_host_ed25519_key.pub" "$root/etc/ssh/"
if [ -n "$GUEST" ]; then
    . "${0%/*}/guest.sh"
else
    # '*', not '!': sshd without PAM refuses an account that is locked
    if ! grep -q '^ada:' "$root/etc/passwd"; then
        echo 'ada:x:4711:4711::/home/ada:/bin/bash' >>"$root/etc/passwd"
        echo 'ada:x:4711:' >>"$root/etc/group"
        echo 'ada:*:19000:0:99999:7:::' >>"$root/etc/shadow"
    fi
    mkdir -p "$root/etc/sudoers.d" "$root/home/ada"
    echo 'ada ALL=(ALL) NOPASSWD:ALL' >"$root/etc/sudoers.d/ada"
    chmod 440 "$root/etc/sudoers.d/ada"
    for home in root home/ada; do
        mkdir -p "$root/$home/.ssh"
        cp "$RUN/etc/id_ed25519" "$root/$home/.ssh/"
        cp "$RUN/etc/id_ed25519.pub" "$root/$home/.ssh/authorized_keys"
        chmod 700 "$root/$home/.ssh"
        chmod 600 "$root/$home/.ssh"/*
    done
    chown -R 4711:4711 "$root/home/ada"
fi
# limits of sessions and of log-ins stay those of sshd: machines have them too
cat >"$root/etc/ssh/sshd_config" <<CONFIG
HostKey /etc/ssh/ssh_host_ed25519_key
UsePAM no
UseDNS no
PermitRootLogin $ROOT_LOGIN
PasswordAuthentication no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
PidFile /run/sshd.pid
$SSHD
CONFIG
if [ -n "$PORTUGUESE" ]; then
    # what PAM does with /etc/default/locale
    echo 'SetEnv LANG=pt_BR.UTF-8 LANGUAGE=pt_BR:pt' >>"$root/etc/ssh/sshd_config"
    mkdir -p "$root/usr/lib/locale"
    localedef --no-archive -i pt_BR -f UTF-8 "$root/usr/lib/locale/pt_BR.UTF-8"
fi
cd "$root"
mkdir -p .old-root
pivot_root . .old-root
cd /
umount -l /.old-root
rmdir /.old-root
exec chroot / /bin/bash -c '
/usr/sbin/sshd -E /var/log/sshd.log || exit 1
until [ -s /run/sshd.pid ]; do sleep 0.01; done # it listens
echo ready
mkfifo /run/never
exec <>/run/never >/dev/null
while read -r word; do [ "$word" != poweroff ] || exit 0; done'
