# Ways for a guest to end badly, which the host side must tell apart.

case $FAULT in
    fail) expect_equal "the answer" 41 42 ;;
    panic) echo c >/proc/sysrq-trigger ;;
    hang) sleep 600 ;;
esac
