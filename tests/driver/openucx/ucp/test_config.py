"""Configurations: where values come from, which can be set, and how they are printed.

Covers ``openucx/ucp/config_keys.py``, ``openucx/ucp/context.py`` and ``openucx/ucp/calls/contexts.py``.
"""

import io
import math
import random
import re

import pytest
from amoeba import ucp
from amoeba.openucx.ucp.config_keys import AUTO, KEYS

CONFIG, HEADER = ucp.UCS_CONFIG_PRINT_CONFIG, ucp.UCS_CONFIG_PRINT_HEADER
DOC, HIDDEN, COMMENT = ucp.UCS_CONFIG_PRINT_DOC, ucp.UCS_CONFIG_PRINT_HIDDEN, ucp.UCS_CONFIG_PRINT_COMMENT_DEFAULT
VALUES = {
    "memory": ["0", "77", "4096B", "8k", "8KB", "3m", "inf", "auto"],
    "bool": ["y", "n", "YES", "no", "0", "1"],
}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """None of UCX's variables but those that a test sets."""
    import os

    for name in [name for name in os.environ if "UCX_" in name]:
        monkeypatch.delenv(name)
    return monkeypatch


def printed(config, flags, title="title"):
    stream = io.StringIO()
    assert ucp.ucp_config_print(config, stream, title, flags) is None
    return stream.getvalue()


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "ucx.conf"
        path.write_text(text)
        return str(path)

    return write


# Where values come from


def test_without_anything_every_key_has_its_default():
    config = ucp.ucp_config_read(None, None)
    assert all(config.is_default(name) for name in KEYS)
    assert config.text("RNDV_SEND_NBR_THRESH") == "256k"
    assert config.value("RNDV_SEND_NBR_THRESH") == 256 * 1024


def test_the_environment_sets_keys_behind_ucx(environment):
    environment.setenv("UCX_RNDV_THRESH", "64k")
    environment.setenv("RNDV_SEND_NBR_THRESH", "1")
    config = ucp.ucp_config_read()
    assert config.value("RNDV_THRESH") == 65536
    assert config.is_default("RNDV_SEND_NBR_THRESH")


def test_a_prefix_alone_says_which_variables_are_read(environment):
    environment.setenv("UCX_RNDV_THRESH", "1k")
    environment.setenv("MPI_UCX_TLS", "tcp,self")
    config = ucp.ucp_config_read("MPI", None)
    assert config.value("TLS") == ("tcp", "self")
    assert config.is_default("RNDV_THRESH")
    assert ucp.ucp_config_read().is_default("TLS")


def test_a_file_that_does_not_exist_is_no_error(tmp_path):
    assert ucp.ucp_config_read(None, str(tmp_path / "nowhere.conf")).is_default("TLS")


def test_a_file_sets_keys_and_the_environment_wins(environment, file):
    environment.setenv("UCX_TLS", "from the environment")
    config = ucp.ucp_config_read(
        None,
        file("# a comment\n\n UCX_TLS = from the file\nUCX_NUM_EPS= 3 \nUCX_NUM_PPN=1\nUCX_NUM_PPN=2\nOTHER=1\n"),
    )
    assert config.text("TLS") == "from the environment"
    assert config.value("NUM_EPS") == 3
    assert config.value("NUM_PPN") == 2


def test_in_a_file_a_line_with_the_prefix_wins(environment, file):
    path = file("MPI_UCX_NUM_EPS=5\nUCX_NUM_EPS=6\nUCX_NUM_PPN=7\n")
    config = ucp.ucp_config_read("MPI", path)
    assert (config.value("NUM_EPS"), config.value("NUM_PPN")) == (5, 7)
    environment.setenv("MPI_UCX_NUM_PPN", "8")
    assert ucp.ucp_config_read("MPI", path).value("NUM_PPN") == 8
    assert ucp.ucp_config_read(None, path).value("NUM_EPS") == 6


