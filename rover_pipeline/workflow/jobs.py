"""Which jobs of a run failed, as Snakemake's log says, and what of that log is not shown.

A step shows its progress, and says in one line what it made or what is wrong. Snakemake would print a dozen lines about
each job around that, and of one that failed the whole command, with all options as JSON. Its own log file,
`.snakemake/log`, has it all.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

#: Name that Snakemake gives to the handler that writes to the terminal.
_TERMINAL = "DefaultStreamHandler"
#: What Snakemake says of a failed command of ours, besides the one line of that command, and of a result that is there
#: before its own job begins, because another job has made it.
_SAID_BETTER = (
    "Exiting because a job execution failed.",
    "WorkflowError:\nAt least one job did not complete successfully.",
    "Removing output files of failed job",
    "Warning: the following output files of rule ",
)
_NOTHING = "Nothing to be done"
#: Events that hold the whole command of a job that failed.
_COMMANDS = ("job_error", "group_error")
_COMMAND_FAILED = "RuleException:\nCalledProcessError in file"
_OURS = "-m rover_pipeline "


class FailedJob(NamedTuple):
    """A job that failed, and was not successful since.

    Attributes:
        rule: its name.
        outputs: paths of them.
        logs: paths of its logs.
        message: what the executor says, such as the state that Slurm gives; may be empty.
    """

    rule: str
    outputs: tuple[str, ...]
    logs: tuple[str, ...]
    message: str


class JobWatch(logging.Filter):
    """Listens to Snakemake's log. Drops nothing of it.

    Attributes:
        failed: jobs that failed, by Snakemake's number of them; without those that a retry made after all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[int, FailedJob] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        event, said = _event(record), vars(record)
        if event == "job_error":
            outputs, logs = (tuple(map(str, said.get(name) or ())) for name in ("output", "log"))
            # A group reports all its jobs, and then each of them. `rule_msg` is the executor's message.
            number, message = said.get("jobid", -1), str(said.get("rule_msg") or "")
            self.failed[number] = FailedJob(str(said.get("rule_name")), outputs, logs, message)
        elif event == "job_finished":
            self.failed.pop(said.get("job_id", -1), None)
        return True


class OneLine(logging.Filter):
    """Keeps from the terminal what Snakemake says around the one line of a step."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = str(record.msg or "")
        if record.levelno < logging.WARNING:
            return text.startswith(_NOTHING)
        if _event(record) in _COMMANDS:
            return False
        if text.startswith(_COMMAND_FAILED):
            return _OURS not in text
        return not text.startswith(_SAID_BETTER)


def watch(logger: logging.Logger, shown: bool) -> JobWatch:
    """Listen to Snakemake's log. `shown`: whether the terminal shows it, as in a dry run or with `--verbose`."""
    watching = JobWatch()
    logger.addFilter(watching)
    for handler in logger.handlers:
        if handler.name == _TERMINAL and not shown:
            handler.addFilter(OneLine())
    return watching


def _event(record: logging.LogRecord) -> str:
    return str(getattr(getattr(record, "event", None), "value", ""))
