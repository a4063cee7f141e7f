"""A user's own pipelines, as Spark Declarative Pipelines over topics.

Promises: a run takes up what is new since the last one that finished; one that was killed
is run again without loss or repetition. Does not promise that a full refresh leaves sinks
alone: what flows into a topic flows there once more.
"""

from strandline.spark.pipelines.running import PipelineReport, run
from strandline.spark.pipelines.template import init

__all__ = ["PipelineReport", "init", "run"]
