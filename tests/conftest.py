"""Lines that tests want read even when they pass, such as error rates, at the end of pytest's output."""

from __future__ import annotations

from collections.abc import Callable

import pytest

LINES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[LINES]:
        terminalreporter.section("measured")
        for line in config.stash[LINES]:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def report_line(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """A function that adds a line to the section "measured" of the terminal summary."""
    return pytestconfig.stash[LINES].append
