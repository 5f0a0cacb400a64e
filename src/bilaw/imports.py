"""The user's own code by name: `module:function`, as in `mynets:resnet`."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from bilaw.errors import at, nearest, refuse


def find(setting: str, name: str) -> Any:
    """Return what `module:attribute` names; modules in the current folder are found, too.

    >>> find("model.name", "math:pi") > 3
    True
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or module_name.startswith(".") or not attribute:
        refuse(setting, name, "module:function, such as mynets:resnet")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        refuse(setting, name, f"a module that can be imported ({error}; looked in {here} and among installed packages)")
    except (Exception, SystemExit) as error:  # whatever the user's module raises: a script may end itself
        refuse(setting, name, f"a module that can be imported ({type(error).__name__} in it: {error}{at(error)})")
    finally:
        with suppress(ValueError):  # the module may have removed it
            sys.path.remove(here)
    if not hasattr(module, attribute):
        refuse(setting, name, f"a function that {module_name} has{nearest(attribute, vars(module))}")
    return getattr(module, attribute)
