"""How many threads to compute with by default."""

from __future__ import annotations

import os
from pathlib import Path

# More threads than this do not make a Parakeet encoder faster on the machines that were measured.
_MOST = 8


def default_n_threads() -> int:
    """Physical cores that this process may use, at most 8; a container's CPU quota counts."""
    usable = _affinity()
    quota = _cgroup_quota()
    cores = _physical_cores(usable)
    return max(1, min(cores, _MOST, quota if quota is not None else cores))


def usable_n_threads(wanted: int | None) -> int:
    """``wanted`` threads, at least 1 and at most one for each CPU that this process may use; None: default.

    ggml's threads wait for each other by spinning: more of them than CPUs would mostly wait.
    """
    if wanted is None:
        return default_n_threads()
    return max(1, min(wanted, len(_affinity())))


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _physical_cores(usable: set[int]) -> int:
    """Hyper-threads of one core count once; where the system does not say, every CPU counts."""
    cores = set()
    for cpu in usable:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(path.read_text().strip())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


def _cgroup_quota() -> int | None:
    """CPUs of the cgroup's time limit, rounded up, or None without one."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        return None
