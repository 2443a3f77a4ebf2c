#!/bin/sh
# An etcd whose database is full refuses every write, and `etcdctl endpoint health` calls it healthy.
#
# Versions: etcd and etcdctl 3.4.23 (Debian 12).
# Surprise: the command says that it "successfully committed proposal", and ends with status 0. The same server
#   answers {"health":"false"} on its HTTP path /health, and `etcdctl alarm list` names the alarm. A check that
#   relies on the command misses the state in which a cluster can change nothing.
# nearflash: looks at the alarms of every member (`nearflash cluster status`), not at this command.
set -eu
folder=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid"; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet=2 --option APT::Sandbox::User=root etcd-server=3.4.23-4+b4 etcd-client=3.4.23-4+b4
for package in ./*.deb; do dpkg-deb --extract "$package" .; done

client=http://127.94.1.1:2379
peer=http://127.94.1.1:2380
usr/bin/etcd --data-dir data --quota-backend-bytes 2000000 \
  --listen-client-urls $client --advertise-client-urls $client \
  --listen-peer-urls $peer --initial-advertise-peer-urls $peer --initial-cluster default=$peer >log 2>&1 &
pid=$!
ctl() { ETCDCTL_API=3 usr/bin/etcdctl --endpoints $client "$@" 2>&1; }
tries=0
until ctl get none >/dev/null; do
  tries=$((tries + 1))
  [ $tries -lt 50 ] || { cat log; exit 1; }
  sleep 0.2
done

ctl version | head -n 1
head -c 200000 /dev/zero | tr '\0' x >value
number=0
while ctl put "key$number" <value >said; do
  number=$((number + 1))
  [ $number -lt 100 ] || { echo "changed: the quota does not hold"; exit 1; }
done
tail -n 1 said
ctl alarm list | tee alarms
status=0
ctl endpoint health | tee health || status=$?
curl --silent $client/health | tee path
echo
grep -q 'database space exceeded' said
grep -q NOSPACE alarms
grep -q '"health":"false"' path
if [ $status -ne 0 ] || ! grep -q 'is healthy' health; then
  echo "changed: etcdctl endpoint health no longer calls it healthy"
  exit 1
fi
echo "as described: full, and called healthy"
