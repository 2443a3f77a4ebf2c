# One volume through two doors at a time: each host reads the data that the other writes.
#
# Parameters (from the host side): NVME_PORT, where the same node serves NVMe/TCP.

by_iscsi() {
    login data
    iscsi_disk=$disk
}

# Connects over NVMe/TCP by nvme-cli itself, since `connect` is a login over iSCSI here.
by_nvme() {
    controller=$(nvme connect --transport tcp --traddr "$TARGET_ADDRESS" --trsvcid "$NVME_PORT" \
        --nqn "nqn.2026-11.io.nearflash:data" --nr-io-queues 2 --data-digest \
        --output-format json | jq -r .device)
    wait_for "namespace 1 of data" 20 nvme_appeared
}

nvme_appeared() {
    nvme_disk=/dev/$(cd "/sys/class/nvme/$controller" && echo nvme*n1 | sed 's/c[0-9]*n/n/')
    [ -b "$nvme_disk" ] && [ "$(blockdev --getsize64 "$nvme_disk")" -gt 0 ]
}

same_unit() {
    step "the same size, blocks and name through both doors"
    expect_equal "size" "$(blockdev --getsize64 "$iscsi_disk")" "$(blockdev --getsize64 "$nvme_disk")"
    expect_equal "block size" "$(blockdev --getss "$iscsi_disk")" "$(blockdev --getss "$nvme_disk")"
}

# Each host writes and verifies its own half while the other does the same; then each reads the
# other's.
crosswise() {
    step "both write at a time, each reads what the other wrote"
    local size=$((8 << 20)) writer
    verify "$iscsi_disk" 16k "$size" --randseed=1 &
    writer=$!
    verify "$nvme_disk" 16k "$size" --offset="$size" || fail "verify through NVMe/TCP"
    wait $writer || fail "verify through iSCSI"
    for offset in 0 "$size"; do
        expect_equal "checksum at $offset" "$(checksum_range "$iscsi_disk" "$offset" "$size")" \
            "$(checksum_range "$nvme_disk" "$offset" "$size")"
    done
}

# A file system that is created through one door is intact through the other.
file_system() {
    step "ext4 made by iSCSI, mounted by NVMe/TCP"
    mkfs.ext4 -q -F "$iscsi_disk"
    mount "$iscsi_disk" /mnt
    cp -r "$libraries"/lib[a-c]* /mnt
    umount /mnt
    mount "$nvme_disk" /mnt
    expect_equal "checksum of the tree" "$(tree_checksum /mnt 'lib[a-c]*')" \
        "$(tree_checksum "$libraries" 'lib[a-c]*')"
    umount /mnt
    e2fsck -f -n "$nvme_disk"
}

# A reservation through one door binds hosts at the other.
reservation() {
    step "a reservation by iSCSI binds NVMe/TCP, and the other way round"
    sg_persist --no-inquiry --out --register --param-sark=0x1111 "$iscsi_disk"
    sg_persist --no-inquiry --out --reserve --param-rk=0x1111 --prout-type=1 "$iscsi_disk"
    ! fill_range "$nvme_disk" 0 4096 || fail "written by NVMe/TCP under the reservation of iSCSI"
    fill_range "$iscsi_disk" 0 4096
    read_range "$nvme_disk" 0 4096 >/dev/null
    sg_persist --no-inquiry --out --clear --param-rk=0x1111 "$iscsi_disk"
    nvme resv-register "$nvme_disk" --nrkey=0x2222 --rrega=0
    nvme resv-acquire "$nvme_disk" --crkey=0x2222 --rtype=1 --racqa=0
    ! fill_range "$iscsi_disk" 0 4096 || fail "written by iSCSI under the reservation of NVMe/TCP"
    fill_range "$nvme_disk" 0 4096
    sg_persist --no-inquiry --in --read-keys "$iscsi_disk" | grep -q 0x2222 || fail "iSCSI shows no key of NVMe/TCP"
    nvme resv-release "$nvme_disk" --crkey=0x2222 --rtype=1 --rrela=0
    fill_range "$iscsi_disk" 0 4096
}

by_iscsi
by_nvme
same_unit
crosswise
file_system
reservation
logout data
nvme disconnect --device "$controller"
