"""The pytest plugin, as those who write tests meet it: whole runs of pytest."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.testing import BrokerThread, plugin
from tests import conftest as own_conftest
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_port
from tests.testing.test_docs import INI, TESTS

pytest_plugins = "pytester"

EMPTY_EACH_TIME = """
    import pytest

    @pytest.mark.parametrize("time", range(3))
    def test_empty(minibroker, time):
        assert minibroker.topics() == []
        assert minibroker.groups() == []
        minibroker.create_topic("orders")
        minibroker.produce("orders", "one")
        assert len(minibroker.records("orders")) == 1
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(INI)
    return pytester


def with_ini(suite: pytest.Pytester, *lines: str) -> None:
    suite.makeini("\n".join([INI, *lines]))


@pytest.mark.parametrize("form", ["thread", "process"])
def test_a_broker_is_empty_and_the_same_for_each_test(suite: pytest.Pytester, form: str) -> None:
    with_ini(suite, f"minibroker_form = {form}", "minibroker_config =", "    num.partitions=4")
    suite.makepyfile(
        EMPTY_EACH_TIME
        + """
    def test_form(minibroker, minibroker_bootstrap, minibroker_session):
        assert minibroker is minibroker_session
        assert minibroker_bootstrap == minibroker.bootstrap_servers
        assert type(minibroker).__name__ == "Broker" + FORM.capitalize()
        minibroker.produce("new", "one", partition=3)

    def test_topics(minibroker_topic, minibroker, request):
        assert minibroker.topics() == [minibroker_topic]
        assert "test_topics" in minibroker_topic

    def test_topic_alone(minibroker_topic, minibroker_session):
        minibroker_session.delete_topic(minibroker_topic)

    def test_topic_is_gone(minibroker_session):
        assert minibroker_session.topics() == []
    """.replace("FORM", repr(form))
    )
    suite.runpytest_inprocess().assert_outcomes(passed=7)


def test_failure_report_lists_the_requests(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        def test_fails(minibroker):
            admin = AdminClient({"bootstrap.servers": minibroker.bootstrap_servers, "client.id": "till"})
            admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
            print(admin.create_topics([NewTopic("orders", 1)])["orders"].exception(30))
            del admin  # or it lives in the traceback, and looks for its broker for ever
            assert False

        def test_fails_without_asking(minibroker):
            assert False

        def test_fails_without_a_broker():
            assert False

        def test_passes(minibroker):
            minibroker.create_topic("orders")
        """
    )
    ran = suite.runpytest_inprocess()
    ran.assert_outcomes(failed=3, passed=1)
    sections = ran.stdout.str().split(" minibroker requests ")[1:]
    assert len(sections) == 2
    requests = [line for line in sections[0].splitlines() if "CreateTopics" in line]
    assert len(requests) == 2
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  till  CreateTopics v\d  orders  \d+\.\d ms", requests[0])
    assert re.search(r"till  CreateTopics v\d  orders  -> TOPIC_ALREADY_EXISTS  \d", requests[1])
    assert sections[1].splitlines()[1] == "none"
    with_ini(suite, "minibroker_request_lines = 0")
    assert "minibroker requests" not in suite.runpytest_inprocess().stdout.str()


def test_a_secured_broker(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def minibroker_secure_options():
            return {"users": {"alice": "a"}, "topics": ["orders"]}
        """
    )
    suite.makepyfile(
        """
        import pytest

        addresses = []

        @pytest.mark.parametrize("time", [1, 2])
        def test_the_same_broker_is_empty_each_time(minibroker_secure, time):
            assert minibroker_secure.client_config("java", user="alice")["security.protocol"] == "SASL_SSL"
            assert minibroker_secure.records("orders") == []
            minibroker_secure.produce("orders", "apples")
            addresses.append(minibroker_secure.bootstrap_servers)
            assert len(set(addresses)) == 1
            minibroker_secure.stop()

        @pytest.mark.minibroker_secure(users={"bob": "b"}, mtls=True)
        def test_a_marker_says_otherwise(minibroker_secure):
            assert "ssl.keystore.key" in minibroker_secure.client_config("java", user="bob")
            assert minibroker_secure.bootstrap_servers not in addresses
            assert False
        """
    )
    ran = suite.runpytest_inprocess("--strict-markers")
    ran.assert_outcomes(passed=2, failed=1)
    assert len(ran.stdout.str().split(" minibroker requests ")) == 2
    suite.runpytest_inprocess("--minibroker-bootstrap", "127.0.0.1:1").assert_outcomes(skipped=3)


