"""Adds the compiled core to a wheel, if there is a compiler; used by the build of wheels.

Without one, or with `STRANDLINE_CORE=off`, the wheel is for any machine, and plain Python.
"""

import importlib.util
import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CoreHook(BuildHookInterface[Any]):
    """Builds the core into the wheel, and names the wheel for it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library to what is packed; an editable install has it in its place."""
        if version == "editable" or os.environ.get("STRANDLINE_CORE") == "off":
            return
        place = os.path.join(self.root, "tools", "build_core.py")
        spec = importlib.util.spec_from_file_location("build_core", place)
        assert spec is not None
        assert spec.loader is not None
        build_core = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build_core)
        compiler = build_core.find_compiler()
        if compiler is None:
            self.app.display_warning("no C compiler: this wheel is plain Python")
            return
        try:
            build_core.build(compiler, build_core.LIBRARY)
        except build_core.BuildError as error:
            self.app.display_warning(f"the core does not compile: plain Python\n{error}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append("src/strandline/_core/core.abi3.so")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
