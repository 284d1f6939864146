#!/bin/sh
# Takes away what a broker never runs, most of all the package manager: a third of the base. Every package stays listed in
# /var/lib/dpkg/status, for those who look for known holes.
set -e
packages='adduser apt debconf debian-archive-keyring dpkg e2fsprogs gpgv init-system-helpers libapt-pkg7.0 libext2fs2t64
  libgnutls30t64 libhogweed6t64 libidn2-0 libnettle8t64 libp11-kit0 libsqlite3-0 libss2 libtasn1-6 libunistring5 logsave
  mount perl-base sqv sysvinit-utils usr-is-merged util-linux-extra'
for package in $packages; do
  dpkg -L "$package" 2>/dev/null | while read -r file; do
    if [ -f "$file" ]; then echo "$file"; fi
  done
done >/tmp/files
xargs rm -f </tmp/files
rm -rf /tmp/files /usr/include /usr/local/include /usr/lib/linux /usr/lib/*/*.a /usr/lib/*/gconv /usr/lib/*/perl-base /usr/share/perl5 \
  /usr/share/debconf /usr/share/lintian /var/cache/* /var/lib/apt /var/lib/dpkg/info /var/log/*
cd "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
rm -rf ensurepip idlelib pydoc_data sqlite3 test tkinter turtledemo unittest config-* lib-dynload/_tkinter* lib-dynload/_sqlite3* lib-dynload/*test*
for file in $(find /usr /opt -type f -perm /111) $(find /usr -name '*.so*' -type f); do
  if ldd "$file" 2>/dev/null | grep 'not found' >&2; then echo "slim.sh took away what $file needs" >&2; exit 1; fi
done
