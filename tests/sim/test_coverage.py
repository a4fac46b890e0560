"""Cover counts, merges and reports; it refuses what was not declared."""

import pytest
from amoeba_sim.coverage import Cover


def traffic_lights():
    cover = Cover()
    cover.declare("lamp", ["red", "green"], {"blue": "no such lamp"})
    cover.declare("day", ["on", "off", "blinking", "broken"])
    return cover


def test_holes_are_the_bins_nothing_hit():
    cover = traffic_lights()
    cover.hit("lamp", "red", 3)
    cover.hit("day", "on")
    assert cover.hits("lamp") == {"red": 3, "green": 0}
    assert cover.holes() == {"lamp": ["green"], "day": ["off", "blinking", "broken"]}


def test_the_grade_is_the_average_of_the_points():
    cover = traffic_lights()
    cover.hit("lamp", "red")
    cover.hit("lamp", "green")
    cover.hit("day", "on")
    # 2 of 2 and 1 of 4, not 3 of 6.
    assert cover.grade() == 0.625


def test_a_bin_that_was_not_declared_cannot_be_hit():
    cover = traffic_lights()
    with pytest.raises(KeyError, match="yellow"):
        cover.hit("lamp", "yellow")
    with pytest.raises(KeyError, match="no such lamp"):
        cover.hit("lamp", "blue")
    with pytest.raises(KeyError, match="night"):
        cover.hit("night", "on")


def test_contradictory_points_are_refused():
    cover = traffic_lights()
    with pytest.raises(ValueError, match="again"):
        cover.declare("lamp", ["red"])
    with pytest.raises(ValueError, match="either possible or impossible"):
        cover.declare("horn", ["loud"], {"loud": "forbidden"})
    with pytest.raises(ValueError, match="'horn'"):
        cover.declare("horn", [])


def test_runs_merge_by_adding_their_hits():
    one, other = traffic_lights(), traffic_lights()
    one.hit("lamp", "red", 2)
    other.hit("lamp", "red")
    other.hit("lamp", "green")
    other.declare("horn", ["loud"])
    other.hit("horn", "loud")
    one.merge(other)
    assert one.hits("lamp") == {"red": 3, "green": 1}
    assert one.hits("horn") == {"loud": 1}
    different = Cover()
    different.declare("lamp", ["red"])
    with pytest.raises(ValueError, match="same bins of 'lamp'"):
        one.merge(different)


def test_json_keeps_everything():
    cover = traffic_lights()
    cover.hit("day", "off", 7)
    again = Cover.from_json(cover.to_json())
    assert again.points() == ["lamp", "day"]
    assert again.hits("day") == cover.hits("day")
    assert again.holes() == cover.holes()
    with pytest.raises(KeyError, match="no such lamp"):
        again.hit("lamp", "blue")


def test_the_page_lists_points_holes_and_what_is_impossible():
    cover = traffic_lights()
    cover.hit("lamp", "red")
    text = cover.to_markdown()
    assert "| lamp | 2 | 1 |" in text
    assert "- not hit: day: on, off, blinking, broken" in text
    assert "| blue | no such lamp | lamp |" in text
    assert "Grade: 25.0 %" in text
    for name in ("on", "off", "blinking", "broken"):
        cover.hit("day", name)
    cover.hit("lamp", "green")
    assert "No possible bin was missed." in cover.to_markdown()
