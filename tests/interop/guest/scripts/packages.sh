# Parameters (from the host side): DEB_PORT, ARCHIVE_PORT, which send the packages.
#
# The Debian package and the archive of static programs, each on a system that has nothing else of
# nearflash: a node in the guest serves a volume to the guest's own kernel.

# serve_and_verify PROGRAM: starts the node, connects, writes and reads back.
serve_and_verify() {
    local program=$1 node
    "$program" --version
    "$program" serve --device r=ram:64MiB --volume data=32MiB@r --cores 0 \
        --nvme-tcp "127.0.0.1:$TARGET_PORT" --data-dir /tmp/state >/tmp/ready &
    node=$!
    wait_for "the ready line" 30 grep -q '"event":"ready"' /tmp/ready
    connect data
    verify "$disk" 4k 16M
    disconnect data
    kill -TERM "$node"
    wait "$node" || fail "$program did not drain"
    rm -r /tmp/state /tmp/ready
}

step "the Debian package"
nc 10.0.2.2 "$DEB_PORT" </dev/null >/tmp/deb.deb
mkdir /tmp/deb
busybox dpkg-deb -x /tmp/deb.deb /tmp/deb
# What it installs below /usr and /etc; the guest's own dpkg knows no installed packages.
cp -a /tmp/deb/. /
[ -e /etc/nearflash/nearflash.toml ] || fail "the package has no configuration"
[ -e /usr/lib/systemd/system/nearflash.service ] || fail "the package has no unit"
serve_and_verify /usr/bin/nearflash
rm /usr/bin/nearflash

step "the archive"
nc 10.0.2.2 "$ARCHIVE_PORT" </dev/null | tar -xz -C /tmp
serve_and_verify /tmp/nearflash-*/bin/nearflash
