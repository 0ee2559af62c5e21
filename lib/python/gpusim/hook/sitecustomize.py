"""What gpuctl run --torch puts first into PYTHONPATH: each Python that starts under it reads this file.

It runs the sitecustomize that it hides, and costs a comparison for each import until torch.distributed is imported.
Then programs of torch.distributed use gpusim: see gpusim/_rejoin.py.
"""
import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder

_NAME = "torch.distributed"


class _Finder:
    """Finds torch.distributed as the others do, and has it patched after it has been imported."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != _NAME:
            return None
        sys.meta_path.remove(cls)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                run = spec.loader.exec_module

                def exec_module(module):
                    run(module)
                    from gpusim import _rejoin
                    _rejoin.install(module, take=True)

                spec.loader.exec_module = exec_module
                return spec
        return None


def _hidden():
    """Run the next sitecustomize of sys.path in this one's place."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != here])
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _Finder)
_hidden()
