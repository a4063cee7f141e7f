"""The compiled fast path, where it is built. See design 0085.

Everything that it does Python does as well, with the same bytes; uncommon cases are left to
Python. `STRANDLINE_CORE=off` in the environment turns it off.
"""

import os
import sysconfig

__all__ = ["CORE", "IS_COMPILED"]

#: The version of the interface that a built core must have.
_INTERFACE = 23


def _reason_against() -> str | None:
    """Return why the core is not used; None if it is."""
    if os.environ.get("STRANDLINE_CORE") == "off":
        return "STRANDLINE_CORE=off"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "free-threaded Python"
    try:
        from strandline._core import core  # noqa: PLC0415 Only where it may be used.
    except ImportError:
        return "not built"
    return None if core.INTERFACE == _INTERFACE else "built from other sources, build it again"


_REASON = _reason_against()
IS_COMPILED = _REASON is None
"""Whether this process uses the compiled core."""
CORE = "compiled" if _REASON is None else f"plain Python ({_REASON})"
"""Whether the core is used and why not, as `doctor` and `describe` show it."""
