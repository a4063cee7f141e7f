"""What events are written to and read from: ours, and what a careful user might take instead.

Each peer is used as a log: an event goes in under the next number and stays.
`written` survives the death of the process, `durable` has seen an fdatasync
before it is acknowledged. The settings that make it so stand with each peer.
"""
