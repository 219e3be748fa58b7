#!/usr/bin/env python3
"""The dashboard in Chromium, against the made-up server: hostile names, screen readers, keyboards, narrow screens, live rows."""
import contextlib
import json
import pathlib
import sys
import xml.etree.ElementTree

from dashboard import ROOT, VIEWS, Dashboard, harness, names
from fake_server import TOKEN, Server
from made_up import HOSTILE, Lab

AXE = sorted((ROOT / "build/axe").glob("lib/python*/site-packages/axe_playwright_python/axe.min.js"))
NARROW, WIDE = 360, 3840


@contextlib.contextmanager
def lab(world, boards=60, trials=500, changes=0, missing=(), **more):
    server = Server(Lab(boards, trials=trials, **more), changes=changes, missing=missing)
    try:
        with Dashboard(world, server.link, server.fake.lab) as browser:
            browser.server = server
            yield browser
            assert not browser.errors(), browser.errors()
    finally:
        server.stop()


def test_a_link_signs_in_and_the_token_leaves_the_address(world):
    with lab(world) as browser:
        assert browser.evaluate("location.hash") == "#/fleet"
        assert browser.evaluate("document.querySelector('.person .name').textContent") == "ana"
        assert TOKEN not in browser.evaluate("JSON.stringify([location.href, document.cookie, {...localStorage}, document.body.innerHTML])")


def test_a_wrong_token_is_refused_and_a_right_one_let_in(world):
    server = Server(Lab(5))
    browser = Dashboard(world, server.url, server.fake.lab)
    try:
        browser.open(server.url)
        browser.until("Boolean(document.querySelector('input[name=token]'))", "the form")
        send = "(token => { const input = document.querySelector('input[name=token]'); input.value = token; input.form.requestSubmit(); })"
        browser.evaluate(f"{send}('kiln-ana-wrong')")
        browser.until("document.querySelector('.wrong').textContent.includes('wrong or has expired')", "the refusal")
        browser.evaluate(f"{send}({json.dumps(TOKEN)})")
        browser.until("document.querySelector('h1')?.textContent === 'Fleet'", "the fleet")
        browser.evaluate("[...document.querySelectorAll('.person button')].at(-1).click()")
        browser.until("Boolean(document.querySelector('input[name=token]'))", "the form again")
    finally:
        browser.__exit__()
        server.stop()


def test_hostile_names_stay_text(world):
    with lab(world) as browser:
        shown = ""
        views = [*VIEWS, f"boards/{browser.lab.boards[0]['node']}", f"jobs/{browser.lab.jobs[5]['job']}", "fleet?q=%3Cimg%20src%3Dx%3E", "%3Cscript%3E", "boards/%3Cimg%20src=x%20onerror=hostile=1%3E"]
        for view in views:
            browser.go(view)
            shown += browser.evaluate("document.body.textContent")
            found = browser.evaluate("""[window.hostile ?? null, document.scripts.length, ...[...document.querySelectorAll('*')].filter(element =>
                [...element.attributes].some(({name, value}) => name.startsWith('on') || /^\\s*javascript:/i.test(value) && name === 'href')
                || element.matches('iframe, object, embed, style') || element.localName === 'img' && element.getAttribute('src') !== 'icon.svg').map(element => element.outerHTML.slice(0, 99))]""")
            assert found == [None, 1], (view, found)
        for name in (HOSTILE[0], HOSTILE[1]):
            assert name in shown, f"{name} is nowhere shown as it is"
        browser.events = [event for event in browser.events if "404" not in json.dumps(event)]  # of the board that there is not


def test_screen_readers_find_no_serious_fault(world):
    if not AXE:
        raise harness.Skip("axe is missing: ./dev test browser installs it")
    with lab(world) as browser:
        faults, script = [], AXE[-1].read_text()
        browser.evaluate(script + ";1")
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            for view in VIEWS:
                browser.go(view)
                found = browser.evaluate("axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.filter(one => ['serious', 'critical'].includes(one.impact)).map(one => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 160), one.nodes[0].failureSummary.slice(0, 200)]))")
                faults += [(scheme, view, *one) for one in found]
        assert not faults, "\n".join(map(str, faults))


