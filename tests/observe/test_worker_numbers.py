"""The numbers of all worker processes on one page."""

import asyncio
import tempfile

from prometheus_client.parser import text_string_to_metric_families

from turnbuckle.observe.metrics import Metrics
from turnbuckle.observe.worker_numbers import NumberSockets, joined


def pages():
    """What two workers count; the second has a label with signs that mean something in the format."""
    one, other = (Metrics(routes=['a b{"']) for _ in range(2))
    one.http("GET", "/x", 200, 0.1)
    other.http("GET", "/x", 200, 0.1)
    other.http("POST", "/x", 500, 0.1)
    return one.render(), other.render()


def samples(page):
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_every_number_of_every_worker_is_there_once_under_its_worker_and_each_family_once():
    first, second = pages()
    whole = joined([first, None, second])
    found = samples(whole)
    for worker, page in (("1", first), ("3", second)):
        for (name, labels), value in samples(page).items():
            assert found.pop((name, labels | {("worker", worker)})) == value
    ups = {dict(labels)["worker"]: value for (name, labels), value in found.items()}
    assert ups == {"1": 1.0, "2": 0.0, "3": 1.0}
    assert {name for name, _ in found} == {"turnbuckle_worker_up"}
    heads = [line for line in whole.decode().splitlines() if line.startswith("# HELP")]
    assert len(heads) == len(set(heads))


def test_a_name_with_a_space_in_a_label_stays_whole():
    page = b'# HELP a b\n# TYPE a gauge\na{x="{ y"} 1\n# HELP c d\n# TYPE c gauge\nc 2\n'
    assert joined([page]).decode().splitlines()[2:] == [
        'turnbuckle_worker_up{worker="1"} 1',
        "# HELP a b",
        "# TYPE a gauge",
        'a{worker="1",x="{ y"} 1',
        "# HELP c d",
        "# TYPE c gauge",
        'c{worker="1"} 2',
    ]


def test_workers_tell_each_other_and_one_that_cannot_be_asked_is_told_as_down(monkeypatch):
    monkeypatch.setattr("turnbuckle.observe.worker_numbers.PATIENCE", 100)

    async def main():
        sockets = NumberSockets(3)
        assert sockets.folder.stat().st_mode & 0o077 == 0

        async def numbers():
            return b"a 2\n"

        telling = await sockets.serve(1, numbers)
        (sockets.folder / "3").unlink()
        page = await sockets.all(0, b"a 1\n")
        telling.close()
        sockets.close()
        return page, sockets.folder.exists()

    page, is_left = asyncio.run(main())
    assert page.decode().splitlines()[2:] == [
        'turnbuckle_worker_up{worker="1"} 1',
        'turnbuckle_worker_up{worker="2"} 1',
        'turnbuckle_worker_up{worker="3"} 0',
        'a{worker="1"} 1',
        'a{worker="2"} 2',
    ]
    assert not is_left


def test_a_worker_that_leaves_in_good_order_leaves_its_socket_to_the_next_one(monkeypatch, tmp_path):
    """Also where the folder for temporary files has a name that is too long for the address of a socket."""
    monkeypatch.setattr("turnbuckle.observe.worker_numbers.PATIENCE", 100)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 100)))

    async def main():
        sockets = NumberSockets(2)
        try:
            for _ in range(2):

                async def numbers():
                    return b"a 2\n"

                telling = await sockets.serve(1, numbers)
                page = await sockets.all(0, b"a 1\n")
                telling.close()
                await telling.wait_closed()
            return page
        finally:
            sockets.close()

    assert b'turnbuckle_worker_up{worker="2"} 1' in asyncio.run(main())
