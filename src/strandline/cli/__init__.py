"""The program `strandline`: a log from the command line.

Promises: `--json` on every command, in a form that stays; exit codes that stay; nothing on
standard output but the answer; payloads that cannot write control characters to a terminal.

Does not decide anything: each command reads its arguments, calls one room, shows the answer.
"""

__all__ = ["main"]


def main() -> None:
    """Run the program; exits with its code."""
    # Here, so that a missing extra can be told in words.
    from strandline.cli.running import run  # noqa: PLC0415

    run()