def test_no_view_is_wider_than_a_narrow_screen_or_lost_on_a_wide_one(world):
    with lab(world) as browser:
        for width in (NARROW, WIDE):
            browser.size(width)
            for view in VIEWS:
                browser.go(view)
                wide = browser.evaluate("document.scrollingElement.scrollWidth")
                assert wide <= width, f"{view} is {wide} px wide at {width}: " + str(browser.evaluate(f"[...document.querySelectorAll('main *')].filter(element => element.getBoundingClientRect().right > {width} && !element.closest('.table-box, pre, .scroll-x')).slice(0, 4).map(element => element.outerHTML.slice(0, 90))"))


def test_the_keyboard_reaches_everything(world):
    with lab(world, boards=300) as browser:
        for view in ("fleet", "board", "jobs", "task", "model", "submit", "records"):
            browser.go(view)
            browser.evaluate("document.activeElement.blur(); window.reached = new Set(); document.addEventListener('focusin', event => window.reached.add(event.target)); 1")
            wanted = browser.evaluate("window.wanted = [...document.querySelectorAll('a[href], button, select, input, [tabindex=\"0\"]')].filter(element => element.tabIndex >= 0 && !element.disabled && element.checkVisibility() && !element.closest('tbody')), window.wanted.length")
            for _ in range(wanted + 20):
                browser.key("Tab", 9)
            left = browser.evaluate("window.wanted.filter(element => element.isConnected && !window.reached.has(element)).map(element => element.outerHTML.slice(0, 100))")
            assert wanted > 8 and not left, (view, left)
            browser.evaluate("document.querySelector('tbody a, tbody button')?.focus()")
            for _ in range(3):
                browser.key("ArrowDown", 40)
            assert view in ("board", "submit") or browser.evaluate("document.activeElement.closest('tr').getAttribute('aria-rowindex')") == "5", view


def test_arrows_go_through_the_map_and_enter_opens_a_board(world):
    with lab(world, boards=40, hostile=False) as browser:
        browser.evaluate("document.querySelector('a.tile').focus()")
        first = browser.evaluate("document.activeElement.href")
        browser.key("ArrowRight", 39)
        second = browser.evaluate("document.activeElement.href")
        browser.key("ArrowDown", 40)
        third = browser.evaluate("document.activeElement.href")
        assert len({first, second, third}) == 3 and browser.evaluate("document.querySelectorAll('a.tile[tabindex=\"0\"]').length") == 1
        browser.key("Enter", 13, text="\r")
        browser.until("location.hash.startsWith('#/boards/')", "the board")


def test_live_rows_change_in_place(world):
    with lab(world, boards=30) as browser:
        browser.go("fleet")
        browser.evaluate("window.tiles = [...document.querySelectorAll('a.tile')]; window.before = window.tiles.map(tile => tile.dataset.tone).join(); 1")
        browser.server.changes = 10
        browser.until("[...document.querySelectorAll('a.tile')].map(tile => tile.dataset.tone).join() !== window.before", "a change")
        assert browser.evaluate("[...document.querySelectorAll('a.tile')].every((tile, index) => tile === window.tiles[index])"), "tiles were made anew"
        assert browser.evaluate("document.querySelector('.live').textContent") == "Live"


def test_filters_are_in_the_address_and_a_link_restores_them(world):
    with lab(world, boards=80) as browser:
        browser.evaluate("(select => { select.value = 'free'; select.dispatchEvent(new Event('change')); })(document.querySelectorAll('.filters select')[0])")
        browser.until("location.hash.includes('state=free')", "the address")
        count = sum(board["state"] == "free" for board in browser.lab.boards)
        assert browser.evaluate("document.querySelectorAll('a.tile').length") == count
        browser.go("queue")
        browser.go("fleet?state=free")
        assert browser.evaluate("[document.querySelectorAll('a.tile').length, document.querySelectorAll('.filters select')[0].value]") == [count, "free"]


def test_only_rows_in_sight_are_in_the_document(world):
    with lab(world, boards=2000) as browser:
        assert browser.evaluate("document.querySelector('table').getAttribute('aria-rowcount')") == "2001"
        assert browser.evaluate("document.querySelectorAll('tbody tr').length") < 120
        browser.evaluate("document.querySelector('.table-box').scrollTop = 36 * 1500")
        browser.until("Number(document.querySelector('tbody tr:not(.spacer)').getAttribute('aria-rowindex')) > 1000", "later rows")
        browser.evaluate("document.querySelector('th[data-column=temperature] button').click()")
        assert browser.evaluate("document.querySelector('th[data-column=temperature]').getAttribute('aria-sort')") == "descending"


