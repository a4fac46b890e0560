"""Programs in event loops: the module's functions, and low level objects that are awaited.

Covers ``openucx/ucxx/application.py``, ``openucx/ucxx/loops.py`` and ``openucx/ucxx/request.py``.
"""

import asyncio
import contextlib
import gc
import sys
import threading
from collections import Counter

import amoeba.ucx as ucxx
import numpy as np
import pytest

from tests.driver.openucx.ucxx.ucx_parties import PATIENCE, SIZES, Parties, pattern

MODES = ("blocking", "polling", "thread", "thread-polling")


@pytest.fixture(params=MODES)
def mode(request):
    """The process's own context, in every mode; afterwards no thread is left."""
    before = set(threading.enumerate())  # others' threads may end meanwhile
    ucxx.init(progress_mode=request.param)
    yield request.param
    ucxx.reset()
    assert set(threading.enumerate()) <= before


async def connected():
    """Both ends of a connection through a listener of this process, and the listener."""
    accepted = asyncio.get_running_loop().create_future()
    listener = ucxx.create_listener(accepted.set_result, ip_address="127.0.0.1")
    client = await ucxx.create_endpoint("127.0.0.1", listener.port)
    return client, await asyncio.wait_for(accepted, PATIENCE), listener


def run(program):
    """Run a coroutine, with an end."""
    return asyncio.run(asyncio.wait_for(program, PATIENCE))


def test_an_echo_server_serves_its_clients_in_every_mode(mode):
    served = []

    async def serve(endpoint):
        for size in SIZES:
            buffer = bytearray(size)
            await endpoint.recv(buffer)
            await endpoint.send(buffer)
        for _ in SIZES:
            await endpoint.am_send(await endpoint.am_recv())
        await endpoint.send_obj(await endpoint.recv_obj())
        await endpoint.send_multi(await endpoint.recv_multi())
        served.append(endpoint)
        await endpoint.close()

    async def client(port):
        endpoint = await ucxx.create_endpoint("127.0.0.1", port)
        for size in SIZES:
            received = np.zeros(size, np.uint8)
            await endpoint.send(pattern(size, size))
            assert await endpoint.recv(received) is received
            assert (received == pattern(size, size)).all()
        for size in SIZES:
            await endpoint.am_send(pattern(size, size))
            assert bytes(await endpoint.am_recv()) == bytes(pattern(size, size))
        await endpoint.send_obj(pattern(5000))
        assert bytes(await endpoint.recv_obj(allocator=lambda size: np.zeros(size, np.uint8))) == bytes(pattern(5000))
        await endpoint.send_multi([b"1", b"", pattern(70_000)])
        assert [each.nbytes for each in await endpoint.recv_multi()] == [1, 0, 70_000]
        await endpoint.close()

    async def program():
        with ucxx.create_listener(serve, ip_address="127.0.0.1") as listener:
            await asyncio.gather(client(listener.port), client(listener.port))
            while listener.active_clients:
                await asyncio.sleep(0.01)
        assert len(served) == 2
        assert listener.closed

    run(program())


def test_tags_of_a_connection_are_its_own(mode):
    async def program():
        client, server, listener = await connected()
        with listener:
            buffers = {name: bytearray(5) for name in ("plain", "one", "two", "forced")}
            receives = [
                server.recv(buffers["one"], tag=1),
                server.recv(buffers["two"], tag=2),
                server.recv(buffers["plain"]),
                ucxx.recv(buffers["forced"], 1),
            ]
            await client.send(b"plain")
            await client.send(b"force", tag=1, force_tag=True)
            await client.send(b"two  ", tag=2)
            await client.send(b"one  ", tag=1)
            await asyncio.gather(*receives)
            assert {name: bytes(buffer).strip() for name, buffer in buffers.items()} == {
                "plain": b"plain", "one": b"one", "two": b"two", "forced": b"force",
            }  # fmt: skip
            assert client.tags == server.tags[::-1]
            assert client.tags[0] != client.tags[1]
            await asyncio.gather(client.close(), server.close())

    run(program())


def test_endpoints_by_the_workers_address_need_no_listener(mode):
    async def program():
        address = ucxx.get_ucx_address_from_buffer(bytes(ucxx.get_worker_address()))
        endpoint = await ucxx.create_endpoint_from_worker_address(address)
        receive = endpoint.recv(bytearray(4))
        await endpoint.send(b"self")
        assert await receive == b"self"
        await endpoint.close()

    run(program())


def test_who_listens_no_more_is_not_connected_to(mode):
    async def program():
        listener = ucxx.create_listener(lambda endpoint: None, ip_address="127.0.0.1")
        listener.close()
        with pytest.raises(ucxx.UCXNotConnectedError):
            await ucxx.create_endpoint("127.0.0.1", listener.port)
        with pytest.raises(ucxx.UCXInvalidAddrError):
            await ucxx.create_endpoint("no such host.invalid", 1)

    run(program())


