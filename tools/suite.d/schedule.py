# SPDX-License-Identifier: Apache-2.0
"""Runs parts beside each other, as far as they may be, and adds up what they found."""
import concurrent.futures
import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time

import parts as rows
import reports

LONG_TIMES = 4  # as long as usual may take what --long adds to
BUSY_TIMES = 8  # as long may take anything, at most, on a machine that is busy with other work
BEHIND = ["nice", "-n", "10"]
WORKERS = 3  # parts that run side by side: each waits for something a third of its time
LAST_WORDS_S = 30  # for a part that is over its time limit, to say what it has found
TAIL_LINES = 80


@contextlib.contextmanager
def shown(log, process, name):
    """Passes on what is written to a log, each line with the name of its part, for two may write at a time."""
    follow = f"tail -n +1 -f -s 0.2 --pid={process.pid} -- \"$0\" | sed -u \"s/^/$1: /\""
    show = subprocess.Popen(["sh", "-c", follow, str(log), name])
    try:
        yield
    finally:
        show.wait()


def install(groups):
    """-> why these packages are not there, or an empty string"""
    done = subprocess.run(["tools/install-deps", *groups.split()], cwd=rows.ROOT, capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["packages cannot be installed"])[-1]


def why_not(part):
    """-> why a part cannot run on this machine, or an empty string"""
    if part.needs and not (rows.ROOT / part.needs).exists():
        return f"{part.needs} is not there"
    if part.extras:
        install(part.extras)
    return install(part.packages) if part.packages else ""


def limit_of(part, options):
    """-> seconds: for what hangs, not for what has to wait for others"""
    busy = min(max(1, os.getloadavg()[0] / (2 * os.cpu_count())), BUSY_TIMES)
    return part.limit_s * busy * (LONG_TIMES if options.long else 1)


def command_of(part, options):
    command = [*(BEHIND if part.is_behind else []), *rows.full_command(part, options)]
    if part.counts == "junit" and part.command[0] != "meson":
        command.append(f"--junitxml={reports.report_path(part)}")
    return command


class Ended:
    """How the process of a part ended."""

    def __init__(self, code, cpu_s):
        self.code, self.cpu_s = code, cpu_s  # code None: by its time limit


class Suite:
    """One run: what is under way, and the sum of what is over."""

    def __init__(self, options):
        self.options, self.total = options, reports.Outcome()
        self.running = set()
        self.unended = set()  # names of parts
        self.is_stopped = False
        self.lock = threading.Lock()  # of all of these, and of the terminal
        self.changed = threading.Condition()  # of what waits and what runs

    def start(self, part, out):
        with self.lock:
            if self.is_stopped:
                return None
            process = subprocess.Popen(command_of(part, self.options), cwd=rows.ROOT, env=rows.environment(part, self.options),
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            self.running.add(process)
            return process

    def stop(self):
        """Nothing begins any more, and what is under way ends: a person pressed Ctrl-C."""
        with self.lock:
            self.is_stopped = True
            for process in self.running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def wait(self, process, limit_s):
        """-> an Ended, with the processor time of all that it waited for"""
        late = threading.Event()

        def end(number):
            late.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number) if number == signal.SIGKILL else os.kill(process.pid, number)

        timers = [threading.Timer(limit_s, end, [signal.SIGINT]), threading.Timer(limit_s + LAST_WORDS_S, end, [signal.SIGKILL])]
        for timer in timers:
            timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            for timer in timers:
                timer.cancel()
            with self.lock:
                self.running.discard(process)
        process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(None if late.is_set() else process.returncode, usage.ru_utime + usage.ru_stime)

    def run_logged(self, part):
        log = reports.log_path(part)
        with open(log, "wb") as out, contextlib.ExitStack() as stack:
            process = self.start(part, out)
            if process is None:
                return Ended(None, 0)
            if self.options.verbose:
                stack.enter_context(shown(log, process, part.name))
            return self.wait(process, limit_of(part, self.options))

    def tell(self, part, outcome, ended, seconds):
        log = reports.log_path(part)
        if outcome.failed and not self.options.verbose:
            lines = log.read_text(errors="replace").splitlines()
            print(f"--- {part.name}: last lines of {log.relative_to(rows.ROOT)}")
            print("\n".join(f"  {line}" for line in lines[-TAIL_LINES:]))
            print(f"--- {part.name}: {'ended by its time limit' if ended.code is None else f'exit code {ended.code}'}")
        print(f"{part.name:<22} {str(outcome):<36} {seconds:7.1f} s {ended.cpu_s:7.1f} s of a processor")

    def run_part(self, part):
        """-> whether what comes after it makes sense"""
        begin, ended = time.monotonic(), Ended(0, 0)
        reason = why_not(part)
        if reason:
            outcome = reports.Outcome(skipped=1, reasons=[reason])
        else:
            if part.counts == "junit":
                reports.report_path(part).unlink(missing_ok=True)
            ended = self.run_logged(part)
            outcome = reports.count(part, ended.code)
        with self.lock:
            if self.is_stopped:
                return False
            self.tell(part, outcome, ended, time.monotonic() - begin)
            self.total.add(part.name, outcome)
        return not (part.fatal and outcome.failed)

    def take(self, waiting, busy):
        """The first part that may run now; None: there is none left."""
        with self.changed:
            while waiting:
                for part in waiting:
                    if part.apart not in busy and part.after not in self.unended:
                        waiting.remove(part)
                        busy.add(part.apart)
                        return part
                self.changed.wait()
        return None

    def work(self, waiting, busy):
        while part := self.take(waiting, busy):
            try:
                if not self.run_part(part):
                    return False
            finally:
                with self.changed:
                    busy.discard(part.apart)
                    self.unended.discard(part.name)
                    self.changed.notify_all()
        return True

    def run_together(self, together, is_alone):
        """-> whether what comes after them makes sense"""
        busy = set()
        light = [[part] for part in together if part.is_light]
        behind = [part for part in together if part.is_behind]
        heavy = [part for part in together if not part.is_light and not part.is_behind]
        places = [heavy] * (1 if is_alone else WORKERS) + light + ([behind] if behind else [])
        with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
            ends = [pool.submit(self.work, waiting, busy) for waiting in places]
            try:
                return all([end.result() for end in ends])
            except BaseException:
                self.stop()
                raise

    def run(self, chosen):
        self.unended = {part.name for part in chosen}
        for is_alone, together in itertools.groupby(chosen, lambda part: not part.apart):
            if not self.run_together(list(together), is_alone):
                return
