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
    refresh()  # what it makes at its first use, too
    # A thread would not be there in the copies, but the locks that it holds would.
    if count_threads() != 1:
        raise RuntimeError("an imported module has started a thread")
    return kernel


def refresh():
    """What a copy must not have in common with its siblings."""
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed()
    if "numpy.random" in modules:
        key = modules["numpy"].frombuffer(os.urandom(624 * 4), "u4")  # cheaper than seed(), which computes one
        modules["numpy.random"].set_state(("MT19937", key, 624))
    if "_ssl" in modules:  # OpenSSL looks at the pid alone, and that may be the same
        modules["_ssl"].RAND_add(os.urandom(32), 32.0)
    if "uuid" in modules:
        modules["uuid"]._node = modules["uuid"]._last_timestamp = None
    if "threading" in modules and hasattr(modules["threading"].main_thread(), "_set_native_id"):
        modules["threading"].main_thread()._set_native_id()


def main():
    extension = load_extension()
    os.close(MODULE_FD)
    os.close(PROGRAM_FD)
    try:
        kernel = prepare()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())  # before the spawner hears of it, and ends us
        extension.report(False, f"zygote: {type(error).__name__}: {error}"[:90])
        os._exit(1)
    gc.collect()
    gc.freeze()
    extension.report(True, "")
    extension.serve()
    refresh()
    sys.modules["__main__"] = types.ModuleType("__main__")
    point = extension.fork_point()  # of a kernel that others can fork
    return kernel, () if point is None else (point, refresh)


def go(kernel, fork):
    kernel.serve(CHANNEL_FD, *fork)


go(*main())
