#!/bin/sh
# `nvme gen-dhchap-key --secret SECRET --hmac 1` prints a key that does not contain the secret.
#
# Versions: nvme-cli 2.3 with libnvme 1.3 (Debian 12).
# Surprise: the text form of a key, DHHC-1:HH:BASE64:, carries the secret itself, with the hash by which both ends
#   transform it before its use. With --hmac 0, the command encodes the secret as given. With a hash, it encodes
#   the secret after a transformation with the host's name, so a secret that another system has generated cannot
#   be written with this command, and the same secret gives another key for each host.
# nearflash: `nearflash host add` makes the key in its text form, to be copied to the host as it is.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet=2 --option APT::Sandbox::User=root nvme-cli=2.4+really2.3-3 libnvme1=1.3-1+deb12u1
for package in ./*.deb; do dpkg-deb --extract "$package" .; done
nvme() { LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu usr/sbin/nvme "$@"; }

nvme version
secret=$(printf '5a%.0s' $(seq 32))
host=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001
# The first 32 bytes of the text are the key, and the last 4 its CRC-32.
bytes_of() { printf '%s' "$1" | cut -d : -f 3 | base64 -d | head -c 32 | od -An -v -tx1 | tr -d ' \n'; }
plain=$(nvme gen-dhchap-key --secret="$secret" --hmac=0 --nqn="$host")
hashed=$(nvme gen-dhchap-key --secret="$secret" --hmac=1 --nqn="$host")
echo "--hmac=0: $plain"
echo "--hmac=1: $hashed"
[ "$(bytes_of "$plain")" = "$secret" ] || { echo "changed: --hmac=0 does not encode the secret"; exit 1; }
if [ "$(bytes_of "$hashed")" = "$secret" ]; then
  echo "changed: --hmac=1 encodes the secret"
  exit 1
fi
echo "as described: with a hash, the key does not contain the secret"
