# Each command of the NVM command set by itself, and its effect on the volume.

mebibyte=1048576

passthru_read_write() {
    step "read and write"
    head -c 8192 /dev/urandom >/tmp/out
    nvme write "$disk" --start-block 16 --block-count 15 --data-size 8192 --data /tmp/out
    nvme read "$disk" --start-block 16 --block-count 15 --data-size 8192 --data /tmp/in
    cmp /tmp/out /tmp/in
    nvme write "$disk" --start-block 32 --block-count 15 --data-size 8192 --data /tmp/out --force-unit-access
    nvme read "$disk" --start-block 32 --block-count 15 --data-size 8192 --data /tmp/in --force-unit-access
    cmp /tmp/out /tmp/in
}

flush() {
    step "flush"
    nvme flush "$disk" --namespace-id 1
}

compare() {
    step "compare"
    nvme compare "$disk" --start-block 16 --block-count 15 --data-size 8192 --data /tmp/out
    head -c 8191 /tmp/out >/tmp/other
    printf x >>/tmp/other
    cmp -s /tmp/out /tmp/other && printf y | dd of=/tmp/other seek=8191 bs=1 conv=notrunc status=none
    expect_refused "Compare Failure" \
        nvme compare "$disk" --start-block 16 --block-count 15 --data-size 8192 --data /tmp/other
}

write_zeroes() {
    step "write zeroes"
    fill_range "$disk" 0 $((2 * mebibyte))
    nvme write-zeroes "$disk" --start-block 128 --block-count 127
    expect_zeroes "$disk" $((128 * 512)) $((128 * 512))
    before=$(checksum_range "$disk" 0 $((128 * 512)))
    blkdiscard --zeroout --offset $mebibyte --length $mebibyte "$disk"
    expect_zeroes "$disk" $mebibyte $mebibyte
    expect_equal "what lies before the zeroes" "$(checksum_range "$disk" 0 $((128 * 512)))" "$before"
}

# The namespace reports the value of deallocated blocks; they read as zeroes only if it says so.
deallocate() {
    step "deallocate"
    local reads_as
    reads_as=$(nvme id-ns "$disk" --output-format json | jq '.dlfeat % 8')
    fill_range "$disk" $((4 * mebibyte)) $((4 * mebibyte))
    before=$(checksum_range "$disk" $((7 * mebibyte)) $mebibyte)
    nvme dsm "$disk" --namespace-id 1 --ad --slbs 8192,10240 --blocks 2048,2048
    blkdiscard --offset $((6 * mebibyte)) --length $mebibyte "$disk"
    if [ "$reads_as" = 1 ]; then
        expect_zeroes "$disk" $((4 * mebibyte)) $((3 * mebibyte))
    fi
    expect_equal "what lies behind the deallocated blocks" \
        "$(checksum_range "$disk" $((7 * mebibyte)) $mebibyte)" "$before"
    blkdiscard "$disk"
}

refused_ranges() {
    local blocks namespaces
    blocks=$(nvme id-ns "$disk" --output-format json | jq .nsze)
    namespaces=$(nvme id-ctrl "/dev/$controller" --output-format json | jq .nn)
    expect_refused "LBA Out of Range" \
        nvme read "$disk" --start-block "$blocks" --block-count 0 --data-size 512
    expect_refused "LBA Out of Range" \
        nvme write "$disk" --start-block $((blocks - 1)) --block-count 1 --data-size 1024 --data /tmp/out
    expect_refused "Invalid Namespace or Format" \
        nvme admin-passthru "/dev/$controller" --opcode 0x06 --namespace-id $((namespaces + 1)) --data-len 4096 --read
}

# Each causes the protocol's own error, and the controller continues.
refusals() {
    step "refusals"
    expect_refused "Invalid Command Opcode" \
        nvme io-passthru "$disk" --opcode 0x70 --namespace-id 1
    expect_refused "Invalid Command Opcode" \
        nvme admin-passthru "/dev/$controller" --opcode 0x70
    expect_refused "Invalid Field in Command" \
        nvme admin-passthru "/dev/$controller" --opcode 0x06 --cdw10 0xff --data-len 4096 --read
    [ "${EXACT:-yes}" = no ] || refused_ranges
    is_live "$controller" || fail "the controller is $(controller_state "$controller")"
    nvme read "$disk" --start-block 0 --block-count 0 --data-size 512 >/dev/null
}

connect data --nr-io-queues 2 --hdr-digest --data-digest
passthru_read_write
flush
[ "${COMPARE:-yes}" = no ] || compare
write_zeroes
deallocate
refusals
disconnect data
