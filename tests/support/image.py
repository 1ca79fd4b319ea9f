"""An image without a builder: the steps of a Containerfile, carried out in folders that are the roots of its stages."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"  # what stands in for an image with Python
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
# $1: the root of a stage; $INDEXES: folders of this machine in which pip looks for packages
BUILD = """
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
for index in $INDEXES; do mkdir -p "$root$index" && mount --bind "$index" "$root$index"; done
exec chroot "$root" "$@"
"""
# nothing can be written but /tmp and the state, by a user without a name or rights, in a network of its own
RUN = """
root=$1 configuration=$2 state=$3 user=$4; shift 4
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/etc/degroot"
mount -o remount,ro,bind "$root"
mount -t proc none "$root/proc"
mount -t tmpfs none "$root/tmp"
mount --rbind /dev "$root/dev"
mount --bind "$configuration" "$root/etc/degroot"
mount -o remount,ro,bind "$root/etc/degroot"
mount --bind "$state" "$root/var/lib/degroot"
ip link set lo up
exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"
"""


def read_steps(text):
    """The instructions of a Containerfile, in order: a word, and what it is told."""
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


class Image:
    """What a Containerfile makes. `base`: the root of the image that it begins with."""

    def __init__(self, text, base, folder):
        self._base, self._folder = base, folder
        self._stages, self._arguments = {}, {}  # roots by name; what an ARG is if nobody says otherwise
        self.environment, self.user, self.folder = {}, "0:0", "/"
        for word, told in read_steps(text):
            getattr(self, f"_do_{word.lower()}", self._keep)(told)

    def command(self):
        """What a container runs."""
        return json.loads(self.entrypoint) + json.loads(self.cmd)

    def _keep(self, told):
        """What has a meaning only when a container runs, or for its registry; a test looks at it in the text."""

    def _do_entrypoint(self, told):
        self.entrypoint = told

    def _do_cmd(self, told):
        self.cmd = told

    def _do_arg(self, told):
        name, _, value = told.partition("=")
        self._arguments[name] = value or self._arguments[name]

    def _do_from(self, told):
        name = told.partition(" AS ")[2] or "image"
        self.root = self._stages[name] = self._folder / name
        self.environment = {"PATH": PATH}
        subprocess.run(["cp", "-a", "--one-file-system", self._base, self.root], check=True)  # devices stay devices
        for link in ("/etc/resolv.conf", "/etc/hosts", os.environ.get("SSL_CERT_FILE", "")):
            if link and Path(link).is_file():
                place = Path(f"{self.root}{link}")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(link, place)

    def _do_copy(self, told):
        *sources, place = shlex.split(told)
        above = ROOT
        if sources[0].startswith("--from="):
            above = self._stages[sources.pop(0).removeprefix("--from=")]
        for source in sources:
            path, target = above / source.lstrip("/"), Path(f"{self.root}{place}")
            target = target / path.name if place.endswith("/") else target
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__") if above == ROOT else None
                shutil.copytree(path, target, symlinks=True, ignore=ignored)
            else:
                shutil.copy2(path, target)

    def _do_env(self, told):
        for each in shlex.split(told):
            name, _, value = each.partition("=")
            self.environment[name] = self._fill_in(value)

    def _do_run(self, told):
        settings, indexes = find_package_settings()
        done = subprocess.run(
            [*NAMESPACES, "sh", "-ec", BUILD, "sh", str(self.root), "/bin/sh", "-c", told],
            env={**settings, **self._arguments, **self.environment, "INDEXES": indexes, "HOME": "/tmp"},
            capture_output=True, text=True, timeout=1800,
        )  # fmt: skip
        if "No matching distribution" in done.stderr or "NewConnectionError" in done.stderr:
            pytest.skip(f"the package index cannot be reached: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, f"RUN {told}\n{done.stdout}{done.stderr}"

    def _do_user(self, told):
        self.user = told

    def _do_workdir(self, told):
        self.folder = told

    def _fill_in(self, value):
        known = {**self._arguments, **self.environment}
        return re.sub(r"\$\{?(\w+)\}?", lambda found: known[found[1]], value)

    def start(self, configuration, state, log):
        """A container with a root that cannot be written, as Kubernetes runs it."""
        state.mkdir()
        os.chown(state, *map(int, self.user.split(":")))
        script = [*NAMESPACES, "--net", "sh", "-ec", RUN, "sh", *map(str, (self.root, configuration, state, self.user))]
        with log.open("wb") as told:
            return subprocess.Popen([*script, *self.command()], env=self.environment, stdout=told, stderr=told)


def find_package_settings():
    """How pip is told here where packages are, and the folders that are among these."""
    told = subprocess.run(["pip", "config", "list"], capture_output=True, text=True).stdout
    settings = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    for name, value in re.findall(r"^global\.([\w-]+)='(.*)'$", told, re.MULTILINE):
        settings.setdefault(f"PIP_{name.upper().replace('-', '_')}", value)
    places = {Path(word.removeprefix("file://")) for value in settings.values() for word in value.split()}
    folders = [path for path in places if path.is_absolute() and path.is_dir()]
    return settings, " ".join(str(path.parent if path.name == "simple" else path) for path in folders)


def make_base(folder):
    """The root of a small Debian with Python, or a skip."""
    lacking = [name for name in ("debootstrap", "unshare", "setpriv", "chroot", "ip") if not shutil.which(name)]
    if os.geteuid() != 0 or lacking:
        pytest.skip("an empty root needs root and debootstrap, unshare, setpriv and ip, which are not all here")
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "stable", str(folder)],
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"debootstrap cannot make an empty root here: {(done.stderr or done.stdout).splitlines()[-1]}")
    return folder
