"""What ansible-playbook does, as JSON lines on standard output: cvc reads them as they come.

Used by cvc alone (ANSIBLE_STDOUT_CALLBACK=cvc_events); by hand, the usual output is better to read.
"""
import json
import os
import signal
import sys
import threading
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: cvc_events
    type: stdout
    short_description: one JSON object for each event
    description: plays, tasks, the result of each on each host, and the counts of all at the end
    requirements: []
"""

# seconds between TERM and KILL
GRACE_S = 3

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


def signal_all(mark, number):
    """Sends a signal to every process with this mark in its environment but this one: workers have sessions of their own."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as environ:
                    if mark in environ.read().split(b"\0"):
                        os.kill(int(entry), number)
            except OSError:
                # it has ended, or is somebody else's
                pass


def end_without(line, mark):
    """Ends everything when the other end of a pipe is gone: a controller that was killed leaves no installation beside the next one's."""
    while os.read(line, 4096):
        pass
    signal_all(mark, signal.SIGTERM)
    time.sleep(GRACE_S)
    signal_all(mark, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "cvc_events"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        mark = os.environ.get("CVC_INSTALL")
        # by hand, nobody holds a pipe
        if mark:
            threading.Thread(target=end_without, args=(0, f"CVC_INSTALL={mark}".encode()), daemon=True).start()

    def say(self, event, **values):
        line = json.dumps(dict(event=event, time_s=round(time.time(), 3), **values), default=str)
        try:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        except OSError:
            # a reader that has gone ends the installation, but not here
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
