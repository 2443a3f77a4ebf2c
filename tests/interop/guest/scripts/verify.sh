# fio writes, reads back and compares, over block sizes, depths, engines and digests.

without_digests() {
    step "512 B to 1 MiB, no digests"
    connect data --nr-io-queues 2
    verify "$disk" 512 256k --iodepth=1
    verify "$disk" 512 512k --iodepth=32 --offset=1M --ioengine=libaio
    verify "$disk" 4k 16M --iodepth=32
    verify "$disk" 64k 32M --iodepth=8 --ioengine=libaio
    verify "$disk" 1M 32M --iodepth=4
    disconnect data
}

with_digests() {
    step "512 B to 1 MiB, header and data digests"
    connect data --nr-io-queues 2 --hdr-digest --data-digest
    verify "$disk" 512 512k --iodepth=16
    verify "$disk" 4k 16M --iodepth=128 --ioengine=libaio
    verify "$disk" 64k 32M --iodepth=16
    verify "$disk" 1M 32M --iodepth=2 --ioengine=libaio
    disconnect data
}

with_each_digest_alone() {
    step "one digest alone"
    connect data --hdr-digest
    verify "$disk" 4k 4M
    disconnect data
    connect data --data-digest
    verify "$disk" 4k 4M
    disconnect data
}

mixed_sizes() {
    step "mixed sizes at any offset, several jobs, poll queues"
    connect data --nr-io-queues 2 --nr-poll-queues 1 --data-digest
    verify "$disk" 4k 8M --bsrange=512-128k --iodepth=16 \
        --numjobs=2 --offset_increment=16M
    verify "$disk" 4k 4M --hipri --iodepth=8 --offset=64M
    disconnect data
}

without_digests
with_digests
with_each_digest_alone
mixed_sizes
expect_no_io_errors
