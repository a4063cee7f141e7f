"""The sink of `format("strandline")`: rows become records, exactly once.

Promises: the rows of a batch are in the log once for each (query, batch), or for each
(txnAppId, txnVersion), whichever process is killed; a batch whose rows have changed raises.
Does not promise that a reader sees a batch as a whole: its partitions are filled one by one.
Nothing here but `writers` and `batch_identity` imports pyspark.
"""
