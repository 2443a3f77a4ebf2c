"""Errors have the same names and sentences in every language."""

import nearflash
from nearflash import _nearflash, errors


def test_every_error_has_a_class_of_its_name_and_words():
    for name, sentence in _nearflash._codes():
        if name == "OK":
            continue
        error = errors.BY_NAME[name]
        assert error.__doc__ == sentence
        assert error.__name__ == name.title().replace("_", "")
        assert getattr(nearflash, error.__name__) is error


def test_every_class_is_the_class_of_an_error():
    names = {name for name, _ in _nearflash._codes()}
    assert set(errors.BY_NAME) <= names
    assert all(issubclass(error, nearflash.Error) for error in errors.BY_NAME.values())
