"""Waiting: other threads of Python run, and Ctrl-C works."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import bintide

SCRIPT = """
import sys
import bintide, pyarrow
print("ready", flush=True)
try:
    READ
except BaseException as error:
    print(type(error).__name__, error, flush=True)
"""

READS = {
    "changes": "list(bintide.changes(sys.argv[1]))",
    "transactions": "list(bintide.transactions(sys.argv[1]))",
    "stats": "bintide.stats(sys.argv[1])",
    "schema": "pyarrow.schema(bintide.changes(sys.argv[1]))",
}


class EndlessLog:
    """A pipe with the start of a log."""

    def __init__(self, path: Path, start: bytes):
        self.path, self.end_of_pipe = path, None
        os.mkfifo(path)
        threading.Thread(target=self.write, args=(start,), daemon=True).start()

    def write(self, start: bytes):
        # Waits for a reader.
        self.end_of_pipe = os.open(self.path, os.O_WRONLY)
        os.write(self.end_of_pipe, start)

    def end(self):
        if self.end_of_pipe is not None:
            os.close(self.end_of_pipe)
            self.end_of_pipe = None


@pytest.fixture
def endless(types, tmp_path):
    log = EndlessLog(tmp_path / "endless.000001", types.read_bytes()[:500])
    yield log
    log.end()


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_ctrl_c_ends_a_wait(endless, read):
    script = SCRIPT.replace("READ", read)
    process = subprocess.Popen([sys.executable, "-c", script, endless.path], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    assert process.poll() is None, "the pipe has ended"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=5)
    assert output == "KeyboardInterrupt \n"


def test_other_threads_run_meanwhile(endless):
    changes = bintide.changes(endless.path)
    ended = []

    def wait():
        with pytest.raises(bintide.LogError, match="torn"):
            next(changes)
        ended.append(True)

    waiting = threading.Thread(target=wait)
    waiting.start()
    started, turns = time.monotonic(), 0
    while time.monotonic() - started < 0.3:
        turns += 1
    assert waiting.is_alive() and turns > 10_000
    endless.end()
    waiting.join(timeout=5)
    assert ended


def test_a_dropped_iterator_stops_its_thread(samples):
    log = samples / "large.binlog"
    readers = [bintide.changes([log] * 50, columns="numbered"), bintide.transactions([log] * 500)]
    for reader in readers:
        next(reader)
    assert working_threads() >= 2
    del reader, readers
    deadline = time.monotonic() + 5
    while working_threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert working_threads() == 0


def working_threads() -> int:
    """Returns the number of threads that read logs."""
    return sum(task.read_text() == "bintide\n" for task in Path("/proc/self/task").glob("*/comm"))
