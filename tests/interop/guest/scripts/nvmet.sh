# A target inside the guest: the kernel's own, in place of a nearflash node.
#
# It replaces the node in a self-check of the harness, and executes in the guest the actions of the
# host side at the marks. Volumes are sparse files in memory behind loop devices.

nvmet=/sys/kernel/config/nvmet
volumes=/tmp/volumes

# It lacks some features of a node, and reports some errors less exactly.
FEATURES='0x7 0xb 0xf'
COMPARE=no
RESERVATIONS=no
EXACT=no

# create_volume NAME SIZE [BLOCK_SIZE]
create_volume() {
    local subsystem
    subsystem=$nvmet/subsystems/$(nqn_of "$1")
    truncate -s "$2" "$volumes/$1"
    losetup --find --show --sector-size "${3:-512}" "$volumes/$1" >"$volumes/$1.device"
    mkdir "$subsystem" "$subsystem/namespaces/1"
    echo 1 >"$subsystem/attr_allow_any_host"
    cat "$volumes/$1.device" >"$subsystem/namespaces/1/device_path"
    echo 1 >"$subsystem/namespaces/1/enable"
}

offer_volumes() {
    local subsystem
    for subsystem in "$nvmet"/subsystems/*; do
        ln -s "$subsystem" "$nvmet/ports/1/subsystems/${subsystem##*/}"
    done
}

withdraw_volumes() { rm "$nvmet"/ports/1/subsystems/*; }

start_target() {
    modprobe nvmet-tcp
    modprobe loop
    mkdir "$volumes" "$nvmet/ports/1"
    echo tcp >"$nvmet/ports/1/addr_trtype"
    echo ipv4 >"$nvmet/ports/1/addr_adrfam"
    echo "$TARGET_ADDRESS" >"$nvmet/ports/1/addr_traddr"
    echo "$TARGET_PORT" >"$nvmet/ports/1/addr_trsvcid"
    create_volume data 1G
    create_volume files 512M 4096
    offer_volumes
}

# --- The actions at a mark ------------------------------------------------------------------------

# The connections break in the middle of their traffic, and none is accepted for a while.
local_restart() {
    withdraw_volumes
    sleep 2
    [ "${FORGETFUL:-no}" = no ] || roll_back
    offer_volumes
}

# A forbidden behaviour: the second restart loses the writes acknowledged since the first.
roll_back() {
    local before=$volumes/before
    if [ -e "$before" ]; then
        dd if="$before" of="$volumes/data" bs=1M conv=notrunc status=none
    else
        dd if="$volumes/data" of="$before" bs=1M count=32 status=none
    fi
}

local_grow() {
    truncate -s 2G "$volumes/data"
    losetup --set-capacity "$(cat "$volumes/data.device")"
    echo 1 >"$nvmet/subsystems/$(nqn_of data)/namespaces/1/revalidate_size"
}

start_target
