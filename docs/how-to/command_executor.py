"""An executor whose workers a command starts, which may begin with ``ssh``."""

import pickle
import queue
import subprocess
import sys
import threading
from contextlib import suppress

from mlflow_l3d.execution.dispatch import dispatch
from mlflow_l3d.execution.processes import pickled
from mlflow_l3d.execution.workers import Ended, Pool, Worker

SERVE = """
import pickle, sys
from mlflow_l3d.execution.worker import serve_calls, unpickled

receive, answers = lambda: pickle.load(sys.stdin.buffer), sys.stdout.buffer
sys.stdout = sys.stderr  # what libraries print

def send(message):
    pickle.dump(message, answers)
    answers.flush()

serve_calls(lambda: unpickled(receive()), receive, send)
"""


class CommandWorker(Worker):
    def __init__(self, command, job, said):
        super().__init__()
        self.process = subprocess.Popen([*command, SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.listener = threading.Thread(target=self._listen, args=(said,), daemon=True)
        self.listener.start()
        self.give(job)

    def give(self, message):
        with suppress(OSError, ValueError):  # the worker is gone, or its pipe; `_listen` reports it
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()

    def _listen(self, said):
        with suppress(EOFError, OSError, pickle.UnpicklingError), self.process:
            while True:
                said.put((self, pickle.load(self.process.stdout)))
        said.put((self, Ended(f"worker ended with exit code {self.process.returncode}")))


class CommandPool(Pool):
    def __init__(self, job, commands):
        super().__init__(most=len(commands))
        self.job, self.commands, self.said = pickled(job, "commands"), commands, queue.SimpleQueue()

    def start(self):
        return CommandWorker(self.commands[len(self.workers) % self.most], self.job, self.said)

    def events(self, seconds):
        with suppress(queue.Empty):
            worker, message = self.said.get(timeout=seconds)
            while True:
                if worker in self.workers:  # it may have been stopped meanwhile
                    yield worker, message
                worker, message = self.said.get_nowait()

    def end(self, workers, *, at_once):
        for worker in workers:
            worker.give(None) if worker.ready and not at_once else worker.process.kill()
        for worker in workers:
            worker.listener.join(5)
            worker.process.kill()
            worker.listener.join()


class Commands:
    """Runs cells in workers that a command starts."""

    stops_cells = True

    def __init__(self, *, job, workers=None):
        self.job, self.commands = job, [[sys.executable, "-c"]] * (workers or 1)

    def run(self, cells):
        return dispatch(lambda: CommandPool(self.job, self.commands), cells, self.job)
