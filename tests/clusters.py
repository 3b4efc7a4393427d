"""A Ray cluster on this machine, for tests. Only its own processes are started and ended."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

MEMORY = 100 * 2**20  # bytes of the object store of a node
PORTS = ("metrics_agent_port", "dashboard_agent_listen_port", "runtime_env_agent_port", "metrics_export_port")
QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # without it, Ray warns of a change to come
    "RAY_USAGE_STATS_ENABLED": "0",
}

Started = TypeVar("Started")


class LocalCluster:
    """The nodes of a cluster, and the module `ray`, which is connected to it."""

    def __init__(self, ray: Any, nodes: Any) -> None:
        self.ray, self._nodes = ray, nodes
        self.address = str(nodes.address)

    def add(self, processors: int = 1) -> Any:
        """Start another node and return it."""
        return _begun(lambda: _add(self._nodes, processors))

    def kill(self, node: Any) -> None:
        """Kill the processes of a node."""
        self._nodes.remove_node(node, allow_graceful=False)


@contextmanager
def cluster(processors: int = 2) -> Iterator[LocalCluster]:
    """Start a cluster of one node and connect this process to it."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with patch.dict(os.environ, QUIET), ExitStack() as stack:
        yield _begun(lambda: _connected(ray, Cluster, processors, stack))


def _connected(ray: Any, make: Callable[[], Any], processors: int, stack: ExitStack) -> LocalCluster:
    """Return a cluster of one node that this process is connected to; `stack` ends it."""
    with ExitStack() as own:  # it ends what has begun if something fails
        nodes = make()
        own.callback(nodes.shutdown)
        own.callback(ray.shutdown)
        _add(nodes, processors, include_dashboard=False)
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        stack.push(own.pop_all())
    return LocalCluster(ray, nodes)


def _begun(start: Callable[[], Started]) -> Started:
    """Return what the function starts. Skip the test if Ray, which waits a fixed time, does not start on a busy machine."""
    reasons = []
    for _ in range(3):
        try:
            return start()
        except Exception as error:  # Ray raises this type
            reasons.append(" ".join(str(error).split())[:200])
    pytest.skip(f"Ray did not start three times: {reasons[-1]}")


def _add(nodes: Any, processors: int, **more: object) -> Any:
    with ExitStack() as stack:  # ports that are chosen here need not be waited for
        free = {name: _free_port(stack) for name in PORTS}
    return nodes.add_node(num_cpus=processors, object_store_memory=MEMORY, **free, **more)


def _free_port(stack: ExitStack) -> int:
    found = stack.enter_context(socket.socket())
    found.bind(("127.0.0.1", 0))
    return int(found.getsockname()[1])
