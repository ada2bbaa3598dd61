"""Logs in archives."""

import multiprocessing

import pytest

import bintide


@pytest.fixture
def archive(samples, command, tmp_path):
    directory = tmp_path / "archive"
    command("archive", samples / "rotation", "--to", directory)
    return directory


def test_an_archive_is_read_like_its_logs(archive, samples):
    archived = sorted(path.name.removesuffix(".json") for path in (archive / "manifests").iterdir())
    logs = [samples / "rotation" / name for name in archived]
    assert len(logs) > 1
    assert list(bintide.changes(archive, columns="numbered")) == list(bintide.changes(logs, columns="numbered"))
    assert list(bintide.transactions(archive)) == list(bintide.transactions(logs))
    assert bintide.stats(archive)["totals"] == bintide.stats(logs)["totals"]


def test_segments_without_selected_transactions_are_not_read(archive):
    chosen = list(bintide.transactions(archive))[-1]
    for segment in sorted((archive / "segments").iterdir()):
        if chosen["log_name"] not in segment.name:
            segment.unlink()
    assert list(bintide.transactions(archive, gtid=chosen["gtid"])) == [chosen]
    assert bintide.stats(archive, gtid=chosen["gtid"])["totals"]["transactions"] == 1
    list(bintide.changes(archive, gtid=chosen["gtid"], columns="numbered"))
    with pytest.raises(bintide.LogError):
        list(bintide.transactions(archive))


def test_logs_that_are_archived_later_are_read(archive, samples, command):
    before = bintide.stats(archive)["totals"]["transactions"]
    command("archive", samples / "types.binlog", "--to", archive)
    assert bintide.stats(archive)["totals"]["transactions"] > before


def test_archives_are_read_after_a_fork(archive):
    expected = bintide.stats(archive)["totals"]["transactions"]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply_async(transactions_of, (archive,)).get(timeout=60)
    assert found == expected


def transactions_of(archive):
    return bintide.stats(archive)["totals"]["transactions"]