def test_variables_that_are_not_ucp_s_are_left_alone(environment, file):
    environment.setenv("UCX_LOG_LEVEL", "debug")
    config = ucp.ucp_config_read(None, file("UCX_TCP_CM_REUSEADDR=y\n"))
    assert "LOG_LEVEL" not in printed(config, CONFIG | HIDDEN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UCX_TLS\n", r"line 1: expected UCX_NAME=value, got 'UCX_TLS'"),
        ("\n[section]\n", r"line 2: expected UCX_NAME=value, got '\[section\]'"),
        ("UCX_NUM_EPS=few\n", "NUM_EPS: expected a number"),
    ],
)
def test_a_file_that_sets_nothing_is_refused(file, text, message):
    with pytest.raises(ucp.UcsInvalidParamError, match=message):
        ucp.ucp_config_read(None, file(text))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(ucp.UcsIoError, match="cannot be read"):
        ucp.ucp_config_read(None, str(tmp_path))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ucp.UcsIoError, match="cannot be read"):
        ucp.ucp_config_read(None, str(binary))


def test_a_variable_that_means_nothing_is_refused(environment):
    environment.setenv("UCX_WARN_INVALID_CONFIG", "perhaps")
    with pytest.raises(ucp.UcsInvalidParamError, match=r"WARN_INVALID_CONFIG: expected y\|n, got 'perhaps'"):
        ucp.ucp_config_read()


@pytest.mark.parametrize("arguments", [(1, None), (None, 1), ("a\0", None), (None, "a\0b")])
def test_names_that_are_none_are_refused(arguments):
    with pytest.raises(ucp.UcsInvalidParamError, match=r"env_prefix|filename"):
        ucp.ucp_config_read(*arguments)


# Changing


def test_a_key_is_set_without_ucx():
    config = ucp.ucp_config_read()
    assert ucp.ucp_config_modify(config, "RNDV_THRESH", "1m") is None
    assert config.value("RNDV_THRESH") == 1 << 20


@pytest.mark.parametrize("name", ["UCX_TLS", "tls", "", "TLS ", "NO_SUCH_KEY", "LOG_LEVEL"])
def test_a_key_that_is_not_known_is_no_element(name):
    config = ucp.ucp_config_read()
    before = printed(config, CONFIG | HIDDEN)
    with pytest.raises(ucp.UcsNoElemError, match=re.escape(repr(name))):
        ucp.ucp_config_modify(config, name, "1")
    assert printed(config, CONFIG | HIDDEN) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RNDV_THRESH", "some"), ("RNDV_THRESH", "-1"), ("RNDV_THRESH", "8x"), ("RNDV_THRESH", "8kk"),
        ("RNDV_THRESH", ""),
        ("NUM_EPS", "1.5"), ("MAX_EAGER_RAILS", "auto"), ("RNDV_PERF_DIFF", "much"), ("UNIFIED_MODE", "maybe"),
        ("ATOMIC_MODE", "both"), ("KEEPALIVE_INTERVAL", "20h"), ("KEEPALIVE_INTERVAL", "s"), ("BCOPY_BW", "5"),
        ("PROTO_INDIRECT_ID", "try"), ("ADDRESS_VERSION", "v3"),
    ],
)  # fmt: skip
def test_a_value_that_a_key_cannot_have_is_refused_and_changes_nothing(name, value):
    config = ucp.ucp_config_read()
    with pytest.raises(ucp.UcsInvalidParamError, match=rf"{name}: expected .*, got {re.escape(repr(value))}"):
        ucp.ucp_config_modify(config, name, value)
    assert config.is_default(name)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("RNDV_THRESH", "77", 77), ("RNDV_THRESH", "77b", 77), ("RNDV_THRESH", "8k", 8192),
        ("RNDV_THRESH", "2GB", 2**31),
        ("RNDV_THRESH", "inf", math.inf), ("RNDV_THRESH", "AUTO", AUTO), ("RNDV_THRESH", "0", 0),
        ("NUM_EPS", "auto", AUTO), ("NUM_EPS", "12", 12), ("KEEPALIVE_NUM_EPS", "inf", math.inf),
        ("RNDV_PERF_DIFF", "1.5", 1.5), ("UNIFIED_MODE", "Yes", True), ("UNIFIED_MODE", "0", False),
        ("ATOMIC_MODE", "Device", "device"), ("TLS", "rc, ud", ("rc", "ud")), ("SELECT_DISTANCE_MD", "a b", "a b"),
        ("KEEPALIVE_INTERVAL", "20s", 20.0), ("KEEPALIVE_INTERVAL", "5ms", 0.005),
        ("KEEPALIVE_INTERVAL", "2m", 120.0),
        ("KEEPALIVE_INTERVAL", "1.5", 1.5), ("KEEPALIVE_INTERVAL", "inf", math.inf),
        ("BCOPY_BW", "2MBps", float(2 << 20)), ("BCOPY_BW", "8Kb/s", 1024.0), ("BCOPY_BW", "auto", AUTO),
        ("PROTO_INDIRECT_ID", "on", True), ("PROTO_INDIRECT_ID", "off", False), ("PROTO_INDIRECT_ID", "auto", AUTO),
    ],
)  # fmt: skip
def test_values_mean_what_ucx_s_syntax_says(name, text, value):
    config = ucp.ucp_config_read()
    ucp.ucp_config_modify(config, name, text)
    assert config.value(name) == value
    assert config.text(name) == text


