"""The programs of README.md run and print the expected output."""

import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def test_the_programs_run_as_written(node, capsys):
    programs = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) == 7
    places = {"127.0.0.1:4421": node.address, "/var/lib/nearflash/http.sock": str(node.http)}
    for program in programs:
        assert any(place in program for place in places)
        for place, other in places.items():
            program = program.replace(place, other)
        exec(program, {"__name__": "__main__"})
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "Hello, flash", "[b'Hello', b'flash']", "15.0", "5.0",
        "['data', 'files', 'web'] ok", "volume-exists 409", "Hello, file", "499500",
        "[b'P', b'AR1']",
    ]  # fmt: skip
