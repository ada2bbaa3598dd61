"""Logs for the tests: the samples of the repository."""

import os
import subprocess
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def types(samples) -> Path:
    """A log with changes of every column type, and with column names."""
    return samples / "types-full-metadata.binlog"


@pytest.fixture
def command():
    """Runs the command, and returns its output."""
    program = os.environ["BINTIDE_BIN"]

    def run(*arguments) -> str:
        return subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, text=True).stdout

    return run
