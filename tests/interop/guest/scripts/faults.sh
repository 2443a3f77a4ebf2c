# Failures of a guest, which the host side must distinguish.

case $FAULT in
    fail) expect_equal "the answer" 41 42 ;;
    panic) echo c >/proc/sysrq-trigger ;;
    hang) sleep 600 ;;
esac
