"""The built pages: which file a path gives, and the headers that every answer below /console has."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from fleet.console.files import remedy
from tests.console.hub import World

PAGE = '<!doctype html><meta property="csp-nonce" nonce="__CSP_NONCE__"><script src="/console/assets/a-1.js"></script>'


@pytest.fixture
def built(world: World) -> World:
    (world.pages / "assets").mkdir()
    (world.pages / "index.html").write_text(PAGE)
    (world.pages / "favicon.svg").write_text("<svg/>")
    script = world.pages / "assets" / "a-1.js"
    script.write_text("let a")
    (world.pages / "assets" / "a-1.js.gz").write_bytes(gzip.compress(b"let a"))
    (world.pages / "assets" / "secret.key").write_text("no type of the console's")
    (world.pages.parent / "outside.js").write_text("outside")
    return world


async def test_pages_that_are_not_built_say_how_to_build_them(world: World) -> None:
    answer = await world.browser().get("/console")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "text/plain; charset=utf-8")
    assert "make console" in answer.text and answer.text.count("\n") == 1


def test_a_hub_that_was_installed_without_its_pages_says_what_to_install(tmp_path: Path) -> None:
    assert remedy(tmp_path / "console" / "package.json") == "pip install --force-reinstall fleet-queues-hub"


@pytest.mark.parametrize("path", ["/console", "/console/", "/console/jobs/default/PyTorchJob/a", "/console/index.html"])
async def test_each_page_is_the_one_page_with_a_nonce_of_its_own(built: World, path: str) -> None:
    browser = built.browser()
    first, second = [await browser.get(path), await browser.get(path)]
    assert (first.status_code, first.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert first.headers["cache-control"] == "no-store"
    nonces = [re.findall(r'nonce="([^"]{24})"', answer.text)[0] for answer in (first, second)]
    assert nonces[0] != nonces[1]
    assert f"style-src 'self' 'nonce-{nonces[0]}'" in first.headers["content-security-policy"]


async def test_assets_are_kept_by_the_browser_and_come_compressed(built: World) -> None:
    browser = built.browser()
    answer = await browser.get("/console/assets/a-1.js", headers={"accept-encoding": "gzip, br"})
    assert (answer.text, answer.headers["content-encoding"]) == ("let a", "gzip")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["vary"] == "Accept-Encoding"
    plain = await browser.get("/console/assets/a-1.js", headers={"accept-encoding": "identity"})
    assert plain.text == "let a" and "content-encoding" not in plain.headers
    icon = await browser.get("/console/favicon.svg")
    assert (icon.headers["content-type"], icon.headers["cache-control"]) == ("image/svg+xml", "no-cache")


@pytest.mark.parametrize(
    "path", ["assets/b.js", "assets/a-1.js.gz", "assets/secret.key", "assets/", "assets/..%2f..%2foutside.js"]
)
async def test_an_asset_that_is_none_is_not_found(built: World, path: str) -> None:
    answer = await built.browser().get(f"/console/{path}")
    assert (answer.status_code, answer.json()["kind"]) == (404, "Status")


@pytest.mark.parametrize("path", ["..%2foutside.js", "%2e%2e/outside.js", "/outside.js", ".js", "a%00.js", "x" * 5000])
async def test_no_path_leaves_the_folder(built: World, path: str) -> None:
    answer = await built.browser().get(f"/console/{path}")
    assert "outside" not in answer.text and answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/console", 200),
        ("GET", "/console/assets/a-1.js", 200),
        ("GET", "/console/assets/no.js", 404),
        ("GET", "/console/session", 401),
        ("POST", "/console/session", 403),
        ("PUT", "/console/session", 405),
        ("GET", "/console/methods", 200),
        ("POST", "/console/methods", 405),
        ("DELETE", "/console/jobs", 405),
        ("GET", "/console/login/oidc", 404),
        ("GET", "/console/callback", 404),
        ("HEAD", "/console", 200),
    ],
)
async def test_every_answer_of_the_console_forbids_frames_scripts_and_guesses(
    built: World, method: str, path: str, code: int
) -> None:
    answer = await built.browser().request(method, path)
    assert answer.status_code == code
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    for rule in ("frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "connect-src 'self'"):
        assert rule in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "strict-transport-security" not in answer.headers


async def test_a_path_that_only_begins_like_the_console_is_none_of_it(built: World) -> None:
    assert (await built.browser().get("/consolex")).status_code == 401
