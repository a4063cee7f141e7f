"""Certificates for tests, made by openssl for the address of this machine."""

import shutil
import subprocess
from pathlib import Path


def why_no_certificates() -> str | None:
    """Return why none can be made here; None if they can."""
    return None if shutil.which("openssl") else "openssl is not installed"


class Authority:
    """Signs certificates, whose files are in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self.certificate = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        _run(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def sign(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate for 127.0.0.1, and of its key."""
        key, request, signed = (self._folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        _run(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
        )
        extensions = self._folder / "san.txt"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        _run(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate)),
            *("-CAkey", str(self._key), "-CAcreateserial", "-days", "2"),
            *("-extfile", str(extensions), "-out", str(signed)),
        )
        return signed, key


def _run(*arguments: str) -> None:
    program = shutil.which("openssl")
    assert program is not None
    subprocess.run([program, *arguments], check=True, capture_output=True)
