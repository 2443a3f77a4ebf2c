# The kernel's iSCSI initiator, for the scripts that follow this part.
#
# Parameters (from the host side): TARGET_ADDRESS, TARGET_PORT.

portal=$TARGET_ADDRESS:$TARGET_PORT
default_initiator=iqn.2026-11.io.nearflash:guest

iqn_of() { printf 'iqn.2026-11.io.nearflash:%s' "$1"; }

start_initiator() {
    modprobe iscsi_tcp
    modprobe sd_mod
    modprobe sg
    mkdir -p /run/lock/iscsi
    echo "InitiatorName=$default_initiator" >/etc/iscsi/initiatorname.iscsi
    iscsid --config /etc/iscsi/iscsid.conf --initiatorname /etc/iscsi/initiatorname.iscsi
}

# discover: prints the names of the portal's targets, one on a line. Keeps a record of each.
discover() {
    iscsiadm --mode discovery --type sendtargets --portal "$portal" "$@" | awk '{ print $2 }' | LC_ALL=C sort
}

# set_option VOLUME NAME VALUE: sets an option of the record that later logins use.
set_option() {
    iscsiadm --mode node --targetname "$(iqn_of "$1")" --portal "$portal" --op update --name "$2" --value "$3"
}

# digests VOLUME HEADER DATA: None or CRC32C each.
set_digests() {
    set_option "$1" 'node.conn[0].iscsi.HeaderDigest' "$2"
    set_option "$1" 'node.conn[0].iscsi.DataDigest' "$3"
}

# login VOLUME [OPTION of iscsiadm]...: sets $session (session1) and $disk (/dev/sda).
login() {
    local volume=$1 before
    shift
    before=$(sessions)
    iscsiadm --mode node --targetname "$(iqn_of "$volume")" --portal "$portal" --login "$@"
    session=$(newest_session "$before")
    wait_for "the disk of $session" 20 disk_appeared_in "$session"
}

sessions() { (cd /sys/class/iscsi_session 2>/dev/null && echo session*) || true; }

# newest_session SESSIONS_BEFORE
newest_session() {
    local name
    for name in $(sessions); do
        case " $1 " in
            *" $name "*) ;;
            *) printf '%s\n' "$name"; return ;;
        esac
    done
    fail "no new session"
}

disk_appeared_in() {
    local block
    block=$(echo "/sys/class/iscsi_session/$1/device"/target*/*:0/block/sd*)
    disk=/dev/${block##*/}
    [ -b "$disk" ] && [ "$(blockdev --getsize64 "$disk")" -gt 0 ]
}

logout() {
    iscsiadm --mode node --targetname "$(iqn_of "$1")" --portal "$portal" --logout
}

# negotiated NAME VALUE: checks a negotiated value of the newest session.
expect_negotiated() {
    expect_equal "$1 of $session" "$(cat "/sys/class/iscsi_session/$session/$1")" "$2"
}

is_logged_in() { [ "$(cat "/sys/class/iscsi_session/$1/state")" = LOGGED_IN ]; }

# Functions that scripts for any host call.
connect() { login "$1"; }
disconnect() { logout "$1"; }

# The number of lost connections, once every session has one again.
reconnects() {
    local name
    for name in $(sessions); do
        is_logged_in "$name" || { echo 0; return; }
    done
    dmesg | grep -c 'detected conn error' || true
}

start_initiator
discover
