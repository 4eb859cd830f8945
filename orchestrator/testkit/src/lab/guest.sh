# Sourced by node.sh on guests: machines that came to the lab later, as instances of a cloud do. They know one user, GUEST, whom the keys
# in OWN/authorized_keys let in and who may sudo, and no key of the lab; `poweroff` and `shutdown` on them switch them off.
# shellcheck shell=bash disable=SC2154 # OWN and root are of node.sh
ip address add 169.254.169.254/32 dev lo # the metadata service
if [ "$is_new" = yes ]; then
    if ! grep -q "^$GUEST:" "$root/etc/passwd"; then
        echo "$GUEST:x:4712:4712::/home/$GUEST:/bin/bash" >>"$root/etc/passwd"
        echo "$GUEST:x:4712:" >>"$root/etc/group"
        # '*', not '!': sshd without PAM refuses an account that is locked
        echo "$GUEST:*:19000:0:99999:7:::" >>"$root/etc/shadow"
    fi
    mkdir -p "$root/etc/sudoers.d" "$root/home/$GUEST/.ssh" "$root/root/.ssh"
    echo "$GUEST ALL=(ALL) NOPASSWD:ALL" >"$root/etc/sudoers.d/90-guest"
    chmod 440 "$root/etc/sudoers.d/90-guest"
    cp "$OWN/authorized_keys" "$root/home/$GUEST/.ssh/"
    chmod 700 "$root/home/$GUEST/.ssh" "$root/root/.ssh"
    chmod 600 "$root/home/$GUEST/.ssh/authorized_keys"
    chown -R 4712:4712 "$root/home/$GUEST"
    rm -f "$root"/usr/sbin/{poweroff,halt,shutdown} # may be links to systemctl
    cat >"$root/usr/sbin/poweroff" <<'SCRIPT'
#!/bin/sh
# process 1 of this machine ends, and all others with it
[ "$(id -u)" = 0 ] || { echo "poweroff: only root may" >&2; exit 1; }
echo poweroff >/run/never
SCRIPT
    cat >"$root/usr/sbin/shutdown" <<'SCRIPT'
#!/bin/sh
# shutdown [-h|-P|-H] [now|+MINUTES] [message], shutdown -c
[ "$(id -u)" = 0 ] || { echo "shutdown: only root may" >&2; exit 1; }
if [ -s /run/shutdown.pid ]; then kill "$(cat /run/shutdown.pid)"; rm -f /run/shutdown.pid; fi
minutes=1
for word; do
    case $word in
    -c) exit 0 ;;
    -h | -P | -H | --poweroff | --halt) ;;
    now) minutes=0 ;;
    +[0-9]*) minutes=${word#+} ;;
    -*) echo "shutdown: $word is not known on this machine" >&2; exit 1 ;;
    esac
done
[ "$minutes" -gt 0 ] || exec /usr/sbin/poweroff
setsid sh -c "sleep $((minutes * 60)); exec /usr/sbin/poweroff" </dev/null >/dev/null 2>&1 &
echo $! >/run/shutdown.pid
SCRIPT
    cp "$root/usr/sbin/poweroff" "$root/usr/sbin/halt"
    chmod 755 "$root"/usr/sbin/{poweroff,halt,shutdown}
fi
