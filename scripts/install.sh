#!/usr/bin/env bash
# Makes .venv and installs Lamina with every extra, from pip alone. Usage: scripts/install.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3.11}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=python3  # a machine whose python3 is new enough need not have it under the name python3.11
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Lamina needs Python 3.11 or newer" >&2; exit 2; }
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # Debian ships venv apart from python3
    as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
    as_root apt-get update -qq
    as_root apt-get install -y -qq python3-venv
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv
# Without the constraints an unpinned torch would bring gigabytes of CUDA. (PIP_CONSTRAINT cannot hold a path with spaces.)
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install --quiet --progress-bar off -c constraints.txt -e '.[hub,parquet,documents,studies,plots,contexts,docs,dev]'
