"""`python -m tests.golden capture [NAME [ARGUMENTS]]`: list the captures, or run one of them (tests/golden/captures)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys

from tests.golden import captures


def main(arguments: list[str]) -> None:
    """Run the command line."""
    names = sorted(module.name for module in pkgutil.iter_modules(captures.__path__))
    if arguments == ["capture"]:
        for name in names:
            print(f"{usage(name)}\n    {summary(name)}")
        return
    if len(arguments) < 2 or arguments[0] != "capture" or arguments[1] not in names:
        raise SystemExit(f"usage: python -m tests.golden capture [NAME [ARGUMENTS]]\nNAME is one of {', '.join(names)}")
    capture = importlib.import_module(f"{captures.__name__}.{arguments[1]}").capture
    values = [int(each) if each.isdigit() else each for each in arguments[2:]]
    try:
        inspect.signature(capture).bind(*values)
    except TypeError as error:
        raise SystemExit(f"{error}\nusage: python -m tests.golden capture {usage(arguments[1])}") from None
    capture(*values)


def usage(name: str) -> str:
    """Return the name of a capture and its arguments, in capitals."""
    parameters = inspect.signature(importlib.import_module(f"{captures.__name__}.{name}").capture).parameters.values()
    shown = [each.name.upper() + ("..." if each.kind is each.VAR_POSITIONAL else "") for each in parameters]
    required = [each.default is each.empty and each.kind is not each.VAR_POSITIONAL for each in parameters]
    return " ".join([name, *(word if is_required else f"[{word}]" for word, is_required in zip(shown, required, strict=True))])


def summary(name: str) -> str:
    """Return the first line of the module's docstring."""
    return (importlib.import_module(f"{captures.__name__}.{name}").__doc__ or "").partition("\n")[0]


if __name__ == "__main__":
    main(sys.argv[1:])
