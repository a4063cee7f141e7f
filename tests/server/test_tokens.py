"""The tokens of a log."""

from strandline.log import Log
from strandline.server.tokens import TokenTable, digest_of
from strandline.values import Event
from strandline.values.internal_topics import TOKENS_TOPIC


def test_the_id_of_a_token_says_nothing_of_its_secret(log: Log) -> None:
    made = [TokenTable(log).create(["read"]) for _ in range(3)]

    assert len({token.id for _, token in made}) == 3
    for secret, token in made:
        assert token.id not in secret
        assert token.id not in token.digest


def test_a_token_whose_id_begins_its_secret_is_valid_as_before(log: Log) -> None:
    secret = "slt_" + "0123456789ab" * 5 + "0123"
    stored = {
        "id": secret[4:16],
        "digest": digest_of(secret),
        "scopes": ["read"],
        "topics": ["*"],
        "tenant": None,
        "expires_at_us": None,
    }
    log.append(log.create_topic(TOKENS_TOPIC, internal=True), Event("token.created", stored))
    tokens = TokenTable(log)

    assert [each.id for each in tokens.list()] == ["0123456789ab"]
    assert tokens.find(secret) is not None
    tokens.revoke("0123456789ab")
    assert tokens.list() == []
    assert tokens.find(secret) is None
