# TLS 1.3 with a PSK: a host with the PSK connects, with both versions of identities, and a host
# without it, or with another one, does not.
#
# Parameters (from the host side): PSK, OTHER_PSK.

version_1() {
    step "an identity of version 1"
    expect_no_connect "without TLS"
    insert "$OTHER_PSK" 1
    expect_no_connect "to a node without its PSK" --tls
    mark added
    expect_no_connect "with another PSK" --tls
    forget
    insert "$PSK" 1
    expect_connect
    disconnect data
}

version_0() {
    step "an identity of version 0"
    forget
    insert "$OTHER_PSK" 0
    expect_no_connect "with another key" --tls
    insert "$PSK" 0
    expect_connect
    mark removed
    wait_for "the end of the connection" 20 is_cut
    nvme disconnect-all
}

is_cut() { ! is_live "$controller"; }

start_tlshd
version_1
version_0
expect_no_io_errors
