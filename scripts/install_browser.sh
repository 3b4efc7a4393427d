#!/usr/bin/env bash
# Install Chromium and fonts for the tests of pages, if no Chromium is on the PATH. Debian and Ubuntu only.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
echo "Installing Chromium for the tests: about 1 minute" >&2
export DEBIAN_FRONTEND=noninteractive
as_root apt-get update -qq
as_root apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 chromium fonts-dejavu-core fonts-noto-color-emoji
