"""The reference that editors show, and the order of arguments."""

import ast
import inspect
import pathlib
import re

import pytest

import nearflash
from nearflash import aio

PACKAGE = pathlib.Path(nearflash.__file__).parent
FILES = ["__init__.py", "_nearflash.pyi", "_rights.py", "admin.py", "aio.py", "filesystem.py"]
CLASSES = [nearflash.Volume, nearflash.QueuePair, aio.Volume]


def definitions(node, prefix=""):
    """The public classes, functions and methods of a module, by name."""
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not child.name.startswith("_"):
                yield prefix + child.name, child
                if isinstance(child, ast.ClassDef):
                    yield from definitions(child, f"{child.name}.")


@pytest.mark.parametrize("file", FILES)
def test_every_public_class_method_and_argument_is_described(file):
    for name, node in definitions(ast.parse((PACKAGE / file).read_text())):
        text = ast.get_docstring(node)
        assert text, name
        if isinstance(node, ast.ClassDef):
            of_class = text
            continue
        # Methods of `Admin` share an argument that their class describes.
        text += of_class if "Admin" in name or file == "_rights.py" else ""
        arguments = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
        for argument in arguments - {"self", "cls"}:
            assert re.search(rf"`{argument}`", text), f"{name}: {argument}"


@pytest.mark.parametrize("class_", CLASSES)
def test_every_method_takes_the_offset_first(class_):
    orders = set()
    for name, method in inspect.getmembers(class_, inspect.isroutine):
        if not name.startswith("_"):
            names = list(inspect.signature(method).parameters)[1:]
            assert "offset" not in names[1:], name
            if "offset" in names[:1] and len(names) > 1:
                orders.add(names[1])
    several = {"buffers"} if class_ is nearflash.Volume else set()
    assert orders == {"length", "buffer", "data", "expected", "addend"} | several
