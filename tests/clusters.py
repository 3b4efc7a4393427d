"""A Ray cluster on this machine, for tests. Only its own processes are started and ended."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

MEMORY = 100 * 2**20  # bytes of the object store of a node
PORTS = ("metrics_agent_port", "dashboard_agent_listen_port", "runtime_env_agent_port", "metrics_export_port")
QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # without it, Ray warns of a change to come
    "RAY_USAGE_STATS_ENABLED": "0",
}


class LocalCluster:
    """The nodes of a cluster, and the module `ray`, which is connected to it."""

    def __init__(self, ray: Any, nodes: Any) -> None:
        self.ray, self._nodes = ray, nodes
        self.address = str(nodes.address)

    def add(self, processors: int = 1) -> Any:
        """Start another node and return it."""
        return _started(self._nodes, processors)

    def kill(self, node: Any) -> None:
        """Kill the processes of a node."""
        self._nodes.remove_node(node, allow_graceful=False)


@contextmanager
def cluster(processors: int = 2) -> Iterator[LocalCluster]:
    """Start a cluster of one node and connect this process to it."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, QUIET))
        nodes = Cluster()
        stack.callback(nodes.shutdown)
        _started(nodes, processors, include_dashboard=False)
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        stack.callback(ray.shutdown)
        yield LocalCluster(ray, nodes)


def _started(nodes: Any, processors: int, **more: object) -> Any:
    for last in (False, False, True):  # Ray waits a fixed time, in which a busy machine may not have started the node
        with ExitStack() as stack:  # ports that are chosen here need not be waited for
            free = {name: _free_port(stack) for name in PORTS}
        try:
            return nodes.add_node(num_cpus=processors, object_store_memory=MEMORY, **free, **more)
        except Exception:  # Ray raises this type
            if last:
                raise
    raise AssertionError


def _free_port(stack: ExitStack) -> int:
    found = stack.enter_context(socket.socket())
    found.bind(("127.0.0.1", 0))
    return int(found.getsockname()[1])
