# fio writes, reads back and compares, over block sizes, depths, digests and kinds of data transfer;
# ext4.

# verify_each WHAT: with the options that the record has now.
verify_each() {
    step "$1"
    login data
    verify "$disk" 512 128k --iodepth=1
    verify "$disk" 4k 4M --iodepth=32
    verify "$disk" 64k 8M --iodepth=8 --ioengine=libaio
    verify "$disk" 1M 8M --iodepth=4
    verify "$disk" 4k 2M --bsrange=512-128k --iodepth=16 --numjobs=2 --offset_increment=16M
}

ways_to_send() {
    verify_each "immediate data, then one burst for each R2T"
    expect_negotiated immediate_data 1
    logout data

    set_option data node.session.iscsi.InitialR2T No
    set_option data node.session.iscsi.FirstBurstLength 65536
    set_option data 'node.conn[0].iscsi.MaxRecvDataSegmentLength' 8192
    verify_each "unsolicited bursts, data to the initiator in small segments"
    logout data

    set_option data node.session.iscsi.InitialR2T Yes
    set_option data node.session.iscsi.ImmediateData No
    set_option data node.session.iscsi.MaxBurstLength 16384
    set_option data node.session.iscsi.FirstBurstLength 16384
    verify_each "no data unasked, short bursts"
    expect_negotiated immediate_data 0
    expect_negotiated max_burst_len 16384
    logout data
    set_option data node.session.iscsi.ImmediateData Yes
    set_option data node.session.iscsi.MaxBurstLength 1048576
}

digests() {
    set_digests data CRC32C CRC32C
    verify_each "header and data digests"
    logout data
    set_digests data CRC32C None
    step "one digest alone"
    login data
    verify "$disk" 4k 2M
    logout data
    set_digests data None CRC32C
    login data
    verify "$disk" 4k 2M
}

file_system() {
    step "ext4, with data digests"
    mkfs.ext4 -q -F "$disk"
    mount "$disk" /mnt
    mkdir /mnt/tree
    cp -r "$libraries"/lib[a-e]* /mnt/tree
    expected=$(tree_checksum "$libraries" 'lib[a-e]*')
    umount /mnt
    # A fresh mount reads from the volume, not from the page cache.
    echo 3 >/proc/sys/vm/drop_caches
    mount "$disk" /mnt
    expect_equal "checksum of the tree" "$(tree_checksum /mnt/tree '*')" "$expected"
    rm -r /mnt/tree
    [ "${EXACT:-yes}" = no ] || fstrim /mnt
    umount /mnt
    e2fsck -f -n "$disk"
    logout data
}

ways_to_send
digests
file_system
expect_no_io_errors
