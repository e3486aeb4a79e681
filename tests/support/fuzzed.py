"""Command lines, flagfiles and TF_CONFIGs that nobody would write, by a seed."""

import json
import pathlib
import random

from absl import flags as absl_flags

# What may be wrong with a number, a text, a list or JSON.
VALUES = (
    "", " ", "0", "-1", "1", "2", "3", "0.5", "-0.5", "1e30", "-1e30", "1e-30", "nan", "inf",
    "-inf", "99999999999999999999", "2147483648", "2000000000", "100000", "none", "None", "auto",
    "true", "false", "yes", "abc", "a:b", ":", "::", "a.b:C", "ps_dqn:Q", "os:path", "1,2",
    "1,,2", ",", "1,x", "64,64", "0x10", "1_000", "٣", "ü", "😀", "x" * 3000, "a b", "-", "--",
    "=", "{}", "[]", "[1]", "null", '{"a": NaN}', '{"a": 1}', '{"a": [[[[]]]]}', "{",
    '{"render_mode": "human"}', "%s", "${HOME}", "~", "/", "/dev/null", "..", "\n", "\t1",
    "CartPole-v1", "Acrobot-v1", "Nothing-v0", "50%", "1GiB", "-1GiB", "1e3GiB", "localhost:1",
    "localhost:99999", "h:3,h:3", "[::1]:80", "{}:2222", "a-{}:1",
)  # fmt: skip
# These say where files go, or read any file; they have cases of their own.
SPARED = {
    "run_dir",
    "compile_cache",
    "flagfile",
    "resume",
    "undefok",
    "help",
    "helpfull",
    "helpshort",
}


class Fuzz:
    """Cases by a seed, each another."""

    def __init__(self, values: absl_flags.FlagValues, folder: pathlib.Path, seed: int):
        self._rng, self._folder = random.Random(seed), folder
        self._flags = sorted(name for name in values if name not in SPARED)
        self._values = values

    def words(self) -> list[str]:
        """A few flags."""
        words = [self._word() for _ in range(self._rng.choice([1, 1, 1, 2, 3]))]
        if self._rng.random() < 0.15:
            words.append(f"--flagfile={self._flagfile()}")
        return words

    def tf_config(self) -> str | None:
        """A cluster, mostly none."""
        if self._rng.random() < 0.85:
            return None
        rng = self._rng
        addresses = [rng.choice([*VALUES, "localhost:1234", "h:1"]) for _ in range(3)]
        cluster = {
            rng.choice(["chief", "ps", "worker", "master", "x"]): rng.choice(
                [addresses, addresses[:1], "h:1", 3, None, {"0": "h:1"}, []]
            )
            for _ in range(3)
        }
        task = {
            "type": rng.choice(["chief", "ps", "x", 1, None]),
            "index": rng.choice([0, 1, -1, "0"]),
        }
        text = json.dumps(
            rng.choice([{"cluster": cluster, "task": task}, {"cluster": cluster}, task])
        )
        choice = rng.random()
        if choice < 0.1:
            return text[: rng.randrange(len(text))]
        if choice < 0.15:
            return "[" * rng.choice([10, 100_000])
        return text

    def _word(self) -> str:
        name, rng = self._rng.choice(self._flags), self._rng
        flag = self._values[name]
        if rng.random() < 0.03:
            name += rng.choice("sx_-=")
        if rng.random() < 0.05:
            return rng.choice([f"--{name}", f"-{name}", f"--no{name}", name, f"--no{name}=1"])
        choices = list(getattr(flag.parser, "enum_values", None) or [])
        value = rng.choice([*VALUES, *choices * 8, *[str(flag.value)] * 8])
        return f"--{name}={value}"

    def _flagfile(self) -> pathlib.Path:
        rng, path = self._rng, self._folder / "fuzzed.flags"
        text = "\n".join(self._word() for _ in range(3))
        ways = [
            lambda: rng.randbytes(200),
            lambda: text.encode("utf-16"),
            lambda: text.encode(errors="replace"),
            lambda: f"--flagfile={path}\n".encode(),
            lambda: b"",
            lambda: b"\x00" * 50,
            lambda: b"# only\n",
        ]
        path.write_bytes(rng.choice(ways)())
        return rng.choice(
            [path, path, path, self._folder, self._folder / "gone", pathlib.Path("/dev/zero")]
        )
