"""How to get a part of Strandline that is not installed: it is on no package index."""


def install_command(extra: str) -> str:
    """Return what installs an extra, from a checkout."""
    return f"pip install 'path/to/strandline[{extra}]'"


def missing(library: str, extra: str) -> str:
    """Return what an error says when a library of an extra is missing."""
    return (
        f"{library} is missing, install Strandline from its checkout with the extra {extra}: "
        f"{install_command(extra)}"
    )
