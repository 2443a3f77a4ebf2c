# CHAP: a login with the secret succeeds, one without it fails, and the target authenticates too.
#
# Parameters (from the host side): SECRET, NODE_SECRET.

# set_chap USER SECRET [NODE_USER NODE_SECRET]: for discovery and for logins to data.
set_chap() {
    set_option data node.session.auth.authmethod CHAP
    set_option data node.session.auth.username "$1"
    set_option data node.session.auth.password "$2"
    set_option data node.session.auth.username_in "${3:-}"
    set_option data node.session.auth.password_in "${4:-}"
}

expect_no_login() {
    ! iscsiadm --mode node --targetname "$(iqn_of data)" --portal "$portal" --login ||
        fail "logged in $1"
    expect_equal "sessions" "$(sessions)" 'session*'
}

expect_login() {
    login data
    verify "$disk" 4k 1M
    logout data
}

one_way() {
    step "CHAP, one way"
    mark one_way
    expect_no_login "without a secret"
    set_chap guest "$SECRET"
    expect_login
    set_chap guest "wrong-$SECRET"
    expect_no_login "with a wrong secret"
    set_chap somebody "$SECRET"
    expect_no_login "as somebody who is not known"
}

mutual() {
    step "CHAP, both ways"
    mark mutual
    set_chap guest "$SECRET" node "$NODE_SECRET"
    expect_login
    set_chap guest "$SECRET" node "wrong-$NODE_SECRET"
    expect_no_login "to a target that cannot prove itself"
}

# iscsiadm reads the secrets for discovery from the configuration only.
discovery() {
    step "CHAP for discovery"
    if [ "${EXACT:-yes}" = yes ]; then
        ! discover || fail "discovered without a secret"
    fi
    cat >>/etc/iscsi/iscsid.conf <<EOF
discovery.sendtargets.auth.authmethod = CHAP
discovery.sendtargets.auth.username = guest
discovery.sendtargets.auth.password = $SECRET
EOF
    [ "${EXACT:-yes}" = no ] || expect_equal "targets" "$(discover | head -n 1)" "$(iqn_of data)"
}

one_way
mutual
discovery
