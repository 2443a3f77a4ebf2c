# An iSCSI target inside the guest: the kernel's own, in place of a nearflash node.
#
# It replaces the node in a self-check of the harness, and executes in the guest the actions of the
# host side at the marks. Volumes are sparse files in memory behind loop devices.

lio=/sys/kernel/config/target
volumes=/tmp/volumes

# It lacks some features of a node, and reports some errors less exactly.
EXACT=no

group_of() { printf '%s/iscsi/iqn.2026-11.io.nearflash:%s/tpgt_1' "$lio" "$1"; }

# create_volume NAME SIZE [BLOCK_SIZE]
create_volume() {
    local store=$lio/core/fileio_0/$1 group device
    group=$(group_of "$1")
    truncate -s "$2" "$volumes/$1"
    device=$(losetup --find --show --sector-size "${3:-512}" "$volumes/$1")
    echo "$device" >"$volumes/$1.device"
    mkdir -p "$store"
    echo "fd_dev_name=$device,fd_dev_size=$(blockdev --getsize64 "$device")" >"$store/control"
    echo 1 >"$store/enable"
    mkdir -p "$group/np/$TARGET_ADDRESS:$TARGET_PORT" "$group/lun/lun_0"
    ln -s "$store" "$group/lun/lun_0/store"
    echo 0 >"$group/attrib/authentication"
    echo 0 >"$group/attrib/demo_mode_write_protect"
    echo 1 >"$group/attrib/generate_node_acls"
    echo 1 >"$group/attrib/cache_dynamic_acls"
    echo 1 >"$group/enable"
}

start_target() {
    modprobe iscsi_target_mod
    modprobe target_core_file
    modprobe loop
    mkdir "$volumes"
    # The second directory is for persistent reservations.
    mkdir -p "$lio/iscsi" /var/target/pr
    create_volume data 1G
    create_volume files 512M 4096
}

# --- The actions at a mark ------------------------------------------------------------------------

# The connections break in the middle of their traffic, and none is accepted for a while.
local_restart() {
    local volume
    for volume in data files; do echo 0 >"$(group_of "$volume")/enable"; done
    sleep 2
    for volume in data files; do echo 1 >"$(group_of "$volume")/enable"; done
}

local_grow() {
    truncate -s 2G "$volumes/data"
    losetup --set-capacity "$(cat "$volumes/data.device")"
}

set_accounts() {
    local volume group
    for volume in data files; do
        group=$(group_of "$volume")
        printf '%s' "$1" >"$group/auth/userid"
        printf '%s' "$2" >"$group/auth/password"
        printf '%s' "$3" >"$group/auth/userid_mutual"
        printf '%s' "$4" >"$group/auth/password_mutual"
        echo 1 >"$group/attrib/authentication"
    done
}

local_one_way() { set_accounts guest "$SECRET" NULL NULL; }
local_mutual() { set_accounts guest "$SECRET" node "$NODE_SECRET"; }

start_target
