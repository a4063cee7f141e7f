"""Commands about the tokens of a server."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from strandline.cli.command import command, new_app
from strandline.cli.options import Json, Url, existing, opened, parse_age
from strandline.cli.screen import note, show, show_json, show_table
from strandline.values import Mode
from strandline.values.extras import needing_module
from strandline.values.json_forms import moment

if TYPE_CHECKING:
    from strandline.log import Log
    from strandline.server.tokens import Token, TokenTable

_FIELDS = "{id, scopes, topics, tenant, created_at, expires_at}"

app: Final = new_app("Make, list and revoke tokens, which say what callers of a served log may do.")


@command(
    "create",
    examples="""$ strandline token create --scope read,append --topic 'orders*' --expires 30d
        $ strandline token create --scope read --tenant acme --json""",
    answers=f"{_FIELDS[:-1]}, token}}: `token` is shown this once.",
)
def create_token(
    *,
    url: Url = None,
    scope: Annotated[
        str,
        typer.Option(
            metavar="SCOPES", help="Of read, append, consume, admin, metrics; with commas."
        ),
    ] = "read",
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="For these topics, * is any text. May be repeated."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="For topics of this tenant alone.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="AGE", help="After this, such as 30d; else never.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a token, and show it. The log keeps only its digest."""
    expires_s = None if expires is None else parse_age(expires)
    scopes = [each.strip() for each in scope.split(",")]
    with existing(url, Mode.WRITE) as log:
        secret, token = _table(log).create(
            scopes, topics=topic or ["*"], tenant=tenant, expires_s=expires_s
        )
    if json:
        show_json({**_token_json(token), "token": secret})
        return
    show(secret)
    note(f"Token {token.id} is shown this once. Use it as: export STRANDLINE_TOKEN=…")


@command(
    "list",
    examples="""$ strandline token list
        $ strandline token list --json""",
    answers=f"{{tokens: [{_FIELDS}, …]}}.",
)
def list_tokens(*, url: Url = None, json: Json = False) -> None:
    """List the tokens that are not revoked; expired ones among them."""
    with opened(url, Mode.READ) as log:
        found = [_token_json(each) for each in _table(log).list()]
    if json:
        show_json({"tokens": found})
        return
    show_table(
        ("id", "scopes", "topics", "tenant", "created at", "expires at"),
        [
            tuple(",".join(each) if isinstance(each, list) else each for each in one.values())
            for one in found
        ],
    )


@command(
    "revoke",
    examples="$ strandline token revoke 0123456789ab || true",
    answers=f"{_FIELDS}.",
)
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID", help="As `token list` shows it.")],
    *,
    url: Url = None,
    json: Json = False,
) -> None:
    """Revoke a token: the next request with it is refused."""
    with existing(url, Mode.WRITE) as log:
        revoked = _table(log).revoke(token)
    if json:
        show_json(_token_json(revoked))
    else:
        show(f"{revoked.id}: revoked")


def _table(log: "Log") -> "TokenTable":
    with needing_module("what tokens need", "server"):
        from strandline.server.tokens import TokenTable  # noqa: PLC0415 An extra.
    return TokenTable(log)


def _token_json(token: "Token") -> dict[str, object]:
    return {
        "id": token.id,
        "scopes": sorted(token.scopes),
        "topics": list(token.topics),
        "tenant": token.tenant,
        "created_at": moment(token.created_at_us),
        "expires_at": moment(token.expires_at_us),
    }


for _each in (create_token, list_tokens, revoke_token):
    _each.add_to(app)
