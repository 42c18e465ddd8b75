"""All output of the gateway that worked with the secrets: pages, log and files, after its end."""

import httpx
from rig.bounds import BOUND_S
from rig.canaries import all_files_seen, seen_in_answer, seen_in_files
from rig.canary_scene import CANARIES, PLANTED, Scene
from rig.scripts import completion, whole


def _logged(scene: Scene) -> bytes:
    return "\n".join([*scene.gateway.stderr_lines, *scene.gateway.later_stdout()]).encode()


def test_no_page_no_log_and_no_file_has_a_secret_at_the_end(scene: Scene) -> None:
    gateway = scene.gateway
    # Each of these places must show a planted text that is not secret. This proves that the search works.
    planted = completion(PLANTED) | {
        "choices": [completion(PLANTED)["choices"][0] | {"finish_reason": PLANTED}]
    }
    answer = scene.call("solo", "alpha", ("planted", lambda _key: whole(planted)), user=PLANTED)
    assert {leak.split(": ", 1)[1] for leak in scene.leaks} == {
        "answer: planted text, as it is",
        "body for ALPHA: planted text, as it is",
    }
    scene.leaks.clear()
    gateway.wait_for_row(answer.headers["x-request-id"])
    gateway.wait_for_log(lambda line: line.get("id") == answer.headers["x-request-id"])
    assert CANARIES.found_in(_logged(scene)) == {"planted text, as it is"}
    assert CANARIES.found_in(all_files_seen(gateway.folder, scene.written)) == {"planted text, as it is"}
    for page in ("metrics", "readyz", "healthz"):
        scene.look(
            page, seen_in_answer(httpx.get(f"{gateway.admin_url}/{page}", timeout=BOUND_S, trust_env=False))
        )
    scene.look("catalog", seen_in_answer(scene.client.get("/v1/models")))
    assert gateway.stop() == 0
    scene.look("log", _logged(scene), {"planted text"})
    assert all(one.encode() not in _logged(scene) for one in scene.console)
    files = dict(seen_in_files(gateway.folder, scene.written))
    assert {file.suffix for file in files} >= {".db"}
    for file, content in files.items():
        scene.look(str(file), content, {"planted text"})
    gateway.assert_no_secret_logged()