def test_an_action_asks_for_a_reason_and_shows_what_became_of_it(world):
    with lab(world, hostile=False) as browser:
        node = next(board["node"] for board in browser.lab.boards if board["state"] == "free")
        browser.go(f"boards/{node}")
        browser.evaluate("[...document.querySelectorAll('.actions button')][0].click()")
        browser.evaluate("(input => { input.value = 'a new fan'; })(document.querySelector('dialog input')); document.querySelector('dialog form').requestSubmit(); 1")
        browser.until("!document.querySelector('dialog') && document.querySelector('.lead').textContent.includes('drained')", "the drained board")
        assert browser.server.fake.asked[-1] == ("POST", f"boards/{node}/drain", {}, {"reason": "a new fan"})


def test_a_refused_action_says_why(world):
    with lab(world, hostile=False) as browser:
        browser.go("board")
        browser.server.fake.missing = (f"boards/{names(browser.lab)['board']}/drain",)
        browser.evaluate("[...document.querySelectorAll('.actions button')][0].click(); document.querySelector('dialog form').requestSubmit(); 1")
        browser.until("Boolean(document.querySelector('dialog .wrong').textContent.includes('there is no'))", "the reason")
        browser.key("Escape", 27)
        browser.until("!document.querySelector('dialog')", "the end of the question")
        browser.events = [event for event in browser.events if "404" not in json.dumps(event)]


def test_every_picture_and_table_can_be_saved(world):
    with lab(world) as browser:
        browser.evaluate("window.saved = []; URL.createObjectURL = blob => { window.saved.push(blob); return location.origin + '/icon.svg#saved'; }; document.addEventListener('click', event => { if (event.target.download) event.preventDefault(); }, true); 1")
        pictures = tables = 0
        for view in ("board", "queue", "job", "task", "model", "records", "records-compared", "cost-model", "fleet"):
            browser.go(view)
            browser.evaluate("window.saved.length = 0; document.querySelectorAll('.figure-buttons button, .table-bar button').forEach(button => button.click()); 1")
            figures = browser.evaluate("document.querySelectorAll('.figure svg.chart').length")
            files = browser.evaluate("Promise.all(window.saved.map(async blob => [blob.type, await blob.text()]))")
            svgs = [text for kind, text in files if kind == "image/svg+xml"]
            assert len(svgs) == figures, (view, len(svgs), figures)
            for text in svgs:
                tree = xml.etree.ElementTree.fromstring(text)
                assert tree.tag == "{http://www.w3.org/2000/svg}svg" and len(list(tree.iter())) > 4
                assert "var(" not in text and " class=" not in text and "<script" not in text, f"{view}: a saved picture needs the page"
            csvs = [text for kind, text in files if kind == "text/csv"]
            assert all(text.count("\r\n") >= 1 for text in csvs) and csvs, view
            pictures, tables = pictures + len(svgs), tables + len(csvs)
        print(f"# {pictures} pictures as SVG, {tables} tables as CSV")


def test_views_say_what_the_server_does_not_have(world):
    absent = ("cost-model",)
    with lab(world, missing=absent) as browser:
        board, trial = names(browser.lab)["board"], names(browser.lab)["trial"]
        browser.server.fake.missing = (*absent, f"boards/{board}/drift", f"boards/{board}/log", f"trials/{trial}/assembly", "records/best", "records/compare")
        for view, says in (("cost-model", "cost model"), ("task-compared", "cannot print this program"), ("job", "not in the database"), ("records-compared", "does not compare")):
            browser.go(view)
            browser.until(f"[...document.querySelectorAll('.missing')].some(one => one.textContent.includes({json.dumps(says)}))", says)
            assert not browser.evaluate("document.querySelectorAll('.problem').length"), view
        browser.go("board")
        browser.until("[...document.querySelectorAll('.card')].some(one => one.textContent.startsWith('Drift over time') && one.querySelector('.missing')?.textContent.includes('there is no'))", "the server's words in place of the picture")
        browser.events = [event for event in browser.events if "404" not in json.dumps(event)]


