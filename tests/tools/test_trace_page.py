"""The page of ``amoeba trace --html`` in a real browser: it says what the recording has, and answers the hand.

Covers ``tracing/html.py`` and ``tracing/operations.py``.
"""

import re

import numpy as np
import pytest
from amoeba import MrAccess, Op
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_model.frames import Frame
from amoeba_model.impairments import Impairments
from amoeba_model.trace import BusEvent, BusState, Channel, Stage
from amoeba_model.wire.render import layers
from amoeba_tools.random_access import run_gups
from amoeba_tools.tracing import Recorder, operations_of, trace_fetch_atomic
from amoeba_tools.tracing.html import GROUPS, write_page

from tests.support.browser import chromium

ROW = 20


@pytest.fixture(scope="module")
def browser():
    with chromium() as visit:
        yield visit


@pytest.fixture(scope="module")
def atomic(tmp_path_factory):
    """(page, recording) of one atomic."""
    with open_cluster(["model", "model"]) as fabric:
        recording = trace_fetch_atomic(fabric).recording
    # what only RTL has: read data moves for 40 cycles, and then waits for 10
    start = recording.events[0][1].cycle
    for cycle, state in ((100, BusState.MOVES), (140, BusState.WAITS), (150, BusState.IDLE)):
        recording.buses.append((0, BusEvent(start + cycle, Channel.HOST_READ_DATA, state)))
    path = tmp_path_factory.mktemp("page") / "atomic.html"
    assert write_page(path, [recording], "the life of an atomic <&>") == 1
    return path, recording


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    """The same of thousands of updates."""
    with Recorder() as recorder, open_cluster(["model", "model"]) as fabric:
        run_gups(fabric, table_bits=9)
    path = tmp_path_factory.mktemp("page") / "gups.html"
    write_page(path, recorder.recordings, "gups")
    return path, recorder.recordings[0]


