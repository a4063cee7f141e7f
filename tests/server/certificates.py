"""Certificates that tests make for themselves."""

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path, names: str = "IP:127.0.0.1,IP:::1") -> tuple[str, str]:
    """Return the paths of a certificate that signs itself and of its key; skip without openssl."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *(program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
        check=True,
    )
    return str(certificate), str(key)