def test_a_peer_that_closes_ends_what_waits_and_calls_back_once(mode):
    async def program():
        client, server, listener = await connected()
        with listener:
            calls = []
            server.set_close_callback(
                lambda *words, **named: calls.append((words, named)), ("bye",), {"twice": False}
            )
            waiting = [server.recv(bytearray(4), tag=5), server.am_recv(), server.stream_recv(bytearray(1))]
            await client.send(b"last")
            await client.close()
            for each in waiting:
                with pytest.raises(ucxx.UCXError):
                    await each.wait(PATIENCE)
            assert calls == [(("bye",), {"twice": False})]
            assert server.closed
            assert not server.alive
            assert await server.recv(bytearray(4)) == b"last"
            with pytest.raises(ucxx.UCXConnectionResetError):
                await server.send(b"none")
            with pytest.raises(ucxx.UCXConnectionResetError):
                server.raise_on_error()
            with pytest.raises(ucxx.UCXCloseError):
                await client.send(b"none")
            late = []
            server.set_close_callback(late.append, (1,))
            assert late == [1]
            await server.close()
            assert len(calls) == 1

    run(program())


def test_an_endpoint_that_is_aborted_ends_at_both_ends(mode):
    async def program():
        client, server, listener = await connected()
        with listener:
            receive = client.recv(bytearray(4))
            client.abort()
            with pytest.raises(ucxx.UCXCanceledError):
                await receive
            while server.alive:
                await asyncio.sleep(0.01)

    run(program())


def test_an_endpoint_closes_itself_after_so_many_receives(mode):
    async def program():
        client, server, listener = await connected()
        with listener:
            server.close_after_n_recv(2)
            with pytest.raises(ucxx.UCXInvalidParamError):
                server.close_after_n_recv(2)
            for number in range(2):
                await client.send(bytes([number]))
                assert server.alive
                await server.recv(bytearray(1))
            while client.alive:
                await asyncio.sleep(0.01)
            assert server.closed

    run(program())


def test_a_coroutine_that_is_cancelled_loses_no_message(mode):
    async def program():
        client, server, listener = await connected()
        with listener:
            for receive in (lambda: server.recv(bytearray(4)), server.am_recv):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(receive(), 0.05)
            await client.send(b"next")
            assert await server.recv(bytearray(4)) == b"next"
            await client.am_send(b"more")
            assert bytes(await server.am_recv()) == b"more"
            kept = server.recv(bytearray(4))
            with pytest.raises(ucxx.UCXTimedOutError):
                await kept.wait(0.05)
            await client.send(b"kept")
            assert await kept == b"kept"

    run(program())


