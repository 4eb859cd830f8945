#!/bin/sh
# What cvc has an instance do at its first boot: it ends by itself at its deadline, whatever becomes of who ordered it.
set -eu
echo "$(($(date +%s) + @LIFETIME_S@))" >/etc/cvc-deadline.new
mv /etc/cvc-deadline.new /etc/cvc-deadline
mkdir -p /usr/local/sbin /var/lib/cloud/scripts/per-boot
cat >/usr/local/sbin/cvc-deadline <<'END'
#!/bin/sh
# Ends this machine when the time in /etc/cvc-deadline (seconds since 1970, by its own clock) has passed.
while sleep 5; do
    deadline=$(cat /etc/cvc-deadline 2>/dev/null || echo 0)
    if [ "$(date +%s)" -ge "$deadline" ]; then
        shutdown -P now || poweroff -f
        sleep 60
    fi
done
END
cat >/var/lib/cloud/scripts/per-boot/cvc-deadline <<'END'
#!/bin/sh
# in the background, and not ended with the shell that runs this at boot
setsid /usr/local/sbin/cvc-deadline </dev/null >/dev/null 2>&1 &
END
chmod 755 /usr/local/sbin/cvc-deadline /var/lib/cloud/scripts/per-boot/cvc-deadline
/var/lib/cloud/scripts/per-boot/cvc-deadline