@pytest.mark.parametrize("name", KEYS)
def test_every_default_is_a_value_of_its_key(name):
    config = ucp.ucp_config_read()
    ucp.ucp_config_modify(config, name, KEYS[name].default)
    assert config.value(name) == KEYS[name].read(KEYS[name].default)


@pytest.mark.parametrize("name", [name for name in KEYS if KEYS[name].alias_of])
def test_an_old_name_means_the_new_one(name, environment):
    new = KEYS[name].alias_of
    config = ucp.ucp_config_read()
    ucp.ucp_config_modify(config, name, "17")
    assert config.value(new) == config.value(name) == 17
    environment.setenv(f"UCX_{name}", "18")
    assert ucp.ucp_config_read().value(new) == 18
    environment.setenv(f"UCX_{new}", "19")
    assert ucp.ucp_config_read().value(name) == 19


def test_a_copy_is_not_reached_by_later_changes():
    config = ucp.ucp_config_read()
    ucp.ucp_config_modify(config, "NUM_EPS", "2")
    copies = [config.copy(), config.copy()]
    ucp.ucp_config_modify(config, "NUM_EPS", "3")
    ucp.ucp_config_release(config)
    assert [copy.value("NUM_EPS") for copy in copies] == [2, 2]
    assert not any(copy.released for copy in copies)


def test_a_released_configuration_is_used_no_more():
    config = ucp.ucp_config_read()
    assert ucp.ucp_config_release(config) is None
    for call in (
        lambda: ucp.ucp_config_release(config),
        lambda: ucp.ucp_config_modify(config, "TLS", "all"),
        lambda: ucp.ucp_config_print(config, io.StringIO(), "", CONFIG),
    ):
        with pytest.raises(ucp.UcsInvalidParamError, match="got a released one"):
            call()


@pytest.mark.parametrize("config", [None, {}, "config"])
def test_what_is_no_configuration_is_refused(config):
    with pytest.raises(ucp.UcsInvalidParamError, match="config: expected a ucp_config_t"):
        ucp.ucp_config_modify(config, "TLS", "all")


# Printing


def test_nothing_is_printed_without_flags():
    assert printed(ucp.ucp_config_read(), 0) == ""


def test_keys_and_values_are_printed_one_a_line():
    lines = printed(ucp.ucp_config_read(), CONFIG).splitlines()
    assert lines == [f"UCX_{name}={key.default}" for name, key in KEYS.items() if key.alias_of is None]


def test_hidden_keys_are_old_names():
    config = ucp.ucp_config_read()
    ucp.ucp_config_modify(config, "MAX_RNDV_RAILS", "4")
    assert "MAX_RNDV_LANES" not in printed(config, CONFIG)
    assert "UCX_MAX_RNDV_LANES=4\n" in printed(config, CONFIG | HIDDEN)


def test_the_title_is_a_heading():
    assert printed(ucp.ucp_config_read(), HEADER, "My title") == "\n#\n# My title\n#\n\n\n"
    assert printed(ucp.ucp_config_read(), HEADER, None) == "\n#\n# \n#\n\n\n"


def test_values_that_nobody_has_set_are_comments():
    config = ucp.ucp_config_read()
    ucp.ucp_config_modify(config, "NUM_EPS", "auto")
    lines = printed(config, CONFIG | COMMENT).splitlines()
    assert [line for line in lines if not line.startswith("# UCX_")] == ["UCX_NUM_EPS=auto"]


def test_documentation_says_what_each_key_is_for_and_what_it_may_be():
    text = printed(ucp.ucp_config_read(), CONFIG | DOC | HIDDEN)
    assert text.startswith("# UCX library configuration file\n# Uncomment to modify values\n")
    for key in KEYS.values():
        described = f"alias of: UCX_{key.alias_of}" if key.alias_of else key.doc
        assert f"# {described}\n" in text
        assert f"# syntax: {key.syntax.words}\n#\nUCX_{key.name}=" in text
    inert = [key for key in KEYS.values() if key.inert]
    assert text.count("# Changes nothing on this NIC.\n") == len(inert) < len(KEYS)


