#!/bin/sh
# Runs at the first boot of an instance of cvc: it ends itself at its deadline, even if the machine that ordered it is gone.
set -eu
now=$(date +%s)
deadline=$((now + @LIFETIME_S@))
# The time of the order counts, too, where the clock here agrees with that of the machine that ordered it.
if [ "$deadline" -ge @UNTIL_S@ ] && [ $((deadline - @UNTIL_S@)) -le 600 ]; then
    deadline=@UNTIL_S@
fi
# on the disk before it has its name: after a crash there is the old time or the new one
echo "$deadline" | dd of=/etc/cvc-deadline.new conv=fsync 2>/dev/null
mv /etc/cvc-deadline.new /etc/cvc-deadline
mkdir -p /usr/local/sbin
cat >/usr/local/sbin/cvc-deadline <<'END'
#!/bin/sh
# Ends this machine when the time in /etc/cvc-deadline (seconds since 1970, by its own clock) has passed. If the file has no time, twice in
# a row, it has passed: an unreadable time must not cost for ever.
unread=0
while sleep 5; do
    deadline=$(cat /etc/cvc-deadline 2>/dev/null) || deadline=
    case $deadline in
        '' | *[!0-9]* | ????????????*) unread=$((unread + 1)) ;;
        *) unread=0 ;;
    esac
    if [ "$unread" -ge 2 ] || { [ "$unread" = 0 ] && [ "$(date +%s)" -ge "$deadline" ]; }; then
        shutdown -P now || poweroff -f
        sleep 60
    fi
done
END
chmod 755 /usr/local/sbin/cvc-deadline
if [ -d /run/systemd/system ] && cat >/etc/systemd/system/cvc-deadline.service <<'END' && systemctl daemon-reload && systemctl enable --now cvc-deadline.service; then
[Unit]
Description=Ends this machine at the deadline that cvc has set
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/local/sbin/cvc-deadline
Restart=always
RestartSec=1
OOMScoreAdjust=-1000
[Install]
WantedBy=multi-user.target
END
    exit 0
fi
mkdir -p /var/lib/cloud/scripts/per-boot
cat >/var/lib/cloud/scripts/per-boot/cvc-deadline <<'END'
#!/bin/sh
# in the background, not ended with the shell that runs this at boot, and started again if it ends
setsid sh -c 'while :; do /usr/local/sbin/cvc-deadline; sleep 1; done' </dev/null >/dev/null 2>&1 &
END
chmod 755 /var/lib/cloud/scripts/per-boot/cvc-deadline
/var/lib/cloud/scripts/per-boot/cvc-deadline