def test_each_worker_has_its_own_broker(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_a=EMPTY_EACH_TIME, test_b=EMPTY_EACH_TIME, test_c=EMPTY_EACH_TIME)
    ran = suite.runpytest_subprocess("-n", "2", "--dist", "load", "--minibroker-keep-data", "kept")
    ran.assert_outcomes(passed=9)
    kept = sorted(found.name for found in (suite.path / "kept").iterdir())
    assert kept == ["gw0", "gw1"]
    assert (suite.path / "kept" / "gw0" / "orders-0").is_dir()


def test_errors_are_one_line(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_one(minibroker): pass")
    wrong = [
        ("minibroker_form = threads", [], "minibroker_form=threads: use thread or process"),
        ("minibroker_config = num.partitions", [], "minibroker_config: 'num.partitions' is not NAME=VALUE"),
        ("minibroker_request_lines = many", [], "minibroker_request_lines=many: give a number"),
        ("minibroker_brokers = three", [], "minibroker_brokers=three: give a number"),
        ("", ["--minibroker-brokers", "0"], "brokers must be at least 1, got 0"),
        (
            "",
            ["--minibroker-brokers", "3", "--minibroker-bootstrap", "x:1"],
            "--minibroker-brokers: the number of brokers of --minibroker-bootstrap",
        ),
    ]
    for line, arguments, words in wrong:
        with_ini(suite, line)
        ran = suite.runpytest_inprocess(*arguments)
        assert ran.ret == pytest.ExitCode.USAGE_ERROR
        assert f"ERROR: {words}" in ran.stderr.str()
    for line, words in {
        "minibroker_config = num.partitions=many": "the broker does not start: Invalid value many for configuration num.partitions",
        "minibroker_brokers = 1000": "brokers must be from 1 to ",
    }.items():
        with_ini(suite, line)
        ran = suite.runpytest_inprocess("--tb=line")
        ran.assert_outcomes(errors=1)
        assert words in ran.stdout.str()


HOW_MANY = """
    import pytest

    def test_brokers(minibroker):
        assert len(minibroker.nodes.addresses) == EXPECTED
        minibroker.create_topic("orders")
        assert len(minibroker.leaders.describe("orders", 0)["replicas"]) == EXPECTED
"""


def test_how_many_brokers_clients_see(suite: pytest.Pytester) -> None:
    def run(expected: int, *arguments: str) -> str:
        suite.makepyfile(HOW_MANY.replace("EXPECTED", str(expected)))
        ran = suite.runpytest_inprocess(*arguments)
        ran.assert_outcomes(passed=1)
        return ran.stdout.str()

    assert "minibroker: " not in run(1)
    assert "minibroker: 3 brokers" in run(3, "--minibroker-brokers", "3")
    with_ini(suite, "minibroker_brokers = 2")
    run(2)
    suite.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def minibroker_options():
            return {"brokers": 3, "racks": ["a", "b", "c"]}
        """
    )
    run(3)
    run(2, "--minibroker-brokers", "2")


@pytest.mark.parametrize("form", ["thread", "process"])
def test_broker_stopped_by_a_test_is_restarted_for_the_next(suite: pytest.Pytester, form: str) -> None:
    with_ini(suite, f"minibroker_form = {form}")
    suite.makeconftest(SEED.format(name="prices"))
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("way", ["stop", "kill", "none"])
        def test_seed(minibroker, minibroker_topic, way):
            assert set(minibroker.topics()) == {"prices", minibroker_topic}
            assert minibroker.is_running
            if way != "none":
                getattr(minibroker, way, minibroker.stop)()
                assert not minibroker.is_running

        def test_stop_again(minibroker):
            minibroker.stop()

        def test_topic_alone(minibroker_topic, minibroker_session):
            assert minibroker_topic in minibroker_session.topics()
        """
    )
    suite.runpytest_inprocess().assert_outcomes(passed=5)


