# SPDX-License-Identifier: Apache-2.0
"""What a zygote does before it forks: imports, warms up, and waits; and what each fork does first.

Runs in the image's own python, any version from 3.7 on, as root of a user namespace that has no power over the host. It
gets its files as descriptors (src/wire/zygote.h). The configuration is JSON: {"env": {name: value}, "preload": [module]}.
"""
import functools
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
    """What modules want done around a fork. It is for the forks of a copy: the zygote's own copies are made without, but for
    those hooks that are nobody's we know. They may have to do with random numbers."""

    def __init__(self):
        self.register = os.register_at_fork
        self.needed = []
        os.register_at_fork = self.keep

    def keep(self, **hook):
        self.register(**hook)
        after = hook.get("after_in_child")
        if after and (getattr(after, "__module__", None), getattr(after, "__qualname__", None)) not in NEEDLESS:
            self.needed.append(after)

    def release(self):
        os.register_at_fork = self.register


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


def load_all():
    """Everything that may fail for the operator's reasons, in words that tell him what to change."""
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
    # A thread would not be there in the copies, but the locks that it holds would.
    if count_threads() != 1:
        raise RuntimeError("an imported module has started a thread")
    return kernel


def make_quick(kernel, extension):
    """Hands a kernel that is Cove's own to the extension, which serves in each copy then. Another one serves itself."""
    made = kernel.prepare() if hasattr(kernel, "prepare") else None
    if getattr(made, "QUICK", None) != extension.QUICK:
        return
    made.refresh = lambda: Refresher(extension).run()  # of what was imported since then, too
    made.attach(CHANNEL_FD)  # which is the zygote's own socket here, and the channel in a copy
    extension.prepare(made)


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
    """Changes what a copy must not have in common with its siblings. Functions of C where that is possible: what they touch is
    little."""

    def __init__(self, extension, *calls):
        modules = sys.modules
        self.calls = list(calls)
        if "random" in modules:
            self.add_random(modules["random"]._inst)
        if "numpy.random" in modules:
            self.add_numpy(extension, modules["numpy.random"])
        if "_ssl" in modules:  # OpenSSL looks at the pid alone, and that may be the same
            self.calls.append(lambda: modules["_ssl"].RAND_add(os.urandom(32), 32.0))
        if "uuid" in modules:
            self.reset(modules["uuid"], "_node", "_last_timestamp")
        if "multiprocessing.process" in modules:
            self.add_key(modules["multiprocessing.process"])
        if "threading" in modules and hasattr(modules["threading"].main_thread(), "_set_native_id"):
            self.calls.append(modules["threading"].main_thread()._set_native_id)

    def reset(self, holder, *names):
        self.calls += [functools.partial(setattr, holder, name, None) for name in names]

    def add_random(self, generator):
        self.calls.append(super(type(generator), generator).seed)  # of its C type: no code of the module's is touched
        self.reset(generator, "gauss_next")

    def add_numpy(self, extension, random):
        state = find_numpy_state()
        self.calls.append(functools.partial(extension.randomise, state, 4 * MT19937_WORDS) if state else random.seed)

    def add_key(self, process):
        """What children and managers of this process prove themselves with."""
        config = process.current_process()._config
        self.calls.append(lambda: config.update(authkey=process.AuthenticationString(os.urandom(32))))

    def run(self):
        for call in self.calls:
            call()


def main():
    hooks = Hooks()
    extension = load_extension()
    os.close(MODULE_FD)
    os.close(PROGRAM_FD)
    try:
        kernel = load_all()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        hooks.release()
        refresher = Refresher(extension, *hooks.needed)
        refresher.run()  # what this makes at its first use, too
        gc.collect()
        make_quick(kernel, extension)
        extension.confine()
    except BaseException as error:
        sys.excepthook(*sys.exc_info())  # before the spawner hears of it, and ends us
        extension.report(False, f"zygote: {type(error).__name__}: {error}"[:90])
        os._exit(1)
    sys.modules["__main__"] = types.ModuleType("__main__")
    gc.freeze()
    extension.gather()
    extension.report(True, "")
    extension.serve(tuple(refresher.calls))
    return kernel.serve


main()(CHANNEL_FD)
