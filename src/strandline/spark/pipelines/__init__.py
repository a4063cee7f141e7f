"""A user's own pipelines, as Spark Declarative Pipelines over topics.

Promises: a run processes the records that are new since the last finished run; a killed run can
be repeated without lost or duplicate rows. A full refresh also runs flows into sinks again: their
rows are appended to the topic once more.
"""

from strandline.spark.pipelines.running import PipelineReport, run
from strandline.spark.pipelines.template import init

__all__ = ["PipelineReport", "init", "run"]
