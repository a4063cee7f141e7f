"""The compiled fast path, where it is built. See design 0085.

Whatever it does Python does as well, with the same bytes; what is uncommon is left to
Python. `STRANDLINE_CORE=off` in the environment of a process has it do without.
"""

import os
import sysconfig

__all__ = ["CORE", "IS_COMPILED"]

#: What the core has to have been built from.
_INTERFACE = 21


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
"""What `doctor` and `describe` say of it."""
