"""Building a library for C programs: once for its contents, and one clear message where something is missing.

Covers ``embed/binding.py`` and ``embed/library.py``.
"""

import sysconfig
from dataclasses import replace

import pytest
from amoeba import Errno, FabricError
from amoeba.embed import CFunction, CLibrary, build, cache_folder
from amoeba.embed.build import source_of

SMALL = CLibrary("libsmall.so.3", "nowhere", (CFunction("small_call", "int", "int number", ended="-1"),))


def refused(errno, library, folder):
    with pytest.raises(FabricError) as caught:
        build(library, folder)
    assert caught.value.fi_errno == errno
    assert "\n" not in str(caught.value) or errno is Errno.FI_EINVAL
    return str(caught.value)


def test_a_library_is_built_once_for_its_contents(can_build, tmp_path):
    first = build(SMALL, tmp_path)
    made = first.stat().st_mtime_ns
    assert build(SMALL, tmp_path) == first
    assert first.stat().st_mtime_ns == made
    other = build(replace(SMALL, source="static int unused;"), tmp_path)
    assert other != first
    assert first.is_file()
    assert [path.name for path in (first, other)] == ["libsmall.so.3"] * 2
    assert not list((tmp_path / "lib").glob("build-*"))


def test_nothing_but_what_was_declared_is_exported(can_build, tmp_path):
    library = replace(SMALL, functions=(*SMALL.functions, CFunction("small_hidden", "int", exported=False)))
    exported = exports(build(library, tmp_path))
    assert {name for name in exported if "small_" in name} == {"small_call"}
    assert "amoeba_load" not in exported


def exports(path):
    """Names of the dynamic symbols that an ELF file defines: System V ABI, chapter 4, symbol table."""
    data = path.read_bytes()
    sections = int.from_bytes(data[0x28:0x30], "little")
    size, count = (int.from_bytes(data[at : at + 2], "little") for at in (0x3A, 0x3C))
    heads = [data[sections + n * size :][:size] for n in range(count)]
    number = {"type": (4, 8), "offset": (24, 32), "size": (32, 40), "link": (40, 44)}
    fields = [{name: int.from_bytes(head[slice(*at)], "little") for name, at in number.items()} for head in heads]
    symbols = next(each for each in fields if each["type"] == 11)
    strings = fields[symbols["link"]]["offset"]
    found = set()
    for at in range(symbols["offset"], symbols["offset"] + symbols["size"], 24):
        name = int.from_bytes(data[at : at + 4], "little")
        if any(data[at + 6 : at + 8]):  # it is defined in a section
            found.add(data[strings + name :].split(b"\0", 1)[0].decode())
    return found


def test_the_cache_is_where_the_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("AMOEBA_CACHE", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "named"
    monkeypatch.delenv("AMOEBA_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "amoeba"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "amoeba"


def test_without_a_compiler_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "apt install gcc" in refused(Errno.FI_ENOSYS, SMALL, tmp_path)


def test_without_cffi_it_says_what_to_install(can_build, monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "cffi", None)
    assert "in a checkout of Amoeba, run pip install '.[c]'" in refused(Errno.FI_ENOSYS, SMALL, tmp_path)


def test_without_headers_or_a_shared_python_it_says_what_to_install(can_build, monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
        assert "python3-dev" in refused(Errno.FI_ENOSYS, SMALL, tmp_path)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: None)
    assert "no shared library" in refused(Errno.FI_ENOSYS, SMALL, tmp_path)


def test_a_folder_that_cannot_be_written_to_is_named(can_build, tmp_path):
    (tmp_path / "lib").write_text("a file")
    assert "AMOEBA_CACHE" in refused(Errno.FI_EACCES, SMALL, tmp_path)


def test_what_the_compiler_refuses_is_told_in_its_words(can_build, tmp_path):
    told = refused(Errno.FI_EINVAL, replace(SMALL, source="this is no C;"), tmp_path)
    assert "this" in told
    assert not list((tmp_path / "lib").glob("*"))


@pytest.mark.parametrize(
    ("name", "parameters"), [("two words", ""), ("", ""), ("call", "int"), ("call", "int a, ..."), ("call", "int 7")]
)
def test_a_declaration_that_makes_no_sense_is_refused(name, parameters):
    with pytest.raises(FabricError) as caught:
        CFunction(name, "int", parameters)
    assert caught.value.fi_errno == Errno.FI_EINVAL


def test_a_function_that_may_be_busy_has_one_parameter():
    for parameters in ("", "int a, int b"):
        with pytest.raises(FabricError) as caught:
            CFunction("poll", "int", parameters, busy="-11")
        assert caught.value.fi_errno == Errno.FI_EINVAL


def test_parameters_are_known_by_their_names():
    function = CFunction("f", "void", "const char *name, int values[4], size_t count, void **out")
    assert list(function.arguments) == ["name", "values", "count", "out"]
    assert list(CFunction("f", "void", "void").arguments) == []


def test_every_call_is_guarded():
    assert "return amoeba_enter() ? amoeba_py_small_call(number) : (int)(-1);" in source_of(SMALL)
