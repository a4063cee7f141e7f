"""Where a run took place."""

from pathlib import Path

from benchmarks.machine import file_system

MOUNTS = """\
overlay / overlay rw 0 0
/dev/vda {0} ext4 rw 0 0
tmpfs {0}/deep tmpfs rw 0 0
/dev/vdb {0}/deep xfs rw 0 0
/dev/vdc {0}/dee btrfs rw 0 0
"""


def test_the_deepest_and_latest_mount_holds_the_folder(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.format(tmp_path))

    assert file_system(tmp_path / "deep" / "er", mounts) == "xfs"
    assert file_system(tmp_path / "other", mounts) == "ext4"
    assert file_system(tmp_path.parent, mounts) == "overlay"


def test_without_a_list_of_mounts_it_is_unknown(tmp_path: Path) -> None:
    assert file_system(tmp_path, tmp_path / "missing") == "unknown"