def test_several_may_await_one_request_and_its_future(mode):
    async def program():
        client, server, listener = await connected()
        with listener:
            receive = server.recv(bytearray(4))
            future = receive.get_future()
            tasks = [asyncio.ensure_future(receive.wait()) for _ in range(3)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            await client.send(b"once")
            assert await tasks[1] == await tasks[2] == await future == await receive.future == b"once"
            assert receive.get_recv_buffer() is receive.recv_buffer
            assert await receive.wait_yield() == b"once"

    run(program())


def test_a_loop_that_ends_in_the_midst_leaves_the_next_one_all_it_needs(mode):
    async def first():
        endpoint = await ucxx.create_endpoint_from_worker_address(ucxx.get_worker_address())
        receive = endpoint.recv(bytearray(4))
        waiting = asyncio.ensure_future(receive.wait())  # cancelled by the end of the loop
        await asyncio.sleep(0)
        assert not waiting.done()
        return endpoint

    async def second(endpoint):
        receive = endpoint.recv(bytearray(5))
        await endpoint.send(b"hello")
        assert await receive == b"hello"

    endpoint = run(first())
    for _ in range(2):
        run(second(endpoint))


def test_a_callback_that_raises_stops_nothing(mode, monkeypatch):
    seen = []
    monkeypatch.setattr(threading, "excepthook", lambda given: seen.append(given.exc_value))

    async def program():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context["exception"]))
        client, server, listener = await connected()
        with listener:
            server.set_close_callback(lambda: 1 // 0)
            await client.close()
            while not seen:
                await asyncio.sleep(0.01)
            assert isinstance(seen[0], ZeroDivisionError)
            again = await ucxx.create_endpoint("127.0.0.1", listener.port)
            await again.close()

    with contextlib.suppress(asyncio.InvalidStateError):
        run(program())


def test_init_comes_first_and_reset_makes_space_for_another():
    ucxx.init(options={"RNDV_THRESH": "64k"})
    try:
        assert ucxx.get_config()["RNDV_THRESH"] == "64k"
        with pytest.raises(ucxx.UCXInvalidParamError, match="first"):
            ucxx.init()
        endpoint = ucxx.Endpoint.create_from_worker_address(ucxx.get_ucxx_worker(), ucxx.get_worker_address())
    finally:
        ucxx.reset()
    ucxx.reset()
    assert endpoint.closed
    with pytest.raises(ucxx.UCXCloseError):
        endpoint.send(b"none")
    assert ucxx.get_config()["RNDV_THRESH"] != "64k"
    for wrong in ({"NO_SUCH_KEY": "1"}, {"RNDV_THRESH": "plenty"}):
        with pytest.raises(ucxx.UCXConfigError):
            ucxx.init(options=wrong)
    with pytest.raises(ucxx.UCXInvalidParamError, match="progress_mode"):
        ucxx.init(progress_mode="magic")


def test_the_environment_names_the_mode_and_may_win_over_options(monkeypatch):
    monkeypatch.setenv("UCXPY_PROGRESS_MODE", "thread")
    monkeypatch.setenv("UCX_RNDV_THRESH", "32k")
    ucxx.init(options={"UCX_RNDV_THRESH": "64k"}, env_takes_precedence=True)
    try:
        assert ucxx.get_ucxx_worker().served
        assert ucxx.get_config()["RNDV_THRESH"] == "32k"
    finally:
        ucxx.reset()


def test_what_the_process_has_can_be_asked():
    try:
        assert ucxx.get_ucx_version() == (1, 12, 1)
        assert "UCP context" in ucxx.get_ucp_context_info()
        assert "UCP worker" in ucxx.get_ucp_worker_info()
        assert ucxx.get_ucp_worker() == ucxx.get_ucxx_worker().handle
        assert len(ucxx.get_active_transports()) == 1
        assert not ucxx.progress()
        ucxx.stop_notifier_thread()
        assert ucxx.get_address("lo") == "127.0.0.1"
        assert ucxx.get_address()
        with pytest.raises(OSError, match="No such device"):
            ucxx.get_address("no-such-if")
    finally:
        ucxx.reset()


@pytest.mark.parametrize("polling", [False, True])
def test_low_level_objects_are_awaited_on_every_pair_of_devices(everywhere, polling):
    everywhere.a.polling = everywhere.b.polling = polling

    async def program():
        receive = everywhere.ba.tag_recv(bytearray(100), 1)
        await everywhere.ab.tag_send(pattern(100), 1)
        assert await receive == bytes(pattern(100))
        memory = everywhere.contexts[1].alloc(64)
        key = memory.pack()
        assert await everywhere.ab.atomic("add", 5, key, reply=True) == 0
        await everywhere.ab.put(b"12345678", key, 8)
        await everywhere.ab.flush()
        assert await everywhere.ab.get(bytearray(8), key, 8) == b"12345678"
        await everywhere.ab.close()

    run(program())


def calls_of(run):
    """Calls of functions in Python and C that a function leads to in this thread."""
    events = Counter()
    sys.setprofile(lambda frame, event, arg: events.update((event,)))
    try:
        run()
    finally:
        sys.setprofile(None)
    return events["call"] + events["c_call"]


def test_awaiting_makes_at_most_twice_the_calls_of_the_plain_call(models):
    """In a message there and back, those of simulated NICs included: a busy machine changes time, not calls."""
    count = 40
    with Parties(models) as parties:
        buffer = bytearray(64)

        async def awaited():
            for _ in range(count):
                receive = parties.ba.tag_recv(buffer, 1)
                await parties.ab.tag_send(buffer, 1)
                await receive

        def plain():
            for _ in range(count):
                receive = parties.ba.tag_recv(buffer, 1)
                parties.ab.tag_send(buffer, 1).result()
                receive.result()

        plain()
        with asyncio.Runner() as runner:
            runner.run(awaited())
            taken = calls_of(lambda: runner.run(awaited()))
        reference = calls_of(plain)
        assert taken <= 2 * reference, f"{taken / count:.0f} calls awaited, {reference / count:.0f} calls plain"


def test_two_loops_in_two_threads_share_a_progress_thread():
    ucxx.init(progress_mode="thread")
    failures = []

    async def program(tag):
        endpoint = await ucxx.create_endpoint_from_worker_address(ucxx.get_worker_address())
        for number in range(20):
            receive = endpoint.recv(bytearray(4), tag=tag)
            await endpoint.send(number.to_bytes(4, "big"), tag=tag)
            assert await receive == number.to_bytes(4, "big")
        await endpoint.close()

    def thread(tag):
        try:
            run(program(tag))
        except BaseException as error:
            failures.append(error)

    try:
        threads = [threading.Thread(target=thread, args=(tag,)) for tag in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE)
        assert failures == []
    finally:
        ucxx.reset()


def test_two_loops_in_two_threads_without_one_are_refused(parties):
    refused = []

    async def waits():
        receive = parties.ba.tag_recv(bytearray(4), 1)
        waiting = asyncio.ensure_future(receive.wait())
        await asyncio.sleep(0)

        def other():
            async def program():
                await parties.ba.tag_recv(bytearray(4), 2)

            try:
                asyncio.run(program())
            except ucxx.UCXBusyError as error:
                refused.append(error)

        thread = threading.Thread(target=other)
        # joined without the loop's turn, so that nothing of it runs meanwhile
        thread.start()
        thread.join()
        waiting.cancel()

    run(waits())
    assert len(refused) == 1


def test_nothing_is_left_of_requests_that_have_ended(parties):
    async def program():
        for _ in range(20):
            receive = parties.ba.tag_recv(bytearray(4), 1)
            await parties.ab.tag_send(b"data", 1)
            await receive

    run(program())
    gc.collect()
    assert not parties.b.receives
    assert not [each for each in gc.get_objects() if isinstance(each, ucxx.Request)]
