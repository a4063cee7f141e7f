"""Each thread has its own active log."""

from concurrent.futures import ThreadPoolExecutor

import strandline
from strandline.log import Log


def test_threads_do_not_share_the_active_log() -> None:
    def install() -> tuple[Log, Log]:
        installed = strandline.install("memory:")
        seen = strandline.active()
        strandline.reset()
        return installed, seen

    mine = strandline.install("memory:")
    with ThreadPoolExecutor(1) as pool:
        theirs, seen = pool.submit(install).result(10)

    assert theirs is seen is not mine
    assert strandline.active() is mine
    strandline.reset()
