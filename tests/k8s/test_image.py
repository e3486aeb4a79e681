"""The image: that it builds, what is in it, and that its roles run as in a container."""

import contextlib
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator

import pytest
from support import images
from support.images import Image
from support.processes import Running, until

from ps_dqn import __version__

SITE_PACKAGES = "opt/ps-dqn/lib/python3.11/site-packages"

GAMES = """
import ale_py, gymnasium, ps_dqn.minatar_games
gymnasium.register_envs(ale_py)
for name in ("CartPole-v1", "LunarLander-v3", "MinAtar/Breakout-v1", "ALE/Pong-v5"):
    game = gymnasium.make(name)
    game.reset(seed=0)
    game.step(0)
    print(name)
"""


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The image, built of this checkout in a storage of its own, of which nothing is left."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for mounts and other users' processes")
    for name in ("buildah", "mmdebstrap"):
        images.tool(name, f"apt-get install {name}")
    # pytest keeps the folders that it makes; this one has gigabytes.
    with tempfile.TemporaryDirectory(prefix="ps-dqn-image-", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        try:
            yield images.build(folder)
        finally:
            images.unmount(folder)


@pytest.fixture(scope="module")
def container(image: Image) -> Image:
    """The image with the places that a runtime makes in it."""
    for name in ("dev", "runs"):
        (image.root / name).mkdir(exist_ok=True)
    (image.root / "etc" / "hosts").touch()
    return image


@pytest.mark.slow
def test_a_role_is_a_module_and_its_user_a_number(image: Image):
    assert image.config["Entrypoint"] == ["python", "-m"]
    assert image.config["Cmd"] == ["ps_dqn.coordinator", "--help"]
    assert image.config["User"] == f"{images.USER}:{images.USER}"
    variables = dict(each.split("=", 1) for each in image.config["Env"])
    assert variables["PATH"].startswith("/opt/ps-dqn/bin:/")
    assert variables["PYTHONUNBUFFERED"] == variables["PYTHONDONTWRITEBYTECODE"] == "1"


@pytest.mark.slow
def test_labels_say_which_version_it_is(image: Image):
    labels = image.config["Labels"]
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.base.name"] == f"{images.IMAGE}-base"


@pytest.mark.slow
def test_nothing_says_where_packages_came_from(image: Image):
    sources = {images.MARK, *images.package_sources()}
    assert not [each for each in sources if each in image.description]
    patterns = [word for each in sources for word in ("-e", each)]
    command = ["grep", "-rlF", *patterns, str(image.root)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""


@pytest.mark.slow
def test_no_tools_and_no_caches_are_in_it(image: Image):
    unwanted = ("etc/pip.conf", "opt/pip", "root/.cache", "src", f"{SITE_PACKAGES}/pip")
    assert (image.root / SITE_PACKAGES / "ps_dqn" / "launch.py").exists()
    assert not [path for path in unwanted if (image.root / path).exists()]


@pytest.mark.slow
def test_its_user_can_write_to_folders_of_temporary_files_only(image: Image):
    writable = set()
    for folder, folders, files in os.walk(image.root):
        for path in (os.path.join(folder, name) for name in (*folders, *files)):
            found = os.lstat(path)
            ours = images.USER in (found.st_uid, found.st_gid)
            if ours or (found.st_mode & stat.S_IWOTH and not stat.S_ISLNK(found.st_mode)):
                writable.add(os.path.relpath(path, image.root))
    assert writable <= {"run/lock", "tmp", "var/tmp"}


@pytest.mark.slow
def test_bytecode_is_there_and_tells_where_its_source_is(container: Image, tmp_path: pathlib.Path):
    source = "from ps_dqn import launch as it; print(it.__cached__, it.main.__code__)"
    out = container.run_program(tmp_path, "python", "-c", source)
    assert (container.root / out.split()[0].lstrip("/")).exists()
    assert f'file "/{SITE_PACKAGES}/ps_dqn/launch.py"' in out


@pytest.mark.slow
def test_a_training_and_its_evaluation_run_to_the_end(container: Image, tmp_path: pathlib.Path):
    arguments = [
        "--preset=cartpole",
        "--total_env_steps=4000",
        "--eval_period=2000",
        "--run_dir=/runs/one",
    ]
    assert "total_env_steps reached" in container.run(tmp_path, "ps_dqn.coordinator", *arguments)
    assert (tmp_path / "one" / "learning_curve.png").stat().st_uid == images.USER
    out = container.run(tmp_path, "ps_dqn.evaluator", "--run_dir=/runs/one", "--episodes=5")
    assert "5 greedy episodes" in out


@pytest.mark.slow
@pytest.mark.parametrize("role", ["worker", "parameter_server"])
def test_tasks_explain_themselves(container: Image, tmp_path: pathlib.Path, role: str):
    assert f"python -m ps_dqn.{role} " in container.run(tmp_path, f"ps_dqn.{role}", "--help")


@pytest.mark.slow
def test_games_of_every_extra_play(container: Image, tmp_path: pathlib.Path):
    out = container.run_program(tmp_path, "python", "-c", GAMES)
    assert re.findall(r"^(?:CartPole|LunarLander|MinAtar|ALE)\S+", out, re.MULTILINE) == [
        "CartPole-v1",
        "LunarLander-v3",
        "MinAtar/Breakout-v1",
        "ALE/Pong-v5",
    ]


@pytest.mark.slow
def test_tensorboard_serves_and_ends_when_asked_to(container: Image, tmp_path: pathlib.Path):
    program = [*container.config["Entrypoint"], "tensorboard.main", "--logdir=/runs", "--port=0"]
    running = Running(container.command(tmp_path, program), dict(os.environ))
    try:
        address = re.search(r"http://\S+", running.line_with("http://", images.RUN_SECONDS))[0]
        with urllib.request.urlopen(f"{address}data/environment", timeout=60) as answer:
            assert json.load(answer)["data_location"] == "/runs"
        children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children")
        os.kill(int(until(children.read_text, 60, "process 1")), signal.SIGTERM)
        assert running.ended() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.close()
