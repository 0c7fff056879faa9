# SPDX-License-Identifier: Apache-2.0
"""The page of /docs in a browser: it shows every operation, tries them, and asks nobody but its own server."""
import re

import pytest

import contract
from browser import Browser
from server import Server

TOKEN = "docs-token-0123456789abcdef"
PROVOKED = ["401 (Unauthorized)", "TrustedHTML"]  # complaints of the browser that tests below are about


@pytest.fixture(scope="module")
def server():
    with Server(env={"COVE_TOKEN": TOKEN}) as one:
        yield one


@pytest.fixture(scope="module")
def page(server):
    with Browser() as browser:
        browser.open(f"{server.url}/docs")
        browser.wait("document.querySelectorAll('.operation').length > 0")
        yield browser
        # whatever the tests did
        assert all(url.startswith((server.url, "data:")) for url in browser.requests), browser.requests
        others = [words for words in browser.complaints if not any(word in words for word in PROVOKED)]
        assert not others


def test_every_operation_is_shown(page):
    shown = page.ask("[...document.querySelectorAll('.operation')].map((one) => one.id)")
    assert sorted(shown) == sorted(operation.id for operation in contract.operations())
    links = page.ask("[...document.querySelectorAll('nav a')].map((one) => one.hash.slice(1))")
    assert sorted(links) == sorted(shown)


def test_every_operation_can_be_opened(page):
    page.ask("document.querySelectorAll('.operation').forEach((one) => (one.open = true))")
    page.wait("[...document.querySelectorAll('.operation')].every((one) => one.querySelector(':scope > div'))")
    page.ask("document.querySelectorAll('details.more').forEach((one) => (one.open = true))")
    page.wait("document.querySelectorAll('.fields .fields').length > 20")
    page.ask("document.querySelectorAll('details.more').forEach((one) => (one.open = true))")
    text = page.ask("document.querySelector('#createSession').textContent")
    for words in ("idle_timeout", "Idempotency-Key", "sessions:write", "curl -X POST", "Authorization: Bearer $COVE_TOKEN"):
        assert words in text
    page.ask("document.querySelectorAll('.operation').forEach((one) => (one.open = false))")


def test_search_by_keys_alone(page):
    page.ask("document.activeElement.blur()")
    page.press("/")
    assert page.ask("document.activeElement.id") == "search"
    page.write("delete templates")
    seen = "[...document.querySelectorAll('.operation')].filter((one) => one.offsetParent).map((one) => one.id)"
    page.wait(f"{seen}.length === 1")
    assert page.ask(seen) == ["deleteTemplate"]
    page.ask("document.querySelector('#search').value = ''")
    page.ask("document.querySelector('#search').dispatchEvent(new Event('input'))")
    assert len(page.ask(seen)) == len(contract.operations())
    assert "[object" not in page.ask("document.body.textContent")


def test_link_opens_its_operation(page):
    page.ask("document.querySelector('nav a[href=\"#getTemplate\"]').click()")
    page.wait("document.querySelector('#getTemplate').open")
    page.wait("document.activeElement.closest('#getTemplate') !== null")


SEND = "document.querySelector('#execute form').requestSubmit()"
STATUS = "document.querySelector('#execute .answer strong')?.textContent"
ANSWER = "document.querySelector('#execute .answer pre')?.textContent"


def test_request_can_be_tried(page, server):
    page.ask("document.querySelector('#execute').open = true")
    page.wait("document.querySelector('#execute form') !== null")
    page.ask(SEND)
    page.wait(f"{STATUS}?.startsWith('401')")  # there is no token yet
    page.ask("document.querySelector('#token').focus()")
    page.write(TOKEN)
    page.ask(SEND)
    page.wait(f"{STATUS}?.startsWith('200')")
    page.wait(f"""{ANSWER}?.includes('"stdout": "42\\\\n"')""")  # as it came at first, then set in lines
    shown = page.ask("document.querySelector('#execute .answer p').textContent")
    assert re.fullmatch(r"200 OK in [0-9.]+ ms · req_[0-9a-z]{26}", shown), shown
    assert TOKEN not in page.ask("document.documentElement.outerHTML")
    assert page.ask("[localStorage.length, sessionStorage.length, document.cookie, location.href.includes('oken')]") == \
        [0, 0, "", False]


def test_command_follows_the_form(page):
    page.ask("document.querySelector('#getSession').open = true")
    page.wait("document.querySelector('#getSession form input') !== null")
    page.ask("document.querySelector('#getSession form input').focus()")
    page.ask("document.querySelector('#getSession form input').select()")
    page.write("it's mine")
    page.wait("document.querySelector('#getSession .copied pre').textContent.includes(\"/api/v1/sessions/it'\\\\''s%20mine\")")


def test_markup_from_outside_stays_text(page):
    """Neither the page's own code nor the policy lets text become code."""
    page.ask("document.querySelector('#execute').open = true")
    page.ask("document.querySelector('#execute textarea').value = JSON.stringify({code: 'print(\"<img src=x onerror=bad()>\")'})")
    page.ask(SEND)
    page.wait(f"{ANSWER}?.includes('onerror=bad')")
    assert page.ask("document.querySelectorAll('main img').length") == 0
    refused = page.ask("(() => { try { document.body.innerHTML = '<b>x</b>'; return false; } catch { return true; } })()")
    assert refused


@pytest.mark.parametrize("theme, is_dark", [("dark", True), ("light", False)])
def test_themes(page, theme, is_dark):
    page.ask(f"(() => {{ const t = document.querySelector('#theme'); t.value = '{theme}'; t.dispatchEvent(new Event('change')); }})()")
    color = page.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, color[4:-1].split(", "))) < 200) == is_dark
