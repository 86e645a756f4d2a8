# SPDX-License-Identifier: Apache-2.0
"""``ttmem serve`` as it is used: the real server in a process of its own, asked by hand and by a browser."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, call, environment, start
from support.counter_regions import region

from .test_profile_page import problems

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("uvicorn", reason="the server's packages are not installed")


@dataclass
class Served:
    """A running server."""

    process: Popen[str]
    home: Path
    url: str
    log: Path

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.url).query)["token"][0]

    def ask(self, path: str, method: str = "GET", *, token: bool = True, **headers: str) -> tuple[int, str]:
        mark = ("&" if "?" in path else "?") + f"token={self.token}" if token else ""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.putrequest(method, path + mark, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            with connection.getresponse() as answer:
                return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    settings = environment(TTMEM_HOME=str(home), TTMEM_SHM_DIR=str(home))
    for name, source in (("five", FIVE_RUNS), ("oom", BLACKHOLE_OOM), ("gone", FIVE_RUNS)):
        assert call("profile", source, "--name", name, "-q", env=settings).code == 0
    log = home / "growing.log"
    log.write_bytes(b"")
    process = start("serve", "--port", "0", "--no-open", "--follow", log, env=settings)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    found = Served(process, home, url, log)
    yield found
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in told


def test_the_first_line_is_the_address_and_only_this_machine_is_answered(served: Served) -> None:
    assert urlsplit(served.url).hostname == "127.0.0.1"
    assert len(served.token) >= 32
    others = {ip for *_, (ip, *_) in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        with pytest.raises(OSError):
            socket.create_connection((address, served.port), 2)


@pytest.mark.parametrize("path", ["/", "/report/five", "/api/reports", "/api/live", "/nowhere", "/follow/report"])
def test_nothing_is_answered_without_the_token(served: Served, path: str) -> None:
    assert served.ask(path, token=False)[0] == 403
    assert served.ask(f"{path}?token=wrong", token=False)[0] == 403
    assert served.ask(path, token=False, Authorization="Bearer wrong")[0] == 403


def test_pages_of_other_sites_are_refused(served: Served) -> None:
    assert served.ask("/", Host="evil.example")[0] == 403
    assert served.ask("/", Host=f"evil.example:{served.port}")[0] == 403
    assert served.ask("/", Host=f"127.0.0.1.evil.example:{served.port}")[0] == 403
    assert served.ask("/", Host="")[0] in (400, 403)
    assert served.ask("/", Origin="http://evil.example")[0] == 403
    assert served.ask("/api/reports/five", "DELETE", Origin="null")[0] == 403
    assert served.ask("/api/reports/five", "DELETE", Origin="http://127.0.0.1:1")[0] == 403
    assert served.ask("/", Sec_Fetch_Site="cross-site")[0] == 403
    # through a forwarded port the name is that of one's own machine
    assert served.ask("/", Host="localhost:9999")[0] == 200
    assert served.ask("/", token=False, Authorization=f"Bearer {served.token}")[0] == 200


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "five%00", "five/../oom", "unknown", "%ff"]
)
def test_only_stored_reports_can_be_named(served: Served, name: str) -> None:
    for path, method in ((f"/report/{name}", "GET"), (f"/api/reports/{name}", "DELETE")):
        status, text = served.ask(path, method)
        assert status in (404, 405), (path, text[:200])
        assert "Traceback" not in text
    assert served.ask(f"/compare?before=five&after={name}")[0] == 404
    assert served.ask("/report/five", "DELETE")[0] == 405


def test_reports_are_listed_and_opened(served: Served) -> None:
    listed = json.loads(served.ask("/api/reports")[1])["reports"]
    known = {one["name"]: one for one in listed}
    assert known["five"]["status"] == "fits"
    assert known["five"]["peak_l1_percent"] > 4
    assert known["oom"]["status"] == "oom/too-big in DRAM"
    status, page = served.ask("/report/five")
    assert (status, 'id="ttmem-report"' in page) == (200, True)


def show(browser: Browser, url: str) -> tuple[Page, list[str]]:
    page = browser.new_page()
    page.set_default_timeout(60_000)
    told: list[str] = []
    page.on("console", lambda one: told.append(one.text))
    page.on("pageerror", lambda one: told.append(str(one)))
    page.goto(url)
    page.wait_for_selector("#ttmem-report[data-ready=true]", state="attached")
    return page, told


def test_find_compare_open_and_delete_in_a_browser(browser: Browser, served: Served) -> None:
    page, told = show(browser, f"http://127.0.0.1:{served.port}/?token={served.token}")
    names = '[data-table="reports"] tbody tr td:first-child'
    assert sorted(page.locator(names).all_text_contents()) == ["five", "gone", "oom"]
    assert problems(page) == []
    page.fill("[data-role=search]", "oom")
    page.wait_for_function("() => document.querySelectorAll('[data-table=reports] tbody tr').length === 1")
    page.fill("[data-role=search]", "")
    page.wait_for_function("() => document.querySelectorAll('[data-table=reports] tbody tr').length === 3")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_label("Delete gone").click()
    page.wait_for_function("() => document.querySelectorAll('[data-table=reports] tbody tr').length === 2")
    assert not (served.home / "reports" / "gone").exists()
    page.get_by_label("Choose five to compare").click()
    page.get_by_label("Choose oom to compare").click()
    page.click("[data-role=compare]")
    page.wait_for_selector("#ttmem-report[data-ready=true] [data-view=compare]")
    page.go_back()
    page.wait_for_selector("#ttmem-report[data-ready=true]")
    page.click("text=five")
    page.wait_for_selector("#ttmem-report[data-ready=true] [data-view=timeline]")
    assert told == []
    page.close()


def test_a_growing_log_is_a_growing_chart(browser: Browser, served: Served, tmp_path: Path) -> None:
    import gzip

    text = gzip.decompress(FIVE_RUNS.read_bytes())
    served.log.write_bytes(text[: len(text) // 2])
    page, told = show(browser, served.url)
    page.wait_for_function("() => Number(document.getElementById('ttmem-report').dataset.samples) > 50")
    before = int(page.get_attribute("#ttmem-report", "data-samples") or 0)
    with served.log.open("ab") as log:
        log.write(text[len(text) // 2 :])
    page.wait_for_function(f"() => Number(document.getElementById('ttmem-report').dataset.samples) > {before + 50}")
    assert "operations in growing.log" in (page.text_content("[data-role=told]") or "")
    assert page.locator(".uplot").count() >= 2
    assert told == []
    page.close()
    assert served.ask("/follow/report")[0] == 200


def test_running_processes_are_live_charts(browser: Browser, served: Served) -> None:
    assert json.loads(served.ask("/api/live")[1])["samples"] == []
    region_file = served.home / "tt_device_7_memory"
    region_file.write_bytes(region(chip_unique_id=7, total=(4096, 2048, 0, 0, 0)))
    page, told = show(browser, f"http://127.0.0.1:{served.port}/live?token={served.token}")
    page.wait_for_selector("[data-role=live] .uplot")
    assert "dram 4,096 B" in (page.text_content("[data-role=live]") or "")
    region_file.write_bytes(region(chip_unique_id=7, total=(20480, 2048, 0, 0, 0)))
    page.wait_for_selector("[data-role=live]:has-text('dram 20.0 KiB')")
    assert told == []
    page.close()


def test_mock_boards_are_marked_and_empty_devices_are_counted(browser: Browser, served: Served) -> None:
    # GIVEN a process on a mock cluster that holds memory, and two devices that hold none
    names = [f"tt_device_{number}_memory" for number in (21, 22, 23)]
    held = (64 << 20, 0, 0, 0, 0)
    with Popen(["sleep", "120"], env={**environment(), "TT_METAL_MOCK_CLUSTER_DESC_PATH": "n150.yaml"}) as mock:
        try:
            on_mock = region(chip_unique_id=21, device=21, total=held, processes=[(mock.pid, "trial", held)])
            (served.home / names[0]).write_bytes(on_mock)
            for number, name in zip((22, 23), names[1:], strict=True):
                (served.home / name).write_bytes(region(chip_unique_id=number, device=number))
            page, told = show(browser, f"http://127.0.0.1:{served.port}/live?token={served.token}")
            page.wait_for_selector("[data-role=live]:has-text('dram 64.00 MiB')")
            titles = page.locator("[data-role=live] h3").all_text_contents()
            assert [title for title in titles if "Device 2" in title] == [
                "Device 21 (chip 21), bytes of all banks (mock)"
            ]
            status = page.text_content("[data-role=told]") or ""
            assert "2 devices hold nothing" in status
            assert f"trial ({mock.pid}, mock)" in status
            # WHEN one of them holds something THEN it is drawn, and the process that ended does not lose its mark
            (served.home / names[1]).write_bytes(region(chip_unique_id=22, device=22, total=held))
            mock.kill()
            mock.wait(timeout=20)
            page.wait_for_selector("[data-role=live] h3:text-is('Device 22 (chip 22), bytes of all banks')")
            page.wait_for_selector("[data-role=told]:has-text('1 device holds nothing')")
            assert page.locator("[data-role=live] h3:has-text('Device 21')").all_text_contents() == titles[-1:]
            assert told == []
            page.close()
        finally:
            mock.kill()
            for name in names:
                (served.home / name).unlink(missing_ok=True)


def test_a_damaged_report_is_told_in_one_line(served: Served) -> None:
    folder = served.home / "reports" / "broken"
    shutil.copytree(served.home / "reports" / "oom", folder)
    (folder / "oom_profile.ttmem").rename(folder / "broken_profile.ttmem")
    (folder / "broken_profile.ttmem").write_bytes(b"TTMEM nonsense")
    status, text = served.ask("/report/broken")
    assert status == 422
    assert text.count("\n") == 1
    shutil.rmtree(folder)


def test_over_ssh_the_line_that_forwards_the_port_is_told(tmp_path: Path) -> None:
    settings = environment(TTMEM_HOME=str(tmp_path), SSH_CONNECTION="192.0.2.7 50000 192.0.2.9 22")
    process = start("serve", "--port", "0", env=settings)
    assert process.stdout is not None
    assert process.stderr is not None
    port = urlsplit(process.stdout.readline()).port
    told = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert f"ssh -N -L {port}:127.0.0.1:{port} 192.0.2.9" in told


def test_bad_usage_is_told(tmp_path: Path) -> None:
    settings = environment(TTMEM_HOME=str(tmp_path))
    unknown = call("serve", "nothing", "--no-open", env=settings)
    assert (unknown.code, unknown.out) == (2, "")
    assert "no stored report 'nothing'" in unknown.err
    missing = call("serve", "--follow", tmp_path / "none.log", env=settings)
    assert missing.code == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = call("serve", "--port", port, "--no-open", env=settings)
    assert refused.code == 2
    assert f"port {port}" in refused.err
