"""Transactions and statistics: the same as the command's JSON."""

import json

import pytest

import bintide

LOGS = ["types-compressed.binlog", "gtids", "mariadb.binlog", "xa.binlog", "statements.binlog"]


@pytest.mark.parametrize("log", LOGS)
def test_transactions_are_those_of_dump(samples, command, log):
    path = samples / log
    logs = [path] if path.is_file() else sorted(path.glob("*.0*"))
    lines = command("dump", "--transactions", "--json", *logs).splitlines()
    assert list(bintide.transactions(path)) == [json.loads(line) for line in lines] and len(lines) > 5


@pytest.mark.parametrize("log", LOGS)
def test_stats_are_those_of_the_command(samples, command, log):
    expected = json.loads(command("stats", "--json", "--by", "hour,table", samples / log))
    assert expected.pop("version") == 1
    assert bintide.stats(samples / log, by=["hour", "table"]) == expected


def test_selections(samples):
    log = samples / "types-compressed.binlog"
    chosen = [each for each in bintide.transactions(log) if each["rows"]][3]
    assert list(bintide.transactions(log, gtid=chosen["gtid"])) == [chosen]
    table = chosen["tables"][0]
    name = f"{table['database']}.{table['table']}"
    assert chosen in list(bintide.transactions(log, tables=name))
    report = bintide.stats(log, gtid=chosen["gtid"], tables=[name], top=1)
    assert report["totals"]["transactions"] == 1 and len(report["largest"]) == 1
    with pytest.raises(ValueError, match="by must be"):
        bintide.stats(log, by="day")
    with pytest.raises(ValueError, match="top must be 0 or more"):
        bintide.stats(log, top=-1)


def test_errors(samples, tmp_path):
    damaged = tmp_path / "damaged.binlog"
    bytes_ = bytearray((samples / "types.binlog").read_bytes())
    bytes_[len(bytes_) // 2] ^= 0xFF
    damaged.write_bytes(bytes_)
    for read in (lambda log: list(bintide.transactions(log)), bintide.stats):
        with pytest.raises(bintide.LogError, match="could not open nowhere"):
            read("nowhere")
    listed = bintide.transactions(damaged)
    with pytest.raises(bintide.LogError, match="damaged.binlog at [0-9]+: .*checksum"):
        list(listed)


def test_transactions_before_an_error_are_returned(samples, tmp_path):
    log = samples / "types.binlog"
    cut = tmp_path / "cut.binlog"
    cut.write_bytes(log.read_bytes()[:-100])
    every, found = list(bintide.transactions(log)), []
    with pytest.raises(bintide.LogError, match="cut.binlog is torn"):
        for each in bintide.transactions(cut):
            found.append(each["gtid"])
    assert len(found) > 5 and found == [each["gtid"] for each in every][: len(found)]


def test_the_end_of_a_log_in_use_is_a_warning(samples):
    with pytest.warns(UserWarning, match="torn.binlog is torn"):
        assert list(bintide.transactions(samples / "torn.binlog"))