def opened(visit, path):
    page = visit.open(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    settle(page)
    return page


def settle(page):
    """Wait until what was asked for has been drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def coloured(page, canvas, name):
    """How many pixels of a canvas have a colour of the page's."""
    return page.evaluate(
        """([canvas, name]) => {
          const probe = document.createElement("canvas").getContext("2d");
          probe.fillStyle = colours[name]; probe.fillRect(0, 0, 1, 1);
          const wanted = probe.getImageData(0, 0, 1, 1).data, drawn = document.getElementById(canvas);
          const { data } = drawn.getContext("2d").getImageData(0, 0, drawn.width, drawn.height);
          let count = 0;
          for (let at = 0; at < data.length; at += 4) {
            count += [0, 1, 2].every((part) => Math.abs(data[at + part] - wanted[part]) < 3) && data[at + 3] > 250;
          }
          return count;
        }""",
        [canvas, name],
    )


def click_row(page, number, x=400):
    box = page.locator("#scroll").bounding_box()
    page.mouse.click(box["x"] + x, box["y"] + number * ROW + ROW // 2)
    settle(page)


def test_the_page_loads_nothing_and_draws_every_kind_of_stage(browser, atomic):
    path, _ = atomic
    text = path.read_text()
    assert re.findall(r"(?:src|href)=\"(?!data:)", text) == []
    assert "default-src 'none'" in text
    page = opened(browser, path)
    assert page.title() == "the life of an atomic <&>"
    for group in set(GROUPS.values()) - {"wire"}:  # which is drawn half transparent
        assert coloured(page, "rows", group) > 3, group
    assert coloured(page, "tracks", "move") > 3
    assert coloured(page, "tracks", "wait") > 3
    assert browser.errors == []


def test_a_click_shows_the_stages_with_their_cycles(browser, atomic):
    path, recording = atomic
    page = opened(browser, path)
    click_row(page, 0)
    rows = page.locator("#stages tr").all_inner_texts()[1:]
    (operation,) = operations_of(recording)
    events = sorted(
        [*operation.events, *operation.packets[0].events], key=lambda at: (at[1].cycle, at[1].stage)
    )
    assert [row.split("\t")[0].strip() for row in rows] == [str(at.cycle - operation.begin) for _, at in events]
    assert [(row.split("\t")[2], row.split("\t")[3]) for row in rows] == [
        (str(nic), at.stage.name.lower().replace("_", " ")) for nic, at in events
    ]


def test_frames_are_decoded_on_a_click_as_the_model_decodes_them(browser, atomic):
    path, recording = atomic
    page = opened(browser, path)
    click_row(page, 0)
    frames = page.locator("aside details")
    assert frames.count() == len(recording.frames) == 2
    frames.first.locator("summary").click()
    frames.first.locator("table").last.wait_for()  # the page is told that it is open some time after the click
    text = frames.first.inner_text()
    for field in (field for layer in layers(recording.frames[0][1].data) for field in layer.fields):
        if not field.name.startswith("reserved"):
            assert f"{field.name}\t{field.value}" in text


def test_any_frame_is_decoded_as_the_model_decodes_it(browser, tmp_path):
    """Requests, answers with and without data, NACKs, what is no frame, and long payloads, over a bad link."""
    with (
        Recorder() as recorder,
        open_cluster(["model", "model"], impairments=Impairments(seed=2, loss=0.1)) as fabric,
        fabric.domain(0) as owner, fabric.domain(1) as user,
        owner.cq_open() as other, user.cq_open() as queue, owner.av_open() as nobody, user.av_open() as peers,
        owner.mr_reg(np.zeros(1 << 14, np.uint8), MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE) as region,
        owner.endpoint(cq=other, av=nobody) as server, user.endpoint(cq=queue, av=peers) as client,
    ):  # fmt: skip
        peer = peers.insert(server.getname())
        data = np.arange(1 << 14, dtype=np.uint8)
        for _ in range(4):
            client.write(data, peer, region.address, region.key)
            client.read(data[:5000], peer, region.address, region.key)
            client.compare_atomic(
                np.uint64(1), np.uint64(2), np.zeros(1, np.uint64), peer, region.address, region.key, Op.FI_CSWAP
            )
            for _ in range(3):
                queue.sread()
    (recording,) = recorder.recordings
    recording.frames.append((0, Frame(recording.frames[-1][1].cycle + 1, bytes(range(60)))))
    path = tmp_path / "frames.html"
    write_page(path, [recording], "frames")
    page = opened(browser, path)
    shown = page.evaluate("run.frames.cycle.map((_, number) => layers(number))")
    assert len(shown) == len(recording.frames)
    names = {layer for frame in shown for layer, _ in frame}
    assert names >= {"pds_request", "pds_ack", "pds_nack", "atomic_extension", "payload", "undecodable"}
    for decoded, (_, frame) in zip(shown, recording.frames, strict=True):
        expected = [[layer.name, [list(field) for field in layer.fields]] for layer in layers(frame.data)]
        assert decoded == expected, frame.data[:102].hex()
    assert browser.errors == []


def test_a_workload_is_shown_by_the_rows_on_the_screen(browser, workload):
    path, recording = workload
    page = opened(browser, path)
    count = len(operations_of(recording))
    assert f"{count:,} operations" in page.locator("#facts").inner_text()
    assert page.evaluate("rows.length") == count
    assert page.evaluate("byId('rows').clientHeight") < 1000  # of 40,000 pixels
    # further down other rows are drawn, and the time goes with them
    before = page.evaluate("view.from")
    page.evaluate("byId('scroll').scrollTop = 1000 * ROW")
    page.wait_for_function("view.from > 2000")
    settle(page)
    assert page.evaluate("view.from") > before
    assert coloured(page, "rows", "memory") > 3
    assert browser.errors == []


def test_the_table_beside_has_the_durations(browser, workload):
    path, _ = workload
    page = opened(browser, path)
    text = page.locator("#durations").inner_text()
    for stage in (Stage.DESCRIPTOR, Stage.REQUEST_CHECKED, Stage.LINE_READ, Stage.RESPONSE_RECEIVED):
        assert stage.name.lower().replace("_", " ") in text


def test_time_is_zoomed_and_moved_by_wheel_drag_keys_and_buttons(browser, workload):
    path, _ = workload
    page = opened(browser, path)

    def view():
        settle(page)
        return page.evaluate("[view.from, view.to]")

    page.click("#all")
    start, end = view()
    page.mouse.move(700, 400)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -600)
    page.keyboard.up("Control")
    closer = view()
    assert closer[1] - closer[0] < (end - start) / 2
    page.mouse.move(700, 400)
    page.mouse.down()
    page.mouse.move(500, 400, steps=4)
    page.mouse.up()
    moved = view()
    assert moved[0] > closer[0]
    assert moved[1] - moved[0] == pytest.approx(closer[1] - closer[0])
    page.keyboard.press("ArrowLeft")
    assert view()[0] < moved[0]
    page.keyboard.press("0")
    assert view() == [start, end]
    page.click("#in")
    assert view()[1] - view()[0] < end - start
    page.click("#rows-view")
    assert view()[0] < 100
    box = page.locator("#map").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.8, box["y"] + 10)
    assert view()[0] > (end - start) / 2
    assert browser.errors == []


def test_hovering_tells_the_stage_and_how_many_cycles_it_took(browser, workload):
    path, _ = workload
    page = opened(browser, path)
    box = page.locator("#scroll").bounding_box()
    x = page.evaluate("toPixel(run.operations[0].begin + 20)")
    page.mouse.move(box["x"] + x, box["y"] + 10)
    settle(page)
    text = page.locator("#tip").inner_text()
    assert re.search(r"until descriptor: \d+ cycles, \d+ to \d+\nNIC \d, DescriptorDispatch", text), text
    box = page.locator("#tracks").bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + 40)
    settle(page)
    assert re.search(r"NIC 0, initiator, cycle [\d,]+\n64 in the ring", page.locator("#tip").inner_text())


