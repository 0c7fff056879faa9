# SPDX-License-Identifier: Apache-2.0
"""The bash kernel in the image, behind the shim: a shell that lives on, whatever its code does."""
import json

import pytest

import covetest
import kernel_driver
import plain_kernel
from kernel_driver import ACK, DATA, DONE, IS_WHOLE, READY, SYNC, SYNCED

PROGRAM = plain_kernel.KERNELS / "bash" / "kernel.sh"
COMMAND = ["/usr/bin/bash", "--noprofile", "--norc", "/proc/self/fd/4"]
ROOT = plain_kernel.image_root("bash")

pytestmark = pytest.mark.skipif(not ROOT, reason="needs bubblewrap and the bash image")


def start(workspace):
    workspace.chmod(0o777)
    return plain_kernel.PlainKernel(plain_kernel.Box(ROOT, workspace), COMMAND, PROGRAM)


@pytest.fixture
def kernel(tmp_path):
    with start(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One for tests that change nothing."""
    with start(tmp_path_factory.mktemp("workspace")) as running:
        yield running


def output(kernel, code, status=0, **settings):
    answer = kernel.execute(code, **settings)
    assert (answer.code, answer.stderr, answer.error) == (status, "", None)
    return answer.stdout


# --- what lives on --------------------------------------------------------------------------------


def test_it_says_what_it_is(shared):
    assert shared.ready["protocol"] == 1 and shared.ready["language"] == "bash"
    assert shared.ready["version"].startswith("5.")


def test_state_lives_on(kernel):
    output(kernel, "x='a  b'; list=(1 2 'c d'); declare -A map=([k]=v); f() { echo \"f $1\"; }; cd /tmp; export E=1")
    output(kernel, "set -o noglob; shopt -s nullglob; alias ll='ls -l'; declare local_looking=1")
    assert output(kernel, 'echo "$x"; echo "${list[2]}" "${map[k]}"; f 2; pwd; echo *; echo $local_looking') == \
        "a  b\nc d v\nf 2\n/tmp\n*\n1\n"
    assert output(kernel, "printenv E; shopt -q nullglob && alias ll") == "1\nalias ll='ls -l'\n"


def test_the_status_is_that_of_the_last_command(shared):
    assert output(shared, "true") == ""
    assert shared.execute("false").code == 1
    assert shared.execute("(exit 42)").code == 42
    assert shared.execute("return 7; echo no").code == 7
    assert shared.execute("").code == 0


@pytest.mark.parametrize("code, status", [
    ("exit 3", 3),
    ("g() { exit 4; }; for i in 1 2; do g; done; echo no", 4),
    ("builtin exit 5", 5),
    ("set -e; true; (exit 6); echo no", 6),
    ("set -euo pipefail\nfalse | true\necho no", 1),
    ("set -u; echo $nosuch; echo no", 1),
    ("echo ${nosuch:?is missing}; echo no", 1),
    ("break", 0),
    ("while :; do break 9; done; continue 2", 0),
    ("exec /no/such/program", 127),
    ("readonly r=1; r=2; echo no", 1),
])
def test_what_ends_a_script_does_not_end_the_session(kernel, code, status):
    output(kernel, "x=1; list=(a 'b c'); declare -i n=5; f() { echo f; }; cd /tmp; exec 5>/tmp/five; shopt -s extglob")
    answer = kernel.execute(code)
    assert answer.code == status and "no\n" not in answer.stdout
    assert kernel.status is None
    text = output(kernel, 'set +eu; echo "$x ${list[1]} $((n + 1))"; f; pwd; echo five >&5; cat /tmp/five; shopt -q extglob && echo on')
    assert text == "1 b c 6\nf\n/tmp\nfive\non\n"


def test_set_e_lives_on_too(kernel):
    output(kernel, "set -e")
    assert kernel.execute("false; echo no").stdout == ""
    assert output(kernel, "echo $-").strip().startswith("e")


def test_an_exit_trap_runs_when_the_code_exits(kernel):
    assert output(kernel, "trap 'echo bye' EXIT; echo hi") == "hi\n"
    assert output(kernel, "exit 2", status=2) == "bye\n"
    assert output(kernel, "exit 2", status=2) == ""
    assert output(kernel, "trap 'echo bye' EXIT; trap - EXIT; exit 1", status=1) == ""


def test_traps_of_code_do_not_watch_the_kernel(kernel):
    answer = kernel.execute("trap 'echo debug' DEBUG; trap 'echo err' ERR; set -T; false; :")
    assert "err" in answer.stdout
    assert output(kernel, "false; echo after") == "after\n"


def test_xtrace_shows_the_code_only(kernel):
    assert kernel.execute("set -x; echo hi").stderr == "++ echo hi\n"
    assert kernel.execute("echo again").stderr == "++ echo again\n"


# --- streams --------------------------------------------------------------------------------------


def test_streams(shared):
    answer = shared.execute("cat; echo err >&2; echo out > /dev/stdout", stdin=b"line 1\nline 2")
    assert (answer.stdout, answer.stderr) == ("line 1\nline 2out\n", "err\n")
    assert output(shared, "read -r a b; echo \"$b\"", stdin=b"1 2 3\n") == "2 3\n"


def test_much_output_is_whole_at_done(shared):
    assert output(shared, "for ((i = 0; i < 30000; i++)); do echo line $i; done") == \
        "".join(f"line {i}\n" for i in range(30000))


def test_programs_inherit_the_streams_only(shared):
    listed = output(shared, "ls /proc/self/fd").split()
    assert set(listed) <= {"0", "1", "2", "3", "99"}, "3 is the folder that ls reads"


def test_a_child_that_stays_keeps_its_own_pipe(kernel):
    first = kernel.start("sleep 1000 & echo $!")
    first.wait_for(lambda self: self.is_done)
    assert first.output["stdout"].strip().isdigit() and first.stdout not in first.ended, "no end of file yet"
    assert output(kernel, f"kill {first.output['stdout'].decode().strip()}; echo next") == "next\n"
    first.wait_for(lambda self: self.stdout in self.ended)


def test_errors_name_their_line(shared):
    answer = shared.execute("echo 1\nnosuchcommand\necho 3")
    assert answer.stdout == "1\n3\n" and "line 2: nosuchcommand: command not found" in answer.stderr
    answer = shared.execute("echo 1\nif\n")
    assert answer.code == 2 and "syntax error" in answer.stderr


def test_environment_of_one_execution(kernel):
    output(kernel, "export KEPT=old; plain=1")
    env = {"ONCE": "a b=c", "KEPT": "new", "plain": "2"}
    assert output(kernel, "printenv ONCE KEPT plain; KEPT=changed", env=env) == "a b=c\nnew\n2\n"
    assert output(kernel, "echo \"$ONCE,$KEPT,$plain\"; printenv plain; :") == ",old,1\n"
    assert output(kernel, "exit 1", status=1, env=env) == ""
    assert output(kernel, "echo \"$ONCE,$KEPT,$plain\"") == ",old,1\n"


def test_arguments_of_one_execution(kernel):
    args = ["--fast", "", "a b", "ü=$HOME"]
    show = "printf '<%s>' $# \"$@\""
    assert output(kernel, show, args=args) == "<4><--fast><><a b><ü=$HOME>"
    assert output(kernel, show) == "<0>"
    assert output(kernel, f"set -u; shift; {show}", args=["1", "2"]) == "<1><2>"
    assert output(kernel, "exit 3", status=3, args=args) == ""
    assert output(kernel, show) == "<0>"


def test_the_working_directory_of_one_execution(kernel):
    output(kernel, "mkdir /tmp/before /tmp/there; cd /; cd /tmp/before")
    assert output(kernel, "pwd; /bin/pwd", cwd="/tmp/there") == "/tmp/there\n/tmp/there\n"
    assert output(kernel, "pwd; /bin/pwd; echo $OLDPWD") == "/tmp/before\n/tmp/before\n/\n"
    assert output(kernel, "cd /; exit 1", status=1, cwd="/tmp/there") == ""
    assert output(kernel, "pwd; /bin/pwd; echo $OLDPWD") == "/tmp/before\n/tmp/before\n/\n"
    answer = kernel.execute("echo not run", cwd="/tmp/nosuch")
    assert answer.code == 1 and answer.stdout == "" and answer.error["name"] == "FileNotFoundError"
    assert "'/tmp/nosuch'" in answer.error["value"] and output(kernel, "pwd") == "/tmp/before\n"
    output(kernel, "rmdir /tmp/before", cwd="/tmp/there")
    assert output(kernel, "pwd; cd /") == "/workspace\n"


# --- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [
    "while :; do :; done",
    "sleep 1000",
    "f() { while :; do sleep 0.01; done; }; f",
    "sleep 1000 | cat",
    "read -r line < <(sleep 1000)",
    "wait $(sleep 1000)",
])
def test_an_interrupt_ends_the_code(kernel, code):
    output(kernel, "x=kept")
    running = kernel.start(f"echo go; {code}; echo no")
    running.wait_output("go")
    if "sleep 1000" in code:  # a signal just before it would not reach it; a host repeats those
        covetest.wait_for(lambda: "sleep" in kernel.box.processes(), "the program to run")
    answer = running.finish_interrupted()
    assert answer.code == 130 and answer.stdout == "go\n"
    assert output(kernel, "echo $x") == "kept\n"


def test_an_interrupt_at_rest_is_no_end(kernel):
    for _ in range(20):
        kernel.interrupt()
        assert kernel.execute("echo hi").code in (0, 130), "it may come late, and meet the next code"
    assert output(kernel, "echo hi") == "hi\n"


# --- questions ------------------------------------------------------------------------------------


def test_variables(kernel):
    assert kernel.variables() == {}
    output(kernel, "text='a\"b\\c\t'$'\\x01'; declare -i n=5; list=(1 2); declare -A map=([k]=v); f() { :; }; long=$(printf '%0500d' 1)")
    rows = kernel.variables()
    assert set(rows) == {"text", "n", "list", "map", "f", "long"}
    assert rows["text"] == {"name": "text", "type": "string", "size": 7, "shape": None, "preview": "a\"b\\c\t\x01"}
    assert (rows["n"]["type"], rows["n"]["preview"]) == ("integer", "5")
    assert (rows["list"]["type"], rows["list"]["shape"], rows["list"]["preview"]) == ("array", [2], "([0]=1 [1]=2)")
    assert (rows["map"]["type"], rows["map"]["shape"]) == ("map", [1])
    assert rows["f"]["type"] == "function"
    assert rows["long"]["size"] == 500 and len(rows["long"]["preview"]) == 200
    assert kernel.execute("exit").code == 0
    assert set(kernel.variables()) == set(rows), "a new shell has no more and no less"


def test_names_like_the_kernels_own_locals(kernel):
    output(kernel, "name=1; text=2; key=3; code=4; match=5; status=6; signal=7; action=8")
    rows = kernel.variables()
    assert {row["name"]: row["preview"] for row in rows.values()} == {
        "name": "1", "text": "2", "key": "3", "code": "4", "match": "5", "status": "6", "signal": "7", "action": "8"}
    assert kernel.variable("name").results == [{"application/json": '"1"'}]


def test_many_variables_are_cut(kernel):
    output(kernel, "for i in {1..1500}; do declare v$i=$i; done")
    reply = kernel.ask(kernel_driver.VARIABLES).reply
    assert len(reply["variables"]) == 1000 and reply["truncated"]


def test_variable(kernel):
    output(kernel, "s=$'a\\nb'; list=(1 'b c'); declare -A map=([k]='v w'); bytes=$'\\xff\\xfe ok'; f() { echo; }")
    assert json.loads(kernel.variable("s").results[0]["application/json"]) == "a\nb"
    assert json.loads(kernel.variable("list").results[0]["application/json"]) == ["1", "b c"]
    assert json.loads(kernel.variable("map").results[0]["application/json"]) == {"k": "v w"}
    assert json.loads(kernel.variable("bytes").results[0]["application/json"]) == "?? ok"
    assert kernel.variable("s", "text").results == [{"text/plain": "a\nb"}]
    assert "echo" in kernel.variable("f", "text").results[0]["text/plain"]
    for name in ("nosuch", "a b", "$(touch /workspace/no)", "list[$(touch /workspace/no)]", ""):
        assert kernel.variable(name).error["name"] == "NameError"
    assert output(kernel, "ls /workspace") == ""


def test_complete(kernel):
    output(kernel, "myvar=1; myfunction() { :; }; mkdir -p /workspace/folder; touch /workspace/folder/file")
    assert kernel.complete("echo $myv") == {"matches": ["$myvar"], "start": 5, "end": 9}
    assert kernel.complete("echo ${myv")["matches"] == ["${myvar"]
    assert kernel.complete("true && myfun")["matches"] == ["myfunction"]
    assert kernel.complete("cat /workspace/fol") == {"matches": ["/workspace/folder/"], "start": 4, "end": 18}
    assert kernel.complete("é cat fold", 8) == {"matches": ["folder/"], "start": 6, "end": 8}
    assert len(kernel.complete("")["matches"]) == 200


@pytest.mark.parametrize("code, status", [
    ("echo hi", "complete"), ("", "complete"), ("if true; then", "incomplete"), ("echo 'a", "incomplete"),
    ("cat <<E\nline", "incomplete"), ("a \\", "incomplete"), ("f() {", "incomplete"), ("fi", "invalid"), ("a ) b", "invalid"),
])
def test_is_whole(shared, code, status):
    assert shared.is_whole(code)["status"] == status


# --- the channel ----------------------------------------------------------------------------------


def test_frames_are_said_again_until_they_are_acknowledged(kernel):
    kernel.execute("x=1")
    kernel.variable("x")
    kernel.send(SYNC)
    assert [frame.type for frame in kernel.receive_answer()] == [SYNCED, DATA, DONE]
    kernel.send(ACK)
    kernel.send(SYNC)
    assert kernel.receive().type == SYNCED
    assert kernel.ask(IS_WHOLE, b"x").reply["status"] == "complete"


def test_code_of_any_length(shared):
    assert output(shared, "#" + "x" * 1_000_000 + "\necho end") == "end\n"
    answer = shared.execute("#" + "x" * (17 << 20))
    assert (answer.code, answer.error["name"]) == (1, "TooLarge")
    assert output(shared, "echo next") == "next\n"


def test_code_that_is_no_text(shared):
    assert shared.execute(bytes(range(1, 256))).code is not None
    assert output(shared, "echo next") == "next\n"


def test_it_ends_with_the_channel(kernel):
    kernel.close()
    assert kernel.wait() == 0
    covetest.wait_for(lambda: kernel.box.processes() == ["cove-init"], "the shim to end")


@pytest.mark.parametrize("code, status", [("exec true", 0), ("kill -9 $$", -9), ("exec 10>&-; echo", 0)])
def test_the_end_of_the_kernel_is_told(kernel, code, status):
    with pytest.raises(kernel_driver.Died):
        kernel.execute(code)
    assert kernel.wait() == status
    covetest.wait_for(lambda: kernel.box.processes() == ["cove-init"], "the shim to end")


def test_the_kernel_does_not_outlive_the_shim(kernel):
    kernel.start("kill -9 $(pgrep cove-shim)")
    assert kernel.wait() is not None
    assert covetest.wait_for(lambda: kernel.box.processes() == ["cove-init"], "everything to end")


def test_a_kill_takes_both(kernel):
    kernel.start("while :; do :; done")
    kernel.tell(plain_kernel.GUEST_KILL)
    assert kernel.wait() == -9
    covetest.wait_for(lambda: kernel.box.processes() == ["cove-init"], "the shim to end")


def test_junk_on_the_channel_ends_it(kernel):
    with pytest.raises(kernel_driver.Died):
        kernel.execute("echo junk >&10")


def test_another_kernel_can_be_started_after_it(kernel):
    kernel.close()
    assert kernel.wait() == 0
    kernel.status, kernel.generation = None, 0
    kernel._start(COMMAND, PROGRAM, {"PATH": "/usr/bin"})
    kernel.wait_ready()
    assert output(kernel, "echo hi") == "hi\n"


def test_a_start_that_cannot_be(tmp_path):
    box = plain_kernel.Box(ROOT, tmp_path)
    with pytest.raises(AssertionError, match="No such file"):
        plain_kernel.PlainKernel(box, ["/no/such/program"], PROGRAM)
    covetest.wait_for(lambda: box.processes() == ["cove-init"], "the shim to end")
    box.end()


# --- the real thing -------------------------------------------------------------------------------


@pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")
def test_in_a_sandbox(monkeypatch):
    with plain_kernel.PlainKernel(plain_kernel.Sandbox("bash"), COMMAND, PROGRAM) as kernel:
        assert kernel.ready["language"] == "bash"
        covetest.wait_for(lambda: kernel.box.process_count() == 3, "init, the shim and the kernel, and nothing else")
        output(kernel, "x=1; echo file > /workspace/file")
        assert output(kernel, "cat file -; echo $x", stdin=b"input\n") == "file\ninput\n1\n"
        running = kernel.start("echo go; while :; do :; done")
        running.wait_output("go")
        assert running.finish_interrupted().code == 130
        assert output(kernel, "echo $x") == "1\n"
        monkeypatch.setattr(plain_kernel.os, "fchmod", lambda fd, mode: None)
        answer = kernel.execute("echo hi")
        assert answer.code == 1 and "cannot be opened" in answer.error["value"], "pipes of another user"
