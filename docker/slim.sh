#!/bin/sh
# Takes away what a broker never runs, most of all the package manager: a third of the base. Every package stays listed in
# /var/lib/dpkg/status, for those who look for known holes.
set -e
packages='adduser apt debconf debian-archive-keyring dpkg e2fsprogs gpgv init-system-helpers libapt-pkg6.0 libext2fs2
  libgnutls30 libhogweed6 libidn2-0 libnettle8 libp11-kit0 libss2 libtasn1-6 libunistring2 libxxhash0 logsave
  mount perl-base sysvinit-utils usr-is-merged util-linux-extra'
for package in $packages; do
  dpkg -L "$package" | while read -r file; do
    if [ -f "$file" ]; then echo "$file"; fi
  done
done >/tmp/files
xargs rm -f </tmp/files
rm -rf /tmp/files /usr/lib/*/gconv /usr/lib/*/perl-base /usr/share/perl5 /usr/share/debconf /usr/share/lintian \
  /var/cache/* /var/lib/apt /var/lib/dpkg/info /var/log/*
cd /usr/lib/python3.*
rm -rf ensurepip idlelib lib2to3 pydoc_data sqlite3 test tkinter turtledemo unittest distutils
for file in $(find /usr /opt -type f -perm /111) $(find /usr -name '*.so*' -type f); do
  if ldd "$file" 2>/dev/null | grep 'not found' >&2; then echo "slim.sh took away what $file needs" >&2; exit 1; fi
done
