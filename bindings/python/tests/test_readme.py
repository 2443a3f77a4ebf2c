"""The programs of README.md run and print the expected output."""

import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def test_the_programs_run_as_written(node, capsys):
    programs = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) == 6
    for program in programs:
        assert "127.0.0.1:4421" in program
        exec(program.replace("127.0.0.1:4421", node.address), {"__name__": "__main__"})
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "Hello, flash", "[b'Hello', b'flash']", "15.0", "5.0", "Hello, file", "499500",
        "[b'P', b'AR1']",
    ]  # fmt: skip
