"""Logs in archives."""

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
