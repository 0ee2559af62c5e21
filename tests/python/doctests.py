"""Run the examples in the docstrings of gpusim's modules, each module's by itself: doctests.py [MODULE...]

In the examples np, gpusim and the module's own names are there. Modules whose needs are missing are skipped with their
name; pytest's plugin has no example that could run here. Prints a line for each module, and exits with 1 if an example
fails or a module that is to have examples has none.
"""
import doctest
import importlib
import pkgutil
import sys

import gpusim
import numpy as np

NONE = {"pytest", "hook"}  # of modules with _ examples are welcome, but not needed


def run(name):
    """Of one module: True if all is well."""
    try:
        module = importlib.import_module(f"gpusim.{name}")
    except ModuleNotFoundError as e:
        if (e.name or "").startswith("gpusim"):
            raise
        print(f"{name}: skipped, needs {e.name}")
        return True
    result = doctest.testmod(module, extraglobs={"np": np, "gpusim": gpusim}, optionflags=doctest.ELLIPSIS)
    print(f"{name}: {result.attempted} examples, {result.failed} failed")
    return not result.failed and (result.attempted > 0 or name in NONE or name.startswith("_"))


if __name__ == "__main__":
    names = sys.argv[1:] or [m.name for m in pkgutil.iter_modules(gpusim.__path__)]
    sys.exit(not all([run(name) for name in names]))
