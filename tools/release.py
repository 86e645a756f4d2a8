# SPDX-License-Identifier: Apache-2.0
"""Prepare a release: version, changelog section, wheel and sdist, each installed and tried in a bare environment.

make release VERSION=0.2.0       # the same as: python tools/release.py 0.2.0
make release                     # builds and tries the version that is there; changes no file

Nothing is committed, tagged or uploaded: the commands for that are printed last.
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = ROOT / "src" / "ttmem" / "_version.py"
CHANGELOG = ROOT / "CHANGELOG.md"
BUILT = ROOT / ".cache" / "release"
_VERSION = re.compile(r'__version__ = "([^"]+)"')
_UNRELEASED = "## Unreleased\n"


def set_version(version: str) -> None:
    """Write the version and give the changelog's unreleased section its name and date."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", version):
        raise SystemExit(f"release: '{version}' is not a version such as 0.2.0 or 0.2.0rc1")
    changelog = CHANGELOG.read_text()
    if _UNRELEASED not in changelog:
        raise SystemExit("release: CHANGELOG.md has no section '## Unreleased'")
    body = changelog.split(_UNRELEASED, 1)[1].split("\n## ", 1)[0]
    if "- " not in body:
        raise SystemExit("release: the section '## Unreleased' of CHANGELOG.md is empty")
    heading = f"{_UNRELEASED}\n## {version} ({datetime.date.today().isoformat()})\n"
    CHANGELOG.write_text(changelog.replace(_UNRELEASED, heading, 1))
    VERSION_FILE.write_text(_VERSION.sub(f'__version__ = "{version}"', VERSION_FILE.read_text()))


def build() -> list[Path]:
    """Build the sdist and the wheel into an empty folder."""
    shutil.rmtree(BUILT, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(BUILT)], cwd=ROOT, check=True)
    return sorted(BUILT.glob("ttmem-*"))


def try_package(package: Path) -> None:
    """Install a package in a bare environment and run three verbs there, far from the checkout."""
    place = BUILT / f"bare-{'sdist' if package.suffix == '.gz' else 'wheel'}"
    venv.create(place, with_pip=True)
    program = str(place / "bin" / "ttmem")
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["TTMEM_HOME"] = str(place / "home")
    example = ROOT / "docs" / "examples" / "real-oom.log"
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    commands = (
        [*pip, "--constraint", str(ROOT / "constraints.txt"), str(package)],
        [program, "--version"],
        [program, "explain", str(example)],
        [program, "tensor", "1x32x4096x4096", "--board", "n150"],
    )
    for words in commands:
        done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"release: {package.name}: {' '.join(words)} ended with {done.returncode}\n{done.stderr}")
    print(f"tried {package.name} in a bare environment: --version, explain, tensor")


def main() -> int:
    """Set the version if one is given, build, try, and print what is left to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", help="the new version; without it the present one is built and tried")
    version = parser.parse_args().version
    if version:
        set_version(version)
    packages = build()
    if len(packages) != 2:
        raise SystemExit(f"release: expected a wheel and an sdist, got {[package.name for package in packages]}")
    for package in packages:
        try_package(package)
    found = _VERSION.search(VERSION_FILE.read_text())
    assert found is not None
    print(f"built in {BUILT.relative_to(ROOT)}: {', '.join(package.name for package in packages)}")
    if version:
        print(f"next: git commit -am 'Release {version}' && git tag v{version}, then upload the two files")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
