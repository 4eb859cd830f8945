"""What ansible-playbook does, as JSON lines on standard output: cvc reads them as they come.

Used by cvc alone (ANSIBLE_STDOUT_CALLBACK=cvc_events); by hand, the usual output is better to read.
"""
import json
import sys
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: cvc_events
    type: stdout
    short_description: one JSON object for each event
    description: plays, tasks, the result of each on each host, and the counts of all at the end
    requirements: []
"""

# number of characters kept of each text, from its end
MOST = 4000


def part(result, name):
    """An attribute of a result: public since ansible-core 2.19, with an underscore before."""
    return getattr(result, name) if hasattr(result, name) else getattr(result, "_" + name)


def text(value):
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)


def may_be_rescued(task):
    """Whether a failure of this task is caught by a block around it."""
    above = getattr(task, "_parent", None)
    while above is not None:
        if getattr(above, "rescue", None):
            return True
        above = getattr(above, "_parent", None)
    return False


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "cvc_events"

    def say(self, event, **values):
        line = json.dumps(dict(event=event, time_s=round(time.time(), 3), **values), default=str)
        try:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        except OSError:
            # a reader that has gone does not stop the installation
            pass

    def result(self, event, result, **values):
        data, task = part(result, "result"), part(result, "task")
        # of a loop, the first item that went wrong
        wrong = [r for r in data.get("results") or [] if isinstance(r, dict) and (r.get("failed") or r.get("unreachable"))]
        most = wrong[0] if wrong else data
        for name, facts in (data.get("ansible_facts") or {}).items():
            if name.endswith("_installed") and isinstance(facts, dict):
                values.setdefault("installed", {}).update(facts)
        if event in ("failed", "unreachable"):
            values["stderr"] = text(most.get("stderr") or most.get("module_stderr"))[-MOST:]
            values["stdout"] = text(most.get("stdout") or most.get("module_stdout"))[-MOST:]
            values["rc"] = most.get("rc") if isinstance(most.get("rc"), int) else None
        self.say(
            event,
            host=part(result, "host").get_name(),
            task=task.get_name(),
            at=str(task.get_path() or ""),
            changed=bool(data.get("changed")),
            msg=text(most.get("msg"))[-MOST:],
            **values,
        )

    def v2_playbook_on_play_start(self, play):
        self.say("play", name=play.get_name())

    def v2_playbook_on_task_start(self, task, is_conditional):
        self.say("task", task=task.get_name(), at=str(task.get_path() or ""))

    def v2_playbook_on_handler_task_start(self, task):
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host, task):
        self.say("started", host=host.get_name(), task=task.get_name())

    def v2_runner_on_ok(self, result):
        self.result("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.result("failed", result, ignored=bool(ignore_errors), may_be_rescued=may_be_rescued(part(result, "task")))

    def v2_runner_on_skipped(self, result):
        self.result("skipped", result)

    def v2_runner_on_unreachable(self, result):
        self.result("unreachable", result)

    def v2_playbook_on_stats(self, stats):
        self.say("stats", hosts={host: stats.summarize(host) for host in stats.processed})