@pytest.mark.parametrize("form", ["thread", "process"])
def test_a_broker_that_a_test_has_started_again_has_the_seed_for_the_next_one(suite: pytest.Pytester, form: str) -> None:
    with_ini(suite, f"minibroker_form = {form}")
    suite.makepyfile(
        """
        import pytest

        calls = []

        @pytest.fixture(scope="session")
        def minibroker_seed():
            def fill(broker):
                calls.append(broker)
                broker.create_topic("prices")
            return fill

        @pytest.mark.parametrize("time", range(4))
        def test_seed(minibroker, time):
            assert minibroker.topics() == ["prices"]
            minibroker.create_topic("orders")
            if time == 1:
                minibroker.stop()
                minibroker.start()

        def test_it_is_planted_once_for_each_process(minibroker):
            assert len(calls) == (2 if type(minibroker).__name__ == "BrokerProcess" else 1)
        """
    )
    suite.runpytest_inprocess().assert_outcomes(passed=5)


SEED = """
import pytest

@pytest.fixture(scope="session")
def minibroker_seed():
    return lambda broker: broker.create_topic("{name}")
"""


def test_each_folder_finds_its_own_seed(suite: pytest.Pytester) -> None:
    for name in ("prices", "orders"):
        folder = suite.mkdir(name)
        (folder / "conftest.py").write_text(SEED.format(name=name))
        (folder / f"test_{name}.py").write_text(
            "import pytest\n\n@pytest.mark.parametrize('time', range(2))\n"
            f"def test_it(minibroker, time):\n    assert minibroker.topics() == ['{name}']\n    minibroker.create_topic('more')\n"
        )
    (suite.mkdir("bare") / "test_bare.py").write_text("def test_it(minibroker):\n    assert minibroker.topics() == []\n")
    suite.runpytest_inprocess("prices", "orders", "bare").assert_outcomes(passed=5)
    for name, options in {"prices": "{}", "bare": "{'brokers': 2}"}.items():
        text = f"import pytest\n\n@pytest.fixture(scope='session')\ndef minibroker_options():\n    return {options}\n"
        (suite.path / name / "conftest.py").write_text(text)
    (suite.path / "prices" / "test_prices.py").write_text("def test_it(minibroker): pass\n")
    ran = suite.runpytest_inprocess("prices", "bare")
    ran.assert_outcomes(passed=1, errors=1)
    ran.stdout.fnmatch_lines(["minibroker_options differ from those with which this run's broker was started: *"])


