#!/bin/sh
# Puts Debian's prometheus and promtool into a folder without installing anything.
#
#   tests/tools/prometheus.sh FOLDER
#
# Exit status 3: there is no apt-get and dpkg here, or the package can't be fetched.
set -eu
folder=$1
programs=usr/bin
if [ -x "$folder/$programs/prometheus" ] && [ -x "$folder/$programs/promtool" ]; then
    exit 0
fi
for tool in apt-get dpkg; do
    command -v "$tool" >/dev/null 2>&1 || { echo "$tool is missing: this is no Debian" >&2; exit 3; }
done
mkdir -p "$folder/download"
cd "$folder/download"
# Without a list of packages, or with an old one, the first try fails.
apt-get download prometheus >/dev/null 2>&1 ||
    { apt-get update >/dev/null && apt-get download prometheus >/dev/null; } ||
    { echo "the package prometheus can't be fetched" >&2; exit 3; }
dpkg -x prometheus_*.deb ..
rm -r ../download
