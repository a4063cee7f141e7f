"""What a page leaves open ends with the page."""

import os
import weakref
from typing import Any

from tests.page_folders import enter_folder, leave_folder

PAGE = """
import strandline as sl

log = sl.open("file:./events")
log.create_topic("orders", retention_age_s=60)
log.append("orders", sl.Event("placed", {"id": 1}))
orders = log.subscribe("orders")


def read():
    return next(orders)


read()
"""


def test_a_log_that_a_page_leaves_open_does_not_outlive_the_page() -> None:
    left: dict[str, Any] = {}
    before = os.getcwd()
    enter_folder(left)
    folder = os.getcwd()
    exec(PAGE, left)  # noqa: S102 # As a page is run.
    log = weakref.ref(left["log"])

    leave_folder(left)

    assert log() is None
    assert not os.path.exists(folder)
    assert os.getcwd() == before
