#!/usr/bin/env bash
# Make .venv and install Lamina with every extra, with pip only. Usage: scripts/install.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3.11}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=python3  # it may be new enough on a machine without the name python3.11
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "$python: Lamina needs Python 3.11 or newer. Fix: make install python=PATH" >&2
        exit 2
    }
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # Debian has venv in a separate package
    as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
    as_root apt-get update -qq
    as_root apt-get install -y -qq python3-venv
fi

echo "Installing Lamina into .venv: about 2.3 GB and 2 to 5 minutes" >&2
[ -x .venv/bin/python ] || "$python" -m venv .venv
# Without the constraints, pip would install an unpinned torch with gigabytes of CUDA.
# The variable PIP_CONSTRAINT does not work for a path with spaces.
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install --quiet --progress-bar off -c constraints.txt -e '.[hub,parquet,documents,studies,plots,contexts,serve,reports,ray,dask,tracking,train,docs,dev]'
scripts/install_browser.sh