def test_run_without_a_broker_imports_no_broker_modules(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import sys

        def test_imports(request):
            ours = [name for name in sys.modules if name.startswith("minibroker")]
            assert ours == ["minibroker", "minibroker.testing", "minibroker.testing.plugin"]
        """
    )
    suite.runpytest_subprocess().assert_outcomes(passed=1)


def test_fixture_names_do_not_collide_with_our_own_tests() -> None:
    own = {name for name in vars(own_conftest) if not name.startswith("_")}
    theirs = {name for name in vars(plugin) if not name.startswith("_")} - set(vars(pytest))
    fixtures = {name for name in theirs if name.startswith("minibroker")}
    assert len(fixtures) == 9
    assert fixtures.isdisjoint(own)


# -- on a given Kafka ---------------------------------------------------------------------------------------------------

GIVEN = """
    import pytest
    from confluent_kafka import Consumer

    @pytest.fixture(scope="session")
    def minibroker_seed():
        return lambda broker: broker.create_topic("prices")

    @pytest.mark.parametrize("time", range(2))
    def test_empty_but_for_what_was_there(minibroker, minibroker_topic, time):
        assert set(minibroker.topics()) - {minibroker_topic} == {"of-others", "prices"}
        minibroker.create_topic("orders")
        minibroker.produce("orders", "one")
        consumer = Consumer({"bootstrap.servers": minibroker.bootstrap_servers, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        minibroker.wait_assigned("readers")
        assert consumer.poll(30).value() == b"one"
        consumer.commit(asynchronous=False)
        consumer.close()
        assert minibroker.groups() == ["readers"]
        with pytest.raises(Exception, match="already exists"):
            minibroker.create_topic("orders")

    def test_only_a_minibroker_can_do_that(minibroker):
        minibroker.snapshot()

    def test_nor_that(minibroker):
        print(minibroker.request_log)
"""


@pytest.fixture(scope="module", params=["minibroker", pytest.param("kafka", marks=pytest.mark.java)])
def given(request: pytest.FixtureRequest) -> Iterator[str]:
    """A Kafka with a topic of another user."""
    if request.param == "kafka":
        with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder)) as kafka:
            yield kafka.bootstrap
    else:
        with BrokerThread() as broker:
            yield broker.bootstrap_servers


def test_the_same_tests_run_on_a_given_kafka(suite: pytest.Pytester, given: str) -> None:
    from minibroker.testing import GivenCluster, Unsupported

    outside = GivenCluster(given).start()
    outside.create_topic("of-others")
    outside.produce("of-others", "mine")
    suite.makepyfile(test_a=GIVEN, test_b=GIVEN)
    ran = suite.runpytest_subprocess("-n", "2", "--dist", "loadfile", "--minibroker-bootstrap", given, "-rs")
    ran.assert_outcomes(passed=4, skipped=4)
    ran.stdout.fnmatch_lines(["*snapshot() needs a minibroker: *", "*request_log needs a minibroker: *"])
    suite.makepyfile(test_a="", test_b="", **{f"test_example_{number}": text for number, text in enumerate(TESTS)})
    ran = suite.runpytest_inprocess("--minibroker-bootstrap", given)
    ran.assert_outcomes(passed=3, skipped=3)
    assert outside.topics() == ["of-others"]
    assert outside.groups() == []
    assert [record.text for record in outside.records("of-others")] == ["mine"]
    with pytest.raises(Unsupported, match=r"^snapshot\(\) needs a minibroker"):
        outside.snapshot()
    outside.delete_topic("of-others")


def test_a_given_cluster_that_sends_clients_to_another_one_is_refused(suite: pytest.Pytester, tmp_path: Path) -> None:
    suite.makepyfile("def test_one(minibroker): minibroker.create_topic('never')")
    with BrokerThread() as other:
        with BrokerProcess(tmp_path, "--set", f"advertised.listeners=PLAINTEXT://{other.bootstrap_servers}") as broker:
            listens = re.search(r"\(listens on PLAINTEXT://:(\d+)\)", broker.output)
            assert listens is not None
            ran = suite.runpytest_inprocess("--minibroker-bootstrap", f"127.0.0.1:{listens[1]}")
            ran.assert_outcomes(errors=1)
            (line,) = [line for line in ran.outlines if line.startswith("--minibroker-bootstrap=")]
            assert f"advertises {other.bootstrap_servers}, but another cluster answers there" in line
        assert other.topics() == []


def test_unreachable_given_cluster_is_a_one_line_error(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_one(minibroker): pass")
    port = free_port()
    ran = suite.runpytest_inprocess("--minibroker-bootstrap", f"127.0.0.1:{port}", "-q")
    ran.assert_outcomes(errors=1)
    words = "Connection refused. Is a broker running there?"
    heading = next(index for index, line in enumerate(ran.outlines) if "ERROR at setup" in line)
    assert ran.outlines[heading + 1] == f"--minibroker-bootstrap=127.0.0.1:{port}: cannot connect to 127.0.0.1:{port}: {words}"
    assert "short test summary" in ran.outlines[heading + 2]
