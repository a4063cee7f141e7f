"""Decides which member holds which partition: fairly, with as few moves as possible; no I/O."""

from collections.abc import Collection, Mapping


def fair_shares(held: Mapping[str, int], partitions: int) -> dict[str, int]:
    """Return how many partitions each member should hold; those with most keep one more."""
    if not held:
        return {}
    share, more = divmod(partitions, len(held))
    by_most = sorted(held, key=lambda member: (-held[member], member))
    return {member: share + (place < more) for place, member in enumerate(by_most)}


def targets(members: Collection[str], holders: Mapping[int, str | None]) -> Mapping[int, str]:
    """Return the member for each partition, given the current holders.

    The result is the same in every process that sees the same group, so no leader is needed. A
    member keeps what it holds, lowest partitions first, up to its share; only partitions above
    that, or without a holder, move. So a member that joins or leaves moves at most its share.
    """
    owned: dict[str, list[int]] = {member: [] for member in members}
    for partition in sorted(holders):
        holder = holders[partition]
        if holder in owned:
            owned[holder].append(partition)
    shares = fair_shares({member: len(each) for member, each in owned.items()}, len(holders))
    found = {
        partition: member for member, each in owned.items() for partition in each[: shares[member]]
    }
    open_places = (
        member
        for member in sorted(shares, key=lambda each: (len(owned[each]) - shares[each], each))
        for _ in range(shares[member] - len(owned[member]))
    )
    moving = (partition for partition in sorted(holders) if partition not in found)
    found.update(zip(moving, open_places, strict=False))
    return found
