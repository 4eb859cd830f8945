# The first process of the fresh machine: makes the user, types the command in the clone, and reaps what others leave.
set -eu
export PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
home=/root
as=()
if [ -n "$NEWCOMER" ]; then
    home=/home/$NEWCOMER
    useradd --shell /bin/bash --no-create-home "$NEWCOMER"
    cp -n /etc/skel/.[!.]* "$home" 2>/dev/null || true
    chown -R "$NEWCOMER:" "$home"
    # not the downloaded crates, which are links to files of the machine below
    find /opt/cargo -type d -exec chown "$NEWCOMER:" {} +
    find /opt/cargo -type f ! -name '*.crate' -exec chown "$NEWCOMER:" {} +
    if [ -n "$TARGET" ]; then
        chown -R "$NEWCOMER:" /target
    fi
    if ! { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends sudo; } >/var/log/sudo.log 2>&1; then
        cat /var/log/sudo.log >&2
        echo "error: cannot install sudo for the user" >&2
        exit 1
    fi
    echo "$NEWCOMER ALL=(ALL) NOPASSWD: ALL" >"/etc/sudoers.d/$NEWCOMER"
    as=(setpriv "--reuid=$NEWCOMER" "--regid=$NEWCOMER" --init-groups env "USER=$NEWCOMER" "LOGNAME=$NEWCOMER")
fi
if [ -n "$TARGET" ]; then
    export CARGO_TARGET_DIR=/target
fi
# the clone is compiled once
export CARGO_INCREMENTAL=0
unset NEWCOMER TARGET ROOT TOOLCHAIN
export HOME="$home"
cd "$home/cvc"
status=0
# no exec: this shell is process 1, and must stay to reap orphans
"${as[@]}" "$@" || status=$?
exit "$status"