def test_all_but_settings_is_a_comment_or_empty():
    for line in printed(ucp.ucp_config_read(), CONFIG | DOC | HEADER | HIDDEN | COMMENT).splitlines():
        assert line == "" or line.startswith("#"), line


@pytest.mark.parametrize("flags", [CONFIG, CONFIG | DOC, CONFIG | DOC | HEADER | COMMENT])
@pytest.mark.parametrize("prefix", [None, "MPI"])
def test_what_is_printed_can_be_read_as_a_file(flags, prefix, file):
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    config = ucp.ucp_config_read(prefix)
    for name, key in KEYS.items():
        for value in rng.sample(VALUES["memory"] + VALUES["bool"], 3):
            try:
                ucp.ucp_config_modify(config, name, value)
            except ucp.UcsInvalidParamError:
                assert config.text(name) != value or value == key.default, f"seed {seed}"
    again = ucp.ucp_config_read(prefix, file(printed(config, flags)))
    assert printed(again, CONFIG | HIDDEN) == printed(config, CONFIG | HIDDEN), f"seed {seed}"


@pytest.mark.parametrize("stream", [None, 1, "out"])
def test_only_a_stream_can_be_printed_to(stream):
    with pytest.raises(ucp.UcsInvalidParamError, match="stream: expected a text file"):
        ucp.ucp_config_print(ucp.ucp_config_read(), stream, "", CONFIG)


@pytest.mark.parametrize(
    ("title", "flags", "name"), [(1, HEADER, "title"), ("", "all", "print_flags"), ("", -1, "print")]
)
def test_arguments_of_printing_are_checked_before_anything_is_printed(title, flags, name):
    stream = io.StringIO()
    with pytest.raises(ucp.UcsInvalidParamError, match=name):
        ucp.ucp_config_print(ucp.ucp_config_read(), stream, title, flags)
    assert stream.getvalue() == ""


# Use


def test_one_configuration_serves_several_contexts_each_with_its_own_copy():
    config = ucp.ucp_config_read()
    ucp.ucp_config_modify(config, "RNDV_THRESH", "4k")
    with ucp.open_adapters() as adapters:
        params = ucp.ucp_params_t(features=ucp.UCP_FEATURE_RMA)
        first, second = (ucp.ucp_init(params, config, adapter=adapter) for adapter in adapters)
        ucp.ucp_config_modify(config, "RNDV_THRESH", "8k")
        ucp.ucp_config_release(config)
        assert [context.config.value("RNDV_THRESH") for context in (first, second)] == [4096, 4096]
        with pytest.raises(ucp.UcsInvalidParamError, match="got a released one"):
            ucp.ucp_init(params, config, adapter=adapters[0])


def test_a_context_without_a_configuration_reads_the_environment(environment):
    environment.setenv("UCX_NUM_EPS", "9")
    with ucp.open_adapters() as adapters:
        context = ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_RMA), None, adapter=adapters[0])
        assert context.config.value("NUM_EPS") == 9


@pytest.mark.parametrize("config", [5, {}, "UCX_TLS=all"])
def test_a_context_is_not_made_with_what_is_no_configuration(config):
    with (
        ucp.open_adapters() as adapters,
        pytest.raises(ucp.UcsInvalidParamError, match="config: expected a ucp_config"),
    ):
        ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_RMA), config, adapter=adapters[0])


def test_the_configuration_says_what_the_process_s_own_nic_is(environment):
    config = ucp.ucp_config_read()
    assert (config.value("DEVICE"), config.value("LINK_HOST"), config.value("LINK_PORT")) == ("model", "127.0.0.1", 0)
    ucp.ucp_config_modify(config, "LINK_HOST", "127.0.0.2")
    context = ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_RMA), config)
    try:
        host, port = context.adapter.link
        assert host == 0x7F000002
        assert port
    finally:
        ucp.ucp_cleanup(context)
    for name, value in (("DEVICE", "abacus"), ("LINK_PORT", "65536")):
        with pytest.raises(ucp.UcsInvalidParamError, match=name):
            ucp.ucp_config_modify(config, name, value)
