"""Type stubs: they agree with the module, and type checkers accept them."""

import subprocess
import sys
from pathlib import Path


def run(*arguments) -> str:
    finished = subprocess.run([sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_stubs_agree_with_the_module(tmp_path):
    # The native module, whose items the package has.
    allowed = tmp_path / "allowed"
    allowed.write_text("bintide.bintide\n")
    run("mypy.stubtest", "--allowlist", allowed, "bintide")


def test_a_typed_program_passes(tmp_path):
    program = Path(__file__).with_name("typed.py")
    run("mypy", "--strict", "--cache-dir", tmp_path, program)
