"""One cache per user: a library that another user has left is never found.

Covers ``amoeba_model/user_cache.py``.
"""

import os

import pytest
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba.embed.build import cache_folder
from amoeba_model.user_cache import user_cache
from amoeba_sim import verilate

STRANGER = 54321


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("AMOEBA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make(folder, mode):
    folder.mkdir(parents=True)
    folder.chmod(mode)


def test_b8_a_new_cache_is_closed_to_others(folder):
    assert user_cache() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_b8_a_folder_that_only_its_user_writes_to_is_taken_as_it_is(folder, mode):
    make(folder, mode)
    assert user_cache() == folder


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
@pytest.mark.parametrize("variable", ["AMOEBA_CACHE", "XDG_CACHE_HOME"])
def test_b8_in_a_shared_folder_each_user_has_one(folder, monkeypatch, mode, variable):
    if variable == "XDG_CACHE_HOME":
        monkeypatch.delenv("AMOEBA_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent))
        folder = folder.parent / "amoeba"
    make(folder, mode)
    own = folder / f"user-{os.geteuid()}"
    assert user_cache() == own
    assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_b8_a_folder_of_another_user_is_refused(folder, monkeypatch, mode):
    make(folder, mode)
    if os.geteuid() == 0:
        os.chown(folder, STRANGER, STRANGER)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER + 1)
    with pytest.raises(PermissionError, match="AMOEBA_CACHE names another folder"):
        user_cache()
    with pytest.raises(FabricError, match="AMOEBA_CACHE") as caught:
        cache_folder()
    assert caught.value.fi_errno == Errno.FI_EACCES


@pytest.mark.parametrize("planted", ["another user's folder", "a link", "a folder open to others"])
def test_b8_what_another_user_has_planted_under_the_users_name_is_refused(folder, monkeypatch, tmp_path, planted):
    make(folder, 0o1777)
    own = folder / f"user-{os.geteuid()}"
    if planted == "a link":
        own.symlink_to(tmp_path)
    elif planted == "a folder open to others":
        make(own, 0o777)
    else:
        own = folder / f"user-{STRANGER}"
        make(own, 0o755)
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    with pytest.raises(PermissionError):
        user_cache()


def test_b8_simulations_are_kept_in_the_users_cache_where_the_checkout_is_another_users(folder, monkeypatch):
    monkeypatch.setattr(verilate, "user_cache", lambda: folder)
    monkeypatch.setattr(verilate, "is_own", lambda path: False)
    assert verilate.cache_directory() == folder / "verilated"


def test_b8_a_simulation_in_another_users_cache_is_refused(folder, monkeypatch):
    make(folder, 0o755)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    if folder.stat().st_uid == 0:
        os.chown(folder, STRANGER + 1, STRANGER + 1)
    with pytest.raises(verilate.BuildError, match="AMOEBA_CACHE names another folder"):
        verilate.cache_directory()
