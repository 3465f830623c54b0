"""What this installation consists of: an SBOM (CycloneDX 1.6, JSON) or a table of licences.

    python -m benchmarks.sbom [--extras dev] > sbom.json
    python -m benchmarks.sbom --licences > docs/licences.md

Only what gpu-triage needs is listed: its dependencies and theirs, as their own metadata say. The same packages give the
same bytes: no time, no serial number.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAME = "gpu-triage"
LONGEST = 80  # characters of a licence's name; some packages put the whole text there
HEAD = """# Licences

Made by `make licences` from the metadata of what is installed with `pip install gpu-triage`, for Python 3.11 on Linux.
Packages of the extras are named in CONTRIBUTING.md.

| package | version | licence |
|---|---|---|
"""


def main() -> None:
    """Print one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", help="extras of gpu-triage to follow, with commas between")
    parser.add_argument("--licences", action="store_true")
    asked = parser.parse_args()
    extras = {each for each in asked.extras.split(",") if each}
    print(table(extras) if asked.licences else json.dumps(bill(extras), indent=1, sort_keys=True))


def needed(extras: set[str]) -> list[Distribution]:
    """The installed packages that gpu-triage needs with these extras, itself left out, by name."""
    found: dict[str, Distribution] = {}
    pending = [(NAME, frozenset(extras))]
    while pending:
        name, wanted = pending.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:  # not needed on this platform, or not installed
            continue
        if name in found:
            continue
        found[name] = package
        pending += [(canonicalize_name(each.name), frozenset(each.extras)) for each in _required(package, wanted)]
    return [found[name] for name in sorted(found) if name != NAME]


def _required(package: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in package.requires or []:
        each = Requirement(text)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield each


def licence(package: Distribution) -> str:
    """SPDX expression when the package has one, else what its classifiers or its licence field say."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return str(expression)
    classified = [
        text.rpartition(" :: ")[2] for text in about.get_all("Classifier") or [] if text.startswith("License")
    ]
    field = re.sub(r"\s+", " ", about.get("License") or "").strip()
    return " and ".join(classified) or (field if 0 < len(field) <= LONGEST else "see the package")


def table(extras: set[str]) -> str:
    """The licences as Markdown."""
    rows = [f"| {one.metadata['Name']} | {one.version} | {licence(one)} |" for one in needed(extras)]
    return HEAD + "\n".join(rows)


def bill(extras: set[str]) -> dict[str, Any]:
    """The bill of materials, validated against nothing but the fields that the format requires."""
    own = distribution(NAME)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(own) | {"type": "application"}},
        "components": [_component(one) for one in needed(extras)],
        "dependencies": [_depends(one, frozenset(extras)) for one in [own, *needed(extras)]],
    }


def _component(package: Distribution) -> dict[str, Any]:
    name = canonicalize_name(package.metadata["Name"])
    reference = f"pkg:pypi/{name}@{package.version}"
    return {
        "type": "library", "bom-ref": reference, "name": name, "version": package.version, "purl": reference,
        "licenses": [{"license": {"name": licence(package)}}],
    }  # fmt: skip


def _depends(package: Distribution, extras: frozenset[str]) -> dict[str, Any]:
    name = canonicalize_name(package.metadata["Name"])
    names = {canonicalize_name(each.name) for each in _required(package, extras if name == NAME else frozenset())}
    known = {canonicalize_name(one.metadata["Name"]): one for one in needed(set(extras))}
    on = sorted(f"pkg:pypi/{each}@{known[each].version}" for each in names if each in known)
    return {"ref": f"pkg:pypi/{name}@{package.version}", "dependsOn": on}


if __name__ == "__main__":
    main()
