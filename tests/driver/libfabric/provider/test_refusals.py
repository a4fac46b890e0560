"""A refused call says why, in a line on standard error: a status alone does not."""

import subprocess

import pytest


@pytest.fixture
def told(calls, provider_environment):
    """Lines that a test of ``calls.c`` has on standard error."""

    def run(test, **environment):
        done = subprocess.run(
            [str(calls), test], env=provider_environment | environment, capture_output=True, text=True, check=True,
            timeout=100,
        )  # fmt: skip
        return done.stderr.splitlines()

    return run


def test_d7_a_refusal_is_said_once_with_the_drivers_sentence(told):
    (line,) = told("binds_after_enabling")
    assert line.startswith("libamoeba-fi.so: fid_bind: refused: FI_EOPBADSTATE: bind before enable()")
    assert "AMOEBA_LOG=calls=error" in line


@pytest.mark.parametrize("setting", ["calls=error", "error"])
def test_d7_refusals_can_be_silenced(told, setting):
    assert not told("binds_after_enabling", AMOEBA_LOG=setting)


def test_d7_refusals_have_a_bound(told):
    lines = told("absurd_numbers")
    assert len(lines) == len(set(lines)) == 10
    assert ["more are not said" in line for line in lines] == [False] * 9 + [True]


def test_d7_answers_that_programs_ask_for_are_silent(told):
    for test in ("everything_works", "failures_are_completions_with_errors", "descriptors_tell"):
        assert not told(test)
