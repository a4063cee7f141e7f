"""Which member should hold which partition: fair, and with as few moves as possible. Pure."""

from collections.abc import Collection, Mapping


def fair_shares(held: Mapping[str, int], partitions: int) -> dict[str, int]:
    """Return how many partitions each member should hold; those with most keep one more."""
    if not held:
        return {}
    share, more = divmod(partitions, len(held))
    by_most = sorted(held, key=lambda member: (-held[member], member))
    return {member: share + (place < more) for place, member in enumerate(by_most)}


def targets(members: Collection[str], holders: Mapping[int, str | None]) -> Mapping[int, str]:
    """Return who should hold each partition, from who holds it now.

    The same for every process that sees the same group, so that none has to lead. A member
    keeps what it holds, the lowest first, up to its share; only what is above that, or is
    held by no member, moves. So a member that joins or leaves moves its share at most.
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
