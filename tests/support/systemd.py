"""A systemd of its own, as process 1 of namespaces, in which a unit is started for real."""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.drills import until

SOURCE = Path(__file__).parents[2] / "src"
SYSTEMD = Path("/lib/systemd/systemd")
UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--ipc", "--uts", "--net", "--cgroup")
OUTPUT = "/var/log/units"  # of the units that are started; journals need more than a few namespaces
PLACE = "/opt/degroot"  # where the unit expects the command
# the machine's files with a layer above, which goes with the mounts; $1: a folder, the rest: what is seen below PLACE
BOOT = f"""
set -e
base=$1; shift
mount --make-rprivate /
mount -t tmpfs none "$base"
mkdir -p "$base/upper" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
for pair in "$@"; do
    mkdir -p "$base/root{PLACE}/${{pair%%=*}}"
    mount --bind "${{pair#*=}}" "$base/root{PLACE}/${{pair%%=*}}"
done
cd "$base/root"
mkdir -p ".{PLACE}/bin"
printf '%s\\n' "$COMMAND" > ".{PLACE}/bin/degroot"
chmod 755 ".{PLACE}/bin/degroot" ".{PLACE}"
echo 'degroot:x:990:' >> etc/group
echo 'degroot:x:990:990::/nonexistent:/usr/sbin/nologin' >> etc/passwd
mkdir -p etc/degroot
cp -r ".{PLACE}/etc/." etc/degroot
chown -R root:990 etc/degroot
chmod -R u=rwX,g=rX,o= etc/degroot
cp -r ".{PLACE}/units/." etc/systemd/system
rm -rf etc/systemd/system/*.wants
: > etc/machine-id
mount -t proc none proc
mount -t tmpfs none run
mount -t tmpfs none tmp
mount --rbind /dev dev
mount -t sysfs none sys
mount -t cgroup2 none sys/fs/cgroup
ip link set lo up
mkdir -p machine
pivot_root . machine  # in a mere chroot there are no namespaces of users
umount -l machine
exec env -i container=tests PATH="$PATH" {SYSTEMD} --unit=basic.target --log-target=console --show-status=no
"""


class Systemd:
    """A running one. `unit`: a file; `etc`: a folder with what is to be in /etc/degroot."""

    def __init__(self, folder, unit, etc):
        units = folder / "units"
        (units / f"{unit.name}.d").mkdir(parents=True)
        shutil.copy(unit, units)
        output = f"[Service]\nStandardOutput=append:{OUTPUT}\nStandardError=append:{OUTPUT}\n"
        (units / f"{unit.name}.d" / "output.conf").write_text(output)
        self._log = folder / "systemd.log"
        base = folder / "base"
        base.mkdir()
        python = f"{PLACE}/python/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
        command = f"#!/bin/sh\nexport PYTHONPATH={PLACE}/src:{PLACE}/site LD_LIBRARY_PATH={PLACE}/python/lib\n"
        command += f"exec {python} -c 'from degroot.cli import main; main()' \"$@\""
        seen = {
            "python": sys.base_prefix, "site": sysconfig.get_path("purelib"), "src": SOURCE, "units": units, "etc": etc,
        }  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*UNSHARE, "sh", "-c", BOOT, "sh", str(base), *(f"{name}={path}" for name, path in seen.items())],
                stdout=log, stderr=log, env={**os.environ, "COMMAND": command},
            )  # fmt: skip

    @property
    def log(self):
        return self._log.read_text(errors="replace")

    def run(self, *command, check=True):
        """What a command says that is run beside it."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        enter = ["nsenter", "-t", children[0], "-m", "-p", "-n", "-i", "-u", "-C", "-r", "-w"]
        done = subprocess.run([*enter, *command], capture_output=True, text=True, timeout=900)
        assert not check or done.returncode == 0, (
            f"{command}: {done.stdout}{done.stderr}\n{self.read_output()}\n{self.log}"
        )
        return done.stdout + done.stderr

    def read_output(self):
        """What the units have said."""
        return self.run("cat", OUTPUT, check=False)

    def show(self, unit, name):
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()

    def is_up(self):
        assert self._process.poll() is None, self.log
        with contextlib.suppress(IndexError, OSError):
            return "active" in self.run("systemctl", "is-active", "basic.target", check=False).split()

    def __enter__(self):
        until(self.is_up, lambda: self.log, 120)
        return self

    def __exit__(self, *_):
        self._process.kill()  # and with it all that is in its namespaces
        self._process.wait()


def check_possible():
    """Skip where no systemd can be started in namespaces."""
    lacking = [name for name in ("unshare", "nsenter", "systemctl", "ip", "chroot") if not shutil.which(name)]
    if os.geteuid() != 0 or not SYSTEMD.exists() or lacking:
        pytest.skip("a systemd in namespaces needs root, systemd, util-linux and iproute2, which are not all here")
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("a systemd in namespaces needs these, which this machine does not allow")