def test_a_graph_shows_branches_and_what_goes_around_them(world):
    with lab(world) as browser:
        lines = browser.lab.module()
        steps = [line for line in lines if line["event"] == "step"]
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            for width in (NARROW, 1280, WIDE):
                browser.size(width)
                browser.go("fleet")
                browser.go("model")
                assert browser.evaluate("document.querySelectorAll('svg.graph .node').length") == len(steps)
                assert browser.evaluate("document.querySelectorAll('svg.graph .edge').length") == sum(len(step["sources"]) for step in steps)
                assert browser.evaluate("document.querySelectorAll('svg.graph .edge.passing').length") == 5, "each block without a convolution of its own around it has a line there"
                boxes = browser.evaluate("[...document.querySelectorAll('svg.graph .node rect')].map(rect => rect.getBoundingClientRect()).map(box => [box.left, box.top, box.right, box.bottom])")
                assert not any(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3] for i, a in enumerate(boxes) for b in boxes[:i]), "nodes overlap"
                beside = sum(a[1] == b[1] for i, a in enumerate(boxes) for b in boxes[:i])
                assert beside == 3, f"{beside} branches stand beside another"
                texts = browser.evaluate("[...document.querySelectorAll('svg.graph .node')].map(node => [Math.max(...[...node.querySelectorAll('text')].map(text => text.getBBox().x + text.getBBox().width)), node.querySelector('rect').width.baseVal.value])")
                assert all(end <= room for end, room in texts), (width, max(end - room for end, room in texts))
                first, place = browser.evaluate("[document.querySelector('svg.graph .node rect'), document.querySelector('.figure-place.scrolls')].map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])")
                assert place[0] <= first[0] and first[1] <= place[1], "the first kernel is in sight"
        heats = browser.evaluate("[...new Set([...document.querySelectorAll('svg.graph .node rect')].map(rect => rect.getAttribute('class')))]")
        assert len(heats) >= 3 and "heat-5" in heats and "heat-0" in heats, heats
        kernel = browser.evaluate("document.querySelector('svg.graph .node title').textContent")
        assert all(part in kernel for part in ("conv+relu", "direct", "d0,d1/16", "reads from no step")), kernel
        browser.evaluate("document.querySelector('svg.graph .node').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        browser.until("location.hash.startsWith('#/tasks/')", "the kernel's task")


def test_memory_over_a_run_reaches_what_is_reserved(world):
    with lab(world) as browser:
        browser.go("model")
        figure = "[...document.querySelectorAll('.figure')].find(one => one.textContent.includes('Memory over a run'))"
        words = browser.evaluate(f"{figure}.querySelector('svg').getAttribute('aria-label')")
        assert "At most 2.30 MiB of the workspace are in use at once, of 2.30 MiB reserved" in words and "constants take 28.0 MiB" in words, words
        assert browser.evaluate(f"[{figure}.querySelectorAll('.mark').length, {figure}.querySelectorAll('.curve').length]") == [1, 1]
        browser.evaluate(f"(select => {{ select.value = 'all'; select.dispatchEvent(new Event('change')); }})({figure}.querySelector('select'))")
        browser.until(f"{figure}.querySelectorAll('.curve').length === 4", "all memory")
        assert browser.evaluate("location.hash").endswith("?memory=all")
        assert browser.evaluate(f"{figure}.querySelector('svg').textContent").count("constants") == 1
        rows = browser.evaluate("[...document.querySelectorAll('table')].map(table => [table.querySelector('caption').textContent.split('.')[0], Number(table.getAttribute('aria-rowcount'))])")
        lines = browser.lab.module()
        assert rows == [["Steps", 1 + sum(line["event"] == "step" for line in lines)], ["Buffers", 1 + sum(line["event"] == "tensor" for line in lines)]], rows


def test_what_a_module_does_not_tell_is_called_unknown(world):
    with lab(world) as browser:
        lines = browser.lab.module()
        browser.lab.module = lambda: [{**line, "sources": None} if line["event"] == "step" else line for line in lines]
        browser.go("model")
        assert "unknown which they read" in browser.evaluate("document.querySelector('.figure').textContent")
        assert browser.evaluate("document.querySelector('tbody').textContent").count("unknown") > 8
        steps = sum(line["event"] == "step" for line in lines)
        assert browser.evaluate("document.querySelectorAll('svg.graph .edge').length") == steps - 1, "the order of execution"
        browser.lab.module = lambda: [{**lines[0], "steps": 0, "kernels": 0}]
        browser.go("fleet")
        browser.go("model")
        assert "This module has no steps" in browser.evaluate("document.querySelector('main').textContent")


def test_a_roofline_has_the_lines_that_are_known(world):
    with lab(world) as browser:
        device = {"target": "t", "of": "device", "source": "stated by the maker (base/gpus.def)", "levels": [{"name": "memory", "bytes_per_s": 5.2e9}]}
        unknown = {"target": "t", "of": None, "source": None, "levels": []}
        for answer, lines, corners, says in ((None, 3, 1, "the lines of one core do not bound them"), (device, 1, 2, "Memory bounds what does not stay in a cache"), (unknown, 0, 1, "only its peak is drawn")):
            if answer:
                browser.lab.roofline = lambda target: answer
            browser.go("fleet")
            browser.go("task")
            figure = "[...document.querySelectorAll('.figure')].find(one => one.querySelector('.figure-title').textContent === 'Roofline')"
            assert browser.evaluate(f"{figure}.querySelectorAll('line.dash').length") == lines, answer
            assert browser.evaluate(f"{figure}.querySelector('path.curve').getAttribute('d').split('L').length - 1") == corners, answer
            text = browser.evaluate(f"{figure}.textContent")
            assert says in text and ("memory 4.84 GiB/s" in text) == (lines > 0), text
            assert "Infinity" not in text and "NaN" not in browser.evaluate(f"{figure}.innerHTML"), text
        browser.server.fake.missing = ("roofline",)
        browser.go("fleet")
        browser.go("task")
        assert "only its peak is drawn" in browser.evaluate(f"{figure}.textContent")
        browser.events = [event for event in browser.events if "404" not in json.dumps(event)]


def test_two_programs_stand_side_by_side(world):
    with lab(world) as browser:
        browser.go("task-compared")
        assert browser.evaluate("[...document.querySelectorAll('.side-by-side th')].map(cell => cell.textContent)") == ["This trial", "The other"]
        assert browser.evaluate("document.querySelectorAll('.side-by-side tr.different').length") > 0
        browser.evaluate("[...document.querySelectorAll('.card .tabs a')].find(link => link.textContent === 'Trace in words').click()")
        browser.until("document.querySelectorAll('ol.trace-words').length === 2", "both traces in words")


def choose_file(browser, path):
    root = browser.send("DOM.getDocument")["root"]["nodeId"]
    file = browser.send("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
    browser.send("DOM.setFileInputFiles", files=[str(path)], nodeId=file)


FILL = """(fields => { for (const [label, value] of Object.entries(fields)) {
    const input = document.getElementById([...document.querySelectorAll('.form label')].find(one => one.textContent === label).htmlFor);
    if (input.multiple) for (const option of input.options) option.selected = value.includes(option.value); else input.value = value;
    input.dispatchEvent(new Event('change'));
} document.querySelector('.form').requestSubmit(); return 1; })"""


def submit(browser, **fields):
    browser.evaluate(f"{FILL}({json.dumps(fields)})")


def bodies(browser, path):
    return [body for method, asked, _, body in browser.server.fake.asked if (method, asked) == ("POST", path)]


def test_a_model_is_uploaded_in_pieces_and_tuned(world):
    model = pathlib.Path(world.path("m.onnx"))
    model.write_bytes(bytes(range(256)) * 40000)  # three pieces
    with lab(world) as browser:
        browser.go("submit")
        # The first piece is refused, and sent again.
        browser.evaluate("window.seen = []; new MutationObserver(() => window.seen.push(document.querySelector('.form progress')?.value)).observe(document.querySelector('.form'), {subtree: true, childList: true, attributes: true, characterData: true}); 1")
        browser.server.fake.refused_once[("PATCH", "uploads/upload-0")] = (503, "UNAVAILABLE", "the server ends")
        choose_file(browser, model)
        submit(browser, **{"Priority": "7", "Name in lists": "nightly", "Sizes of open dimensions": "batch=8"})
        browser.until(f"location.hash === '#/jobs/' + {json.dumps(browser.lab.jobs[1]['job'])}", "the job")
        assert browser.server.fake.uploads["upload-0"][0] == model.read_bytes()
        [question] = bodies(browser, "jobs")
        assert len(question.pop("model")) == 64
        assert question == {"target": "native", "trials": 1000, "name": "nightly", "project": "vision", "priority": 7, "dims": ["batch=8"]}, question
        seen = [value for value in browser.evaluate("window.seen") if value]
        assert seen == sorted(seen) and len(set(seen)) >= 3, seen
        browser.events = [event for event in browser.events if "503" not in json.dumps(event)]


def test_jobs_for_several_targets_and_one_that_is_refused(world):
    with lab(world) as browser:
        browser.go("submit")
        browser.evaluate("document.querySelector('.form select[multiple]').append(new Option('abacus', 'abacus')); 1")
        submit(browser, **{"or the SHA-256 of a model sent before": "ab" * 32, "Targets": ["native", "abacus"], "Budget of the search": "seconds"})
        browser.until("document.querySelector('.form .wrong').textContent === 'abacus: there is no target abacus'", "the refusal in words")
        assert browser.evaluate("[document.querySelector('.form [role=status]').textContent.includes('1 of 2 jobs are open'), document.querySelectorAll('.form [role=status] a').length]") == [True, 1]
        questions = bodies(browser, "jobs")
        assert [one["target"] for one in questions] == ["native", "abacus"] and questions[0]["model"] == "ab" * 32 and questions[0]["seconds"] == 600, questions
        assert not browser.server.fake.uploads and browser.evaluate("document.querySelector('.form button').disabled") is False
        browser.events = [event for event in browser.events if "400" not in json.dumps(event)]


def test_what_is_wrong_with_a_submission_is_said_in_words(world):
    with lab(world) as browser:
        browser.go("submit")
        for fields, says in (({}, "Choose a model file"), ({"or the SHA-256 of a model sent before": "abc"}, "64 hexadecimal digits"),
                             ({"or the SHA-256 of a model sent before": "ab" * 32, "Targets": []}, "at least one target"),
                             ({"Targets": ["native"], "Sizes of open dimensions": "batch"}, "write it as batch=8")):
            submit(browser, **fields)
            browser.until(f"document.querySelector('.form .wrong').textContent.includes({json.dumps(says)})", says)
        assert not bodies(browser, "jobs") and not bodies(browser, "uploads")
        browser.server.fake.refused_once[("POST", "jobs")] = (429, "RESOURCE_EXHAUSTED", "ana has 8 open jobs already")
        submit(browser, **{"Sizes of open dimensions": ""})
        browser.until("document.querySelector('.form .wrong').textContent.includes('ana has 8 open jobs already')", "the server's words")
        browser.events = [event for event in browser.events if "429" not in json.dumps(event)]


def test_a_model_is_submitted_by_keys_alone(world):
    with lab(world, hostile=False) as browser:
        browser.go("submit")
        browser.evaluate("document.querySelector('.form input[type=text]').focus(); 1")
        browser.send("Input.insertText", text="cd" * 32)
        browser.key("Enter", 13, text="\r")
        browser.until("location.hash.startsWith('#/jobs/')", "the job")
        assert bodies(browser, "jobs")[0]["model"] == "cd" * 32


def test_a_model_is_compiled_without_a_job(world):
    model = pathlib.Path(world.path("m.onnx"))
    model.write_bytes(b"onnx")
    with lab(world) as browser:
        browser.go("submit")
        choose_file(browser, model)
        submit(browser, **{"Result": "compile"})
        browser.until("location.hash === '#/compile/c1'", "the compilation")
        [question] = bodies(browser, "compile")
        assert question["targets"] == ["native"] and question["budget"] == {"trials": 1000} and len(question["model"]) == 64 and question["name"] == "m.onnx", question


def test_a_session_that_ends_asks_for_a_token_again(world):
    with lab(world) as browser:
        browser.send("Network.enable")
        browser.send("Network.clearBrowserCookies")
        browser.evaluate("location.hash = '#/jobs'")
        browser.until("Boolean(document.querySelector('input[name=token]'))", "the form")
        assert "session has ended" in browser.evaluate("document.querySelector('.wrong').textContent")
        browser.events = [event for event in browser.events if "401" not in json.dumps(event)]


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
