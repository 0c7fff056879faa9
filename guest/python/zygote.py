# SPDX-License-Identifier: Apache-2.0
"""What a zygote does before it forks: imports, warms up, and waits; and what each fork does first.

Runs in the image's own python, any version from 3.7 on, as root of a user namespace that has no power over the host. It
gets its files as descriptors (src/wire/zygote.h). The configuration is JSON: {"env": {name: value}, "preload": [module]}.
"""
import gc
import importlib.machinery
import importlib.util
import json
import os
import sys
import types

MODULE_FD, PROGRAM_FD, KERNEL_FD, CONFIG_FD, CHANNEL_FD = 4, 5, 7, 8, 3


# Of these hooks a copy has no need: it has one thread, which holds no lock, and gets its random numbers from the Refresher. They
# would cost as much memory and time as all the rest of it.
NEEDLESS = {("threading", "_after_fork"), ("random", "Random.seed"), ("logging", "_after_at_fork_child_reinit_locks")}


class Hooks:
    """What modules want done around a fork: kept until there is a copy, whose own forks it is for."""

    def __init__(self):
        self.register = os.register_at_fork
        self.kept, self.needed = [], []
        self.is_copy = False
        os.register_at_fork = self.keep

    def keep(self, **hook):
        if self.is_copy:
            self.register(**hook)
            return
        self.kept.append(hook)
        after = hook.get("after_in_child")
        if after and (getattr(after, "__module__", None), getattr(after, "__qualname__", None)) not in NEEDLESS:
            self.needed.append(after)

    def release(self):
        """In the copy. Those that are nobody's we know are called: they may have to do with random numbers."""
        self.is_copy = True
        os.register_at_fork = self.register
        for hook in self.kept:
            self.register(**hook)
        for after in self.needed:
            after()


def load_extension():
    loader = importlib.machinery.ExtensionFileLoader("cove_zygote", f"/proc/self/fd/{MODULE_FD}")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("cove_zygote", loader))
    loader.exec_module(module)
    sys.modules.pop("cove_zygote", None)
    return module


def take_file(fd):
    """The whole of a file; its offset is shared with others."""
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    os.close(fd)
    return data


def load_kernel(text):
    module = types.ModuleType("cove_kernel")
    sys.modules["cove_kernel"] = module
    exec(compile(text, "<kernel>", "exec"), module.__dict__)
    return module


def count_threads():
    return len(os.listdir("/proc/self/task"))


def prepare():
    """Everything that may fail, in words that tell the operator what to change."""
    config = json.loads(take_file(CONFIG_FD))
    os.environ.clear()
    os.environ.update(config.get("env", {}))
    sys.path[:] = [path for path in sys.path if path]
    sys.argv[:] = [""]
    for name in config.get("preload", []):
        importlib.import_module(name)
    kernel = load_kernel(take_file(KERNEL_FD))
    if hasattr(kernel, "rehearse"):
        kernel.rehearse()
    made = kernel.prepare() if hasattr(kernel, "prepare") else None
    # A thread would not be there in the copies, but the locks that it holds would.
    if count_threads() != 1:
        raise RuntimeError("an imported module has started a thread")
    return (lambda *fork: kernel.serve(CHANNEL_FD, made, *fork)) if made else (lambda *fork: kernel.serve(CHANNEL_FD))


LARGE_PAGE = 2 << 20


def collapse_memory(extension):
    """A fork copies one entry per page: in large pages the memory of numpy and pandas has a thousandth of them."""
    with open("/proc/self/maps") as maps:
        rows = [line.split() for line in maps]
    for span, rights, *_, name in ((*row, "") if len(row) == 5 else row for row in rows):
        start, end = (int(number, 16) for number in span.split("-"))
        first, last = -(-start // LARGE_PAGE) * LARGE_PAGE, end // LARGE_PAGE * LARGE_PAGE
        if rights == "rw-p" and name in ("", "[heap]") and last > first:
            extension.collapse(first, last - first)


MT19937_WORDS = 624


def find_numpy_state():
    """The address of what numpy's default generator draws from, or None. Its own functions would touch a hundred pages."""
    try:
        random = sys.modules["numpy.random"]
        generator = random.mtrand._rand._bit_generator
        if type(generator).__name__ != "MT19937":
            return None
        random.set_state(("MT19937", sys.modules["numpy"].zeros(MT19937_WORDS, "u4"), MT19937_WORDS))  # drawn from afresh
        return generator.ctypes.state_address
    except (KeyError, AttributeError, ImportError):
        return None


class Refresher:
    """Changes what a copy must not have in common with its siblings."""

    def __init__(self, extension):
        modules = sys.modules
        self.randomise, self.numpy_state = extension.randomise, find_numpy_state()
        self.numpy = None if self.numpy_state else modules.get("numpy.random")
        self.random = modules["random"]._inst if "random" in modules else None
        self.ssl, self.uuid = modules.get("_ssl"), modules.get("uuid")
        self.main_thread = modules["threading"].main_thread() if "threading" in modules else None
        self.run()  # what this makes at its first use, too

    def run(self):
        if self.random is not None:
            super(type(self.random), self.random).seed()  # of its C type: no code of the module's is touched
            self.random.gauss_next = None
        if self.numpy_state is not None:
            self.randomise(self.numpy_state, 4 * MT19937_WORDS)
        elif self.numpy is not None:
            self.numpy.seed()
        if self.ssl is not None:  # OpenSSL looks at the pid alone, and that may be the same
            self.ssl.RAND_add(os.urandom(32), 32.0)
        if self.uuid is not None:
            self.uuid._node = self.uuid._last_timestamp = None
        if hasattr(self.main_thread, "_set_native_id"):
            self.main_thread._set_native_id()


def main():
    hooks = Hooks()
    extension = load_extension()
    os.close(MODULE_FD)
    os.close(PROGRAM_FD)
    try:
        serve = prepare()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())  # before the spawner hears of it, and ends us
        extension.report(False, f"zygote: {type(error).__name__}: {error}"[:90])
        os._exit(1)
    refresher = Refresher(extension)
    sys.modules["__main__"] = types.ModuleType("__main__")
    gc.collect()
    gc.freeze()
    collapse_memory(extension)
    extension.report(True, "")
    extension.serve()
    hooks.release()
    refresher.run()
    point = extension.fork_point()  # of a kernel that others can fork
    return serve, () if point is None else (point, lambda: Refresher(extension))  # of what was imported since then, too


def go(serve, fork):
    serve(*fork)


go(*main())