def test_a_filter_and_another_order_choose_the_rows(browser, workload):
    path, recording = workload
    page = opened(browser, path)
    page.fill("#filter", "nic 1, bxor")
    settle(page)
    own = [each for each in operations_of(recording) if each.nic == 1 and "BXOR" in each.text]
    assert page.evaluate("rows.length") == len(own)
    page.fill("#filter", "no such thing")
    settle(page)
    assert page.evaluate("rows.length") == 0
    page.fill("#filter", "")
    page.select_option("#order", "longest")
    settle(page)
    lengths = page.evaluate("rows.slice(0, 20).map((row) => row.operation.end - row.operation.begin)")
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == max(each.end - each.begin for each in operations_of(recording))
    assert browser.errors == []


def test_several_packets_unfold(browser, tmp_path):
    with (
        Recorder() as recorder, open_cluster(["model", "model"]) as fabric,
        fabric.domain(0) as owner, fabric.domain(1) as user,
        owner.cq_open() as other, user.cq_open() as queue, owner.av_open() as nobody, user.av_open() as peers,
        owner.mr_reg(np.zeros(1 << 15, np.uint8), MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE) as region,
        owner.endpoint(cq=other, av=nobody) as server, user.endpoint(cq=queue, av=peers) as client,
    ):  # fmt: skip
        client.write(np.ones(20_000, np.uint8), peers.insert(server.getname()), region.address, region.key)
        queue.sread()
    path = tmp_path / "write.html"
    write_page(path, recorder.recordings, "write")
    page = opened(browser, path)
    count = page.evaluate("rows.length")
    click_row(page, 0, x=8)
    assert page.evaluate("rows.length") == count + 5
    assert page.evaluate("rows[1].packet.psn") > 0
    click_row(page, 0, x=8)
    assert page.evaluate("rows.length") == count
    click_row(page, 0)
    assert "times until" in page.locator("#stages").inner_text()  # lines are written one after the other


def test_tracks_of_many_nics_leave_space_for_the_rows(browser, tmp_path):
    with Recorder() as recorder, open_cluster(["model"] * 8) as fabric:
        run_gups(fabric, table_bits=5)
    path = tmp_path / "many.html"
    write_page(path, recorder.recordings, "many")
    page = opened(browser, path)
    chart, scroll = (page.locator(name).bounding_box()["height"] for name in ("#chart", "#scroll"))
    assert scroll > 0.45 * chart
    assert page.evaluate("byId('above').scrollHeight > byId('above').clientHeight")
    page.evaluate("byId('above').scrollTop = 200")
    settle(page)
    box = page.locator("#above").bounding_box()
    page.mouse.move(box["x"] + 500, box["y"] + 60)
    settle(page)
    assert re.match(r"NIC [1-7], (initiator|target)", page.locator("#tip").inner_text())
    assert browser.errors == []


def test_the_page_is_dark_where_the_reader_wants_it_dark(browser, atomic):
    path, _ = atomic
    page, looks = opened(browser, path), set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        settle(page)
        looks.add(page.evaluate("[getComputedStyle(document.body).backgroundColor, colours.text].join()"))
        assert coloured(page, "rows", "memory") > 3
    page.emulate_media(color_scheme="light")
    assert len(looks) == 2
    assert browser.errors == []


def test_a_page_that_embeds_the_trace_chooses_its_theme(browser, atomic):
    path, _ = atomic
    page = opened(browser, path)
    looks = []
    for theme in ("light", "dark", "auto"):
        page.evaluate("theme => postMessage({ theme }, '*')", theme)
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        settle(page)
        looks.append(page.evaluate("[getComputedStyle(document.body).backgroundColor, colours.text].join()"))
        assert coloured(page, "rows", "memory") > 3
    assert looks[0] == looks[2] != looks[1]  # the system is light
    page.evaluate("postMessage(null, '*')")  # a message of another kind
    settle(page)
    assert browser.errors == []


@pytest.mark.parametrize(("width", "height"), [(390, 844), (360, 600)])
def test_on_a_phone_the_time_has_half_of_the_width_and_the_table_is_below(browser, workload, width, height):
    path, _ = workload
    page = browser.page
    page.set_viewport_size({"width": width, "height": height})
    try:
        opened(browser, path)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("chartWidth()") > width / 2
        chart, side, rows = (page.locator(name).bounding_box() for name in ("#chart", "#side", "#scroll"))
        assert side["width"] == width
        assert side["y"] >= chart["y"] + chart["height"]
        assert rows["height"] > 4 * ROW
        click_row(page, 0, x=width - 100)
        assert page.locator("#stages tr").count() > 5
        assert browser.errors == []
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})
