"""The context and the devices of this process, opened when they are first needed."""

import ctypes
import logging
import os
import threading

from . import _library as lib

_log = logging.getLogger("mxrt")


@lib.LOG_FN
def _log_line(_user, line):
    _log.info("%s", line.decode("utf-8", "replace"))


class Runtime:
    """One context. Opening is guarded; what is open is only read."""

    def __init__(self):
        self._lock = threading.Lock()
        self._packs = []
        self._context = None
        self._devices = {}  # uri: (handle, DLDevice)
        self.library = self.locked = self.path = None
        self.plans = {}

    def _start(self):
        if self._context:
            return
        self.path, self.library, self.locked = lib.load()
        context, error = ctypes.c_void_p(), lib.CError()
        options = lib.ContextOptions(log=_log_line)
        lib.check(self.library.mxrt_context_create(options, context, error), error)
        for path in [*_default_packs(self.path), *self._packs]:
            status = self.library.mxrt_context_add_pack_file(context, os.fsencode(path), error)
            lib.check(status, error)
        self._context = context

    def add_pack(self, path):
        with self._lock:
            if self._context:
                raise RuntimeError(f"{path}: packs must be added before the first conversion")
            if not os.path.exists(path):
                raise FileNotFoundError(f"{path} is not there: mxgen build makes kernel packs")
            self._packs.append(path)

    def started(self):
        """The library, loaded."""
        if not self._context:
            with self._lock:
                self._start()
        return self.library

    def device(self, uri):
        """(handle, DLDevice) of a device."""
        found = self._devices.get(uri)
        if found:
            return found
        with self._lock:
            self._start()
            if uri not in self._devices:
                handle, error, info = ctypes.c_void_p(), lib.CError(), lib.DeviceInfo()
                lib.check(self.library.mxrt_device_open(self._context, uri.encode(), handle, error),
                          error)
                lib.check(self.library.mxrt_device_get_info(handle, info, error), error)
                self._devices[uri] = handle, info.dl_device
            return self._devices[uri]

    def call(self, function, *arguments):
        """library.function(.., &error), other Python threads running meanwhile."""
        error = lib.CError()
        lib.check(getattr(self.started(), function)(*arguments, error), error)


def _default_packs(library_path):
    """$MXRT_PACK, else what was installed beside the library."""
    named = os.environ.get("MXRT_PACK")
    if named:
        return [named]
    installed = os.path.join(os.path.dirname(library_path), "mxgen", "kernels.mxdb")
    return [installed] if os.path.exists(installed) else []


runtime = Runtime()


def _after_fork():
    # The threads of the host's kernels do not exist in the child: it starts afresh.
    packs = runtime._packs
    runtime.__init__()
    runtime._packs = packs


os.register_at_fork(after_in_child=_after_fork)
